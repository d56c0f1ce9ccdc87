//! What a target's status says of its fights.

use super::{Cause, Fights, WINDOW};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which object, who, how often, and what to do.
    pub message: String,
    /// Some object is not as declared, and is left so for a while.
    pub unrepaired: bool,
}

impl Fights {
    /// The fights in words; `None`: there are none. Equal fights are told in equal words, whenever.
    pub fn told(&self) -> Option<Told> {
        let mut all: Vec<_> = self.contentions().collect();
        // What is not repaired comes first, then by name.
        all.sort_by_key(|(key, _, drifted)| (!drifted, *key));
        let (key, contention, drifted) = *all.first()?;
        let who = match contention.by.as_slice() {
            [] => "somebody".to_owned(),
            names => {
                let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
                names.join(", ")
            }
        };
        let did = match contention.cause {
            Cause::Missing => "deleted it again",
            Cause::Marks | Cause::Values(_) | Cause::Unseen => "changed it back",
        };
        let times = contention.repairs;
        let then = match drifted {
            true => format!(
                "it is left as it is until {:.0}. Let one of the two have its way: stop the other one, or drop from the \
                 manifest what it writes",
                contention.until
            ),
            false => format!(
                "it is as declared since {:.0}, and this is over when that lasts for {} minutes",
                contention.repaired,
                WINDOW.as_secs() / 60
            ),
        };
        let more = match all.len() - 1 {
            0 => String::new(),
            more => format!("; so it is with {more} more"),
        };
        let message = format!("{key} was repaired {times} times and {who} {did} each time; {then}{more}");
        Some(Told { message, unrepaired: drifted })
    }
}
