//! What expressions may say, what they give, what they see, and that none of them is dear.
