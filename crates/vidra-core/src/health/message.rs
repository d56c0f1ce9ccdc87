//! What an object's own text becomes before it stands in a status: short, seen, without secrets, and the same while
//! only its counts and times move.

use std::sync::LazyLock;

use regex::Regex;

use crate::unseen;

/// Most characters that a status repeats.
const TEXT_MAX: usize = 256;

/// What is cut, and what stands instead; in this order. None where a pattern of ours were wrong.
static CUTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let cuts = [
        // User info of URLs.
        (r"://\S*@", "://"),
        // What follows the name of a secret.
        (r"(?i)\b(bearer|basic)\s+\S+", "$1 #"),
        (
            r#"(?i)([\w-]*(?:token|password|passwd|secret|api[_-]?key|access[_-]?key|signature|\bsig)[\w-]*["']?)(\s*[=:]\s*)("[^"]*"|'[^']*'|\S+)"#,
            "$1$2#",
        ),
        // JSON Web Tokens and long keys.
        (r"\beyJ[\w-]+\.[\w-]*(\.[\w-]*)?", "#"),
        (r"\b[A-Za-z0-9+/_]{40,}={0,2}", "#"),
        // Uids and hashes: of hex, with a digit.
        (r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "#"),
        (r"\b[0-9a-f]*[0-9][0-9a-f]{6,}\b|\b[0-9a-f]{7,}[0-9][0-9a-f]*\b", "#"),
        // Times, versions and counts.
        (r"[0-9]+([.:-][0-9]+)*", "#"),
        (r"#[Tt]#[Zz]?", "#"),
    ];
    cuts.into_iter().filter_map(|(pattern, instead)| Some((Regex::new(pattern).ok()?, instead))).collect()
});

/// A text of an object as a status may show it: at most 256 characters.
pub(super) fn stable(text: &str) -> String {
    // What is cut is longer than what stands instead; beyond this nothing is shown.
    let begins: String = text.chars().take(8 * TEXT_MAX).collect();
    // A secret that ends there is not known for one: no word is read in part.
    let whole = match begins.len() < text.len() {
        true => begins.rsplit_once(char::is_whitespace).map_or("…", |(whole, _)| whole),
        false => &begins,
    };
    let cut = CUTS
        .iter()
        .fold(whole.to_owned(), |text, (pattern, instead)| pattern.replace_all(&text, *instead).into_owned());
    unseen::shown(&cut, TEXT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_times_and_secrets_of_texts_are_not_repeated() {
        for (text, told) in [
            ("3 of 4 replicas", "# of # replicas"),
            ("since 2026-01-02T03:04:05.678Z", "since #"),
            ("pod web-7f9c6d5b4-x2k9p", "pod web-#-x#k#p"),
            ("uid 0d1c2b3a-0000-4000-8000-00a0b0c0d0e0", "uid #"),
            ("sha256:0123456789abcdef", "sha#:#"),
            ("cannot reach https://user:pass@db.example:5432/x", "cannot reach https://db.example:#/x"),
            ("login with password=hunter and token: abc", "login with password=# and token: #"),
            ("DB_PASSWORD=hunter is wrong", "DB_PASSWORD=# is wrong"),
            (r#"{"password":"hunter two", "n":1}"#, r#"{"password":#, "n":#}"#),
            ("client_secret: abc; apiKey='a b'", "client_secret: # apiKey=#"),
            ("https://user:p@ss@db/x is away", "https://db/x is away"),
            ("Authorization: Bearer eyJhbGciOi.eyJz.sig", "Authorization: Bearer #"),
            ("a deadbeef word and a facade", "a deadbeef word and a facade"),
            ("two\nlines\u{202e}", "two lines\u{fffd}"),
        ] {
            assert_eq!(stable(text), told);
        }
        assert_eq!(stable(&"word ".repeat(1000)).chars().count(), 256);
        assert_eq!(CUTS.len(), 9, "each pattern is one");
    }
}
