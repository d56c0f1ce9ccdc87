//! Which labels of a registration Secret go to its MemberCluster: those of the tools that keep the Secret are about the
//! Secret.

/// What holds where nobody says otherwise.
pub const DEFAULT: &str = "-argocd.argoproj.io/ -app.kubernetes.io/instance -app.kubernetes.io/managed-by \
     -*.toolkit.fluxcd.io/ -kustomize.* -helm.* -velero.io/";
/// So many prefixes may be given.
pub const PREFIXES_MAX: usize = 50;
/// The longest key of a label, and its mark.
const LONGEST: usize = 253 + 1 + 63 + 1;

/// Which labels of a registration the MemberCluster carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelFilter {
    /// Empty: all.
    only: Vec<Prefix>,
    not: Vec<Prefix>,
}

/// Texts that follow one another in a key, the first at its beginning, whatever is between them and behind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Prefix(Vec<String>);

impl Prefix {
    fn fits(&self, key: &str) -> bool {
        let mut parts = self.0.iter();
        let first = parts.next().map_or("", String::as_str);
        let Some(mut rest) = key.strip_prefix(first) else { return false };
        for part in parts {
            match rest.find(part.as_str()) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

impl Default for LabelFilter {
    fn default() -> Self {
        Self::parse(DEFAULT).unwrap_or(Self { only: Vec::new(), not: Vec::new() })
    }
}

impl LabelFilter {
    /// Reads prefixes of labels, apart by commas or white space: those that go, and behind a `-` those that do not. `*`
    /// stands for anything. Where none goes by name, all go that are not left out; what is left out is so whatever else
    /// fits it.
    ///
    /// # Errors
    /// In a sentence: there are too many, or one is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> =
            text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
        let is_key = |c: char| c.is_ascii_alphanumeric() || "-_./*".contains(c);
        let is_prefix = |word: &&str| {
            word.len() <= LONGEST && word.chars().all(is_key) && !word.trim_start_matches('-').is_empty()
        };
        if words.len() > PREFIXES_MAX || !words.iter().all(is_prefix) {
            return Err(format!(
                "write at most {PREFIXES_MAX} prefixes of labels, apart by commas or spaces, and - before those that are left out"
            ));
        }
        let (mut only, mut not) = (Vec::new(), Vec::new());
        for word in words {
            let (list, word) = match word.strip_prefix('-') {
                Some(word) => (&mut not, word),
                None => (&mut only, word),
            };
            list.push(Prefix(word.split('*').map(str::to_owned).collect()));
        }
        Ok(Self { only, not })
    }

    /// Whether a label goes to the MemberCluster.
    pub fn carries(&self, key: &str) -> bool {
        (self.only.is_empty() || self.only.iter().any(|prefix| prefix.fits(key)))
            && !self.not.iter().any(|prefix| prefix.fits(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(text: &str, keys: &[&'static str]) -> Vec<&'static str> {
        let rules = LabelFilter::parse(text).unwrap();
        keys.iter().copied().filter(|key| rules.carries(key)).collect()
    }

    #[test]
    fn by_default_all_go_but_those_of_the_tools_that_keep_secrets() {
        let own =
            ["env", "team.example.com/region", "app.kubernetes.io/name", "fluxcd.io/x", "helmut", "velero"];
        let tools = [
            "argocd.argoproj.io/instance",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/managed-by",
            "kustomize.toolkit.fluxcd.io/name",
            "source.toolkit.fluxcd.io/name",
            "helm.sh/chart",
            "velero.io/backup-name",
        ];
        assert_eq!(carried(DEFAULT, &own), own);
        assert_eq!(carried(DEFAULT, &tools), [""; 0]);
        assert_eq!(LabelFilter::default(), LabelFilter::parse(DEFAULT).unwrap());
    }

    #[test]
    fn prefixes_choose_and_what_is_left_out_is_so_whatever_else_fits_it() {
        let keys = ["env", "environment", "a.example.com/x", "a.example.com/secret", "b.example.com/x"];
        for (text, expected) in [
            ("", &keys[..]),
            ("env", &["env", "environment"]),
            ("*.example.com/, -*/secret", &["a.example.com/x", "b.example.com/x"]),
            ("-env -b.", &["a.example.com/x", "a.example.com/secret"]),
            ("a.example.com/\n-a.example.com/s", &["a.example.com/x"]),
            ("-*", &[]),
        ] {
            assert_eq!(carried(text, &keys), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_prefix_of_a_label_is_refused() {
        let many = "a ".repeat(PREFIXES_MAX + 1);
        for text in ["-", "--", "a=b", "é", &"x".repeat(LONGEST + 1), &many] {
            assert!(LabelFilter::parse(text).unwrap_err().contains("write at most 50 prefixes"), "{text}");
        }
    }
}
