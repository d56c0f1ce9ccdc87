//! What is refused, each with its field and what to do.

use super::*;

#[test]
fn fields_of_a_cluster_are_refused_by_name() {
    for (field, value, expected) in [
        (
            "certificate-authority",
            json!("/etc/ca.crt"),
            "certificate-authority of cluster \"berlin\" is refused: the hub reads no files",
        ),
        (
            "insecure-skip-tls-verify",
            json!(true),
            "insecure-skip-tls-verify of cluster \"berlin\" is refused: anyone could pose as the member",
        ),
        (
            "insecure-skip-tls-verify",
            json!("true"),
            "insecure-skip-tls-verify of cluster \"berlin\" must be true or false",
        ),
        ("proxy-url", json!("http://proxy.example"), "proxy-url of cluster \"berlin\" is refused"),
        ("tls-server-name", json!("not a name"), "tls-server-name of cluster \"berlin\" must be a DNS name"),
        ("server", json!(null), "server of cluster \"berlin\" is missing"),
        ("server", json!(7), "server of cluster \"berlin\" must be text"),
        ("server", json!("http://api.example"), "server of cluster \"berlin\" is refused: http:// sends"),
        ("server", json!("api.example:6443"), "server of cluster \"berlin\" is no URL"),
        ("server", json!("ftp://api.example"), "server of cluster \"berlin\" is no URL"),
        ("server", json!("https://"), "server of cluster \"berlin\" is no URL"),
        ("server", json!("https://api.example/?a=b"), "server of cluster \"berlin\" is no URL"),
        (
            "server",
            json!("https://api.example:66443"),
            "server of cluster \"berlin\" has no port that can be used",
        ),
        (
            "server",
            json!("https://api.example:port"),
            "server of cluster \"berlin\" has no port that can be used",
        ),
        (
            "server",
            json!("https://[2001:db8::1]6443"),
            "server of cluster \"berlin\" has no port that can be used",
        ),
        (
            "server",
            json!(format!("https://me:{SECRET}@api.example")),
            "server of cluster \"berlin\" holds a user or password",
        ),
        (
            "server",
            json!("https://localhost:6443"),
            "server of cluster \"berlin\" points at localhost, a loopback address",
        ),
        (
            "server",
            json!("https://[::ffff:127.0.0.1]:6443"),
            "server of cluster \"berlin\" points at [::ffff:127.0.0.1], a loopback",
        ),
        (
            "server",
            json!("https://169.254.169.254"),
            "server of cluster \"berlin\" points at 169.254.169.254, a link-local",
        ),
        (
            "server",
            json!("https://[fe80::1]"),
            "server of cluster \"berlin\" points at [fe80::1], a link-local",
        ),
        ("server", json!("https://[fe80::1%25eth0]"), "server of cluster \"berlin\" is no URL"),
        (
            "server",
            json!("https://[fd00:ec2::254]"),
            "server of cluster \"berlin\" points at [fd00:ec2::254], a cloud's metadata",
        ),
        (
            "server",
            json!("https://metadata.google.internal"),
            "server of cluster \"berlin\" points at metadata.google.internal",
        ),
        (
            "server",
            json!("https://2130706433"),
            "server of cluster \"berlin\" points at 2130706433, an address that is not",
        ),
        (
            "certificate-authority-data",
            json!(null),
            "certificate-authority-data of cluster \"berlin\" is missing",
        ),
        (
            "certificate-authority-data",
            json!("%%%"),
            "certificate-authority-data of cluster \"berlin\" is not base64",
        ),
        (
            "certificate-authority-data",
            json!(base64("garbage")),
            "certificate-authority-data of cluster \"berlin\" holds something else",
        ),
        (
            "certificate-authority-data",
            json!(base64(pem("PRIVATE KEY", KEY))),
            "certificate-authority-data of cluster \"berlin\" holds no certificate",
        ),
        (
            "certificate-authority-data",
            json!(base64("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n")),
            "certificate-authority-data of cluster \"berlin\" holds damaged PEM",
        ),
    ] {
        let message = refusal(&config(&with(good_cluster(), field, value.clone()), &good_user()));
        assert!(message.starts_with(expected), "{value}: {message}");
    }
}

#[test]
fn fields_of_a_user_are_refused_by_name() {
    let certificate = base64(pem("CERTIFICATE", CERTIFICATE));
    for (user, expected) in [
        (
            json!({"exec": {"command": "aws"}}),
            "exec of user \"hub\" is refused: it would run a program in the hub",
        ),
        (json!({"exec": {}}), "exec of user \"hub\" is refused"),
        (json!({"auth-provider": {"name": "gcp"}}), "auth-provider of user \"hub\" is refused"),
        (
            json!({"client-certificate": "/a"}),
            "client-certificate of user \"hub\" is refused: the hub reads no files",
        ),
        (json!({"client-key": "/a"}), "client-key of user \"hub\" is refused: the hub reads no files"),
        (json!({"tokenFile": "/a"}), "tokenFile of user \"hub\" is refused: the hub reads no files"),
        (json!({"username": "me"}), "username of user \"hub\" is refused"),
        (json!({"password": SECRET}), "password of user \"hub\" is refused"),
        (json!({"as": "admin"}), "as of user \"hub\" is refused"),
        (json!({"as-groups": ["system:masters"]}), "as-groups of user \"hub\" is refused"),
        (json!({"client-certificate-data": certificate}), "client-key-data of user \"hub\" is missing"),
        (json!({"client-key-data": base64(KEY)}), "client-certificate-data of user \"hub\" is missing"),
        (
            json!({"client-certificate-data": certificate, "client-key-data": base64(SECRET)}),
            "client-key-data of user \"hub\" holds no private key",
        ),
        (
            json!({"client-certificate-data": certificate, "client-key-data": base64(pem("ENCRYPTED PRIVATE KEY", KEY))}),
            "client-key-data of user \"hub\" holds no private key",
        ),
        (
            json!({"client-certificate-data": SECRET, "client-key-data": base64(KEY)}),
            "client-certificate-data of user \"hub\"",
        ),
        (json!({"token": 1234}), "token of user \"hub\" must be text"),
        (json!({"token": format!("{SECRET} {SECRET}")}), "token of user \"hub\" holds a character"),
        (json!({"token": format!("{SECRET}\u{e9}")}), "token of user \"hub\" holds a character"),
    ] {
        // What is refused is refused beside good credentials too.
        let token = user.get("token").cloned().unwrap_or(json!(SECRET));
        let message = refusal(&config(&good_cluster(), &with(user.clone(), "token", token)));
        assert!(message.starts_with(expected), "{user}: {message}");
        assert!(!message.contains(SECRET), "{message}");
    }
    for user in
        [json!({}), json!({"token": ""}), json!({"token": " \n"}), json!({"username": "", "exec": null})]
    {
        let message = refusal(&config(&good_cluster(), &user));
        assert!(message.starts_with("user \"hub\" has no credentials"), "{user}: {message}");
    }
}

#[test]
fn a_kubeconfig_that_does_not_hold_together_is_refused() {
    let good = config(&good_cluster(), &good_user());
    let at = |pointer: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    for (value, expected) in [
        (at("/current-context", json!("")), "current-context of the kubeconfig is missing"),
        (
            at("/current-context", json!("her")),
            "current-context names \"her\", which is not among the contexts",
        ),
        (at("/contexts", json!(null)), "current-context names \"here\", which is not among the contexts"),
        (at("/contexts", json!({})), "contexts of the kubeconfig must be a list"),
        (at("/contexts/0/name", json!("here")), "\"here\" stands twice among the contexts"),
        (at("/contexts/1/context", json!(null)), "context of context \"here\" is missing"),
        (at("/contexts/1/context", json!([])), "context of context \"here\" must be a mapping"),
        (at("/contexts/1/context/cluster", json!("")), "cluster of context \"here\" is missing"),
        (
            at("/contexts/1/context/cluster", json!("paris")),
            "cluster names \"paris\", which is not among the clusters",
        ),
        (at("/contexts/1/context/user", json!("me")), "user names \"me\", which is not among the users"),
        (at("/contexts/1/context/user", json!(null)), "user of context \"here\" is missing"),
        (at("/clusters/1/cluster", json!("x")), "cluster of cluster \"berlin\" must be a mapping"),
        (at("/kind", json!("Secret")), "this is no kubeconfig"),
        (json!([1]), "the contents of the kubeconfig must be a mapping"),
        (json!("text"), "the contents of the kubeconfig must be a mapping"),
    ] {
        let message = refusal(&value);
        assert!(message.starts_with(expected), "{message}\nexpected {expected}");
    }
}

#[test]
fn what_is_no_text_of_a_kubeconfig_is_refused() {
    let long = vec![b' '; MAX_TEXT + 1];
    for (text, expected) in [
        (&b""[..], KubeconfigError::Empty),
        (b" \n", KubeconfigError::Empty),
        (b"# nothing\n", KubeconfigError::Empty),
        (b"null", KubeconfigError::Empty),
        (b"\xff\xfe\x00", KubeconfigError::NotText),
        (b"a: 1\n  b: [", KubeconfigError::Unreadable { line: Some(2) }),
        (b"a: 1\na: 2\n", KubeconfigError::Unreadable { line: Some(2) }),
        (&long, KubeconfigError::TooLarge { bytes: MAX_TEXT + 1, limit: MAX_TEXT }),
    ] {
        assert_eq!(parse(text, &NOTHING).map(|_| ()), Err(expected));
    }
}
