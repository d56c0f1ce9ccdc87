//! Texts as a terminal may show them: what members and servers say without control characters, cut; ages as
//! kubectl writes them.

use jiff::Timestamp;
use vidra_api::Time;
pub use vidra_core::first_of::count;
use vidra_core::first_of::more;
use vidra_core::status::Reason;
use vidra_core::unseen::{escaped_json, is_unseen};

/// One line without control characters, those that reorder text among them: each is written out.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => cleaned.push_str("\\n"),
            '\t' => cleaned.push_str("\\t"),
            '\r' => cleaned.push_str("\\r"),
            c if is_unseen(c) => cleaned.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// [`clean`], and at most so many characters of it.
pub fn brief(text: &str, most: usize) -> String {
    let cleaned = clean(text);
    if cleaned.chars().count() <= most {
        return cleaned;
    }
    cleaned.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Where a command begins that the hub gives to copy.
const COMMAND: &str = ": kubectl annotate ";
/// Longest clause that says what a command is for.
const WHEN_MAX: usize = 160;
/// Most commands that stand below a report.
const COMMANDS_MAX: usize = 10;

/// A command that a person is to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What it is for: the clause before it.
    when: String,
    /// It, whole.
    run: String,
}

/// Reasons whose messages are the hub's own words. What members and their objects say may look like a command, and is none.
const OWN_WORDS: [Reason; 6] = [
    Reason::AnotherCluster,
    Reason::RemovalHeld,
    Reason::HubRestored,
    Reason::IdentityNotConfirmed,
    Reason::CRDTerminating,
    Reason::ResourceMissing,
];

/// `KIND NAME [-n NAMESPACE] [--overwrite] KEY=VALUE`, for one object and a key of the hub's.
fn is_own_form(arguments: &str) -> bool {
    let words: Vec<_> = arguments.trim_end_matches('.').split(' ').collect();
    let is_name = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let is_value = |word: &str| {
        let value = word.strip_prefix("vidra.dev/").and_then(|word| word.split_once('='));
        value.is_some_and(|(key, value)| is_name(key) && value.split(',').all(is_name))
    };
    let [kind, name, options @ .., value] = words.as_slice() else { return false };
    let is_known = match options {
        [] | ["--overwrite"] => true,
        ["-n", namespace] | ["-n", namespace, "--overwrite"] => is_name(namespace),
        _ => false,
    };
    is_name(kind) && is_name(name) && is_known && is_value(value)
}

/// [`brief`] of a message without the commands in it, and these: where the words of its reason are the hub's, and only
/// commands of the form that the hub gives.
pub fn without_commands(message: &str, reason: &str, most: usize) -> (String, Vec<Command>) {
    if !Reason::parse(reason).is_some_and(|reason| OWN_WORDS.contains(&reason)) {
        return (brief(message, most), Vec::new());
    }
    let mut parts = message.split(COMMAND);
    let (mut told, mut commands) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
    for part in parts {
        let end = ["; ", ". "].iter().filter_map(|stop| part.find(stop)).min().unwrap_or(part.len());
        let (arguments, rest) = part.split_at(end);
        if is_own_form(arguments) {
            let clause = [". ", "; ", ", "]
                .iter()
                .filter_map(|stop| told.rsplit(stop).next())
                .min_by_key(|it| it.len());
            let when = brief(clause.unwrap_or_default(), WHEN_MAX);
            commands
                .push(Command { when, run: format!("kubectl annotate {}", arguments.trim_end_matches('.')) });
            told.push_str(": see below");
        } else {
            told.push_str(COMMAND);
            told.push_str(arguments);
        }
        told.push_str(rest);
    }
    (brief(&told, most), commands)
}

/// Lines for these commands, each of them once, and by itself on its line.
pub fn command_lines(commands: impl IntoIterator<Item = Command>) -> String {
    let mut all: Vec<Command> = Vec::new();
    for command in commands {
        if !all.iter().any(|known| known.run == command.run) {
            all.push(command);
        }
    }
    let rest = more(all.len().saturating_sub(COMMANDS_MAX), |more| {
        format!("  and {}\n", count(more, "more command"))
    });
    let lines = |command: &Command| format!("  {}:\n    {}\n", command.when, command.run);
    all.iter().take(COMMANDS_MAX).map(lines).collect::<String>() + &rest
}

/// JSON with everything outside of what a terminal may show escaped: it reads back as the same.
pub fn json(value: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    escaped_json(&text) + "\n"
}

/// YAML of a value whose texts are [`clean`].
pub fn yaml(value: &serde_json::Value) -> String {
    serde_saphyr::to_string(&cleaned(value)).unwrap_or_default()
}

fn cleaned(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.iter().map(cleaned).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (clean(key), cleaned(value))).collect())
        }
        other => other.clone(),
    }
}

/// How long ago, in kubectl's words.
/// Source: k8s.io/apimachinery/pkg/util/duration, HumanDuration.
pub fn age(then: &Time, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.0.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, unit: &str, small: i64, of: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{of}"),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => two(days / 365, "y", days % 365, "d"),
    }
}

/// [`age`], and "-" of what never was.
pub fn age_or_dash(then: Option<&Time>, now: Timestamp) -> String {
    then.map_or_else(|| "-".to_owned(), |then| age(then, now))
}

/// The instant, to the second.
pub fn instant(time: &Time) -> String {
    Timestamp::from_second(time.0.as_second()).unwrap_or(time.0).to_string()
}

/// The first few: `austin, berlin, +48`; all of them where `all` is wished.
pub fn names(names: &[String], all: bool) -> String {
    const SHOWN: usize = 3;
    let most = if all || names.len() <= SHOWN { names.len() } else { SHOWN - 1 };
    let mut shown: Vec<String> = names.iter().take(most).cloned().collect();
    if most < names.len() {
        shown.push(format!("+{}", names.len() - most));
    }
    shown.join(", ")
}

/// How many, and [`names`]: `50: austin, berlin, +48`.
pub fn some_of(all_names: &[String], all: bool) -> String {
    format!("{}: {}", all_names.len(), names(all_names, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        for (seconds, words) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 61, "3h1m"),
            (47 * 3600, "47h"),
            (50 * 3600, "2d2h"),
            (10 * 86_400, "10d"),
            (2 * 365 * 86_400 + 86_400, "2y1d"),
        ] {
            let then = Time(Timestamp::UNIX_EPOCH);
            assert_eq!(age(&then, Timestamp::from_second(seconds).unwrap()), words);
        }
    }

    #[test]
    fn what_would_move_a_terminal_is_written_out() {
        assert_eq!(clean("a\u{1b}[31mred\u{7}\nb\u{202e}c"), "a\\u{1b}[31mred\\u{7}\\nb\\u{202e}c");
        assert_eq!(brief("abcdef", 4), "abc…");
        assert_eq!(brief("abcd", 4), "abcd");
        let hostile = serde_json::json!({"k": "\u{9b}31m\u{202e}\u{1b}\u{e0041}"});
        let text = json(&hostile);
        assert!(text.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), hostile);
        assert!(yaml(&hostile).chars().all(|c| c == '\n' || (' '..='~').contains(&c)));
    }

    #[test]
    fn a_command_that_a_person_is_to_copy_is_never_cut() {
        let approve =
            "kubectl annotate vidraresource shop -n team-a --overwrite vidra.dev/approve-removal=5f0a";
        let orphan = "kubectl annotate vidratarget shop.berlin -n team-a vidra.dev/approve-removal=orphan";
        for (message, told, commands) in [
            ("nothing to run".to_owned(), "nothing to run", vec![]),
            (format!("held. If meant: {approve}"), "held. If meant: see below", vec![("If meant", approve)]),
            (format!("held: {approve}; 3 more"), "held: see below; 3 more", vec![("held", approve)]),
            (
                format!("{}. Do this, or that: {orphan}. Or all: {approve}.", "x".repeat(40)),
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxx…",
                vec![("or that", orphan), ("Or all", approve)],
            ),
            // Not the hub's: no annotation of ours, or more than names and values.
            ("so: kubectl annotate pod a b=c".to_owned(), "so: kubectl annotate pod a b=c", vec![]),
            ("so: kubectl annotate a vidra.dev/b=$(x)".to_owned(), "so: kubectl annotate a vidra.…", vec![]),
        ] {
            let of = |(when, run): (&str, &str)| Command { when: when.to_owned(), run: run.to_owned() };
            let commands: Vec<_> = commands.into_iter().map(of).collect();
            let held = without_commands(&message, "RemovalHeld", 30);
            assert_eq!(held, (told.to_owned(), commands), "{message}");
            // These words may be a member's.
            for reason in ["ObjectFailed", "ListFailed", "AnyOther", ""] {
                assert_eq!(without_commands(&message, reason, 30), (brief(&message, 30), Vec::new()));
            }
        }
        for arguments in [
            "vidraresource --all -n team-a vidra.dev/approve-removal=1",
            "vidraresource shop -A vidra.dev/approve-removal=1",
            "vidraresource shop --kubeconfig=/tmp/x vidra.dev/approve-removal=1",
            "vidraresource shop bank vidra.dev/approve-removal=1",
            "vidraresource shop vidra.dev/approve-removal=",
            "vidraresource shop vidra.dev/a=1 vidra.dev/b=2",
        ] {
            assert!(!is_own_form(arguments), "{arguments}");
        }
        let eleven = (0..11).map(|nth| Command { when: "so".to_owned(), run: format!("run {nth}") });
        assert!(command_lines(eleven).ends_with("  and 1 more command\n"));
        let twice = (0..24).map(|nth| Command { when: format!("as {nth}"), run: format!("run {}", nth / 2) });
        let lines = command_lines(twice);
        assert!(lines.starts_with("  as 0:\n    run 0\n  as 2:\n    run 1\n"), "{lines}");
        assert!(lines.ends_with("    run 9\n  and 2 more commands\n"), "{lines}");
        assert_eq!(command_lines([]), "");
    }

    #[test]
    fn many_names_are_counted() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(some_of(&names, false), "4: a, b, +2");
        assert_eq!(some_of(&names, true), "4: a, b, c, d");
        assert_eq!(some_of(&names[..3], false), "3: a, b, c");
    }
}
