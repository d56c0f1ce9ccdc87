//! What a target's status says of its fights.

use super::{Contention, Fights, Hand, WINDOW};

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
        let message =
            format!("{key} was repaired {times} times {}; {then}{more}", contention.undone(drifted));
        Some(Told { message, unrepaired: drifted })
    }
}

impl Contention {
    /// Who undid the repairs, each by what it did and how often. `drifted`: who did it last has not been undone.
    fn undone(&self, drifted: bool) -> String {
        if let [(hand, _)] = self.hands.iter().collect::<Vec<_>>()[..]
            && (*hand == self.last || !drifted)
        {
            return format!("and {} {} each time", hand.who(), hand.did());
        }
        let mut hands: Vec<_> = self.hands.iter().collect();
        hands.sort_by_key(|(hand, times)| (std::cmp::Reverse(*times), *hand));
        let told = hands.iter().map(|(hand, times)| match times {
            1 => format!("{} {} once", hand.who(), hand.did()),
            times => format!("{} {} {times} times", hand.who(), hand.did()),
        });
        let told = told.collect::<Vec<_>>().join(", ");
        match drifted {
            true => format!("({told}), and now {} {}", self.last.who(), self.last.did()),
            false => format!("({told})"),
        }
    }
}

impl Hand {
    fn who(&self) -> String {
        if self.by.is_empty() {
            return "somebody".to_owned();
        }
        let names: Vec<String> = self.by.iter().map(|name| format!("\"{name}\"")).collect();
        names.join(", ")
    }

    fn did(&self) -> &'static str {
        if self.deleted { "deleted it again" } else { "changed it back" }
    }
}
