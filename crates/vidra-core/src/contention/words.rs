//! What a target's status says of its contentions.

use super::{Contention, Contentions, Opponent, WINDOW};
use crate::first_of::more;

/// What is told of a contention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which object, who, how often, and what to do.
    pub message: String,
    /// Some object is not as declared, and is left so for a while.
    pub unrepaired: bool,
}

impl Contentions {
    /// The contentions in words; `None`: there are none. Equal contentions are told in equal words, whenever.
    pub fn told(&self) -> Option<Told> {
        let mut all: Vec<_> = self.iter().collect();
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
        let more = more(all.len() - 1, |more| format!("; so it is with {more} more"));
        let message =
            format!("{key} was repaired {times} times {}; {then}{more}", contention.undone(drifted));
        Some(Told { message, unrepaired: drifted })
    }
}

impl Contention {
    /// Who undid the repairs, each by what it did and how often. `drifted`: who did it last has not been undone.
    fn undone(&self, drifted: bool) -> String {
        if let [(opponent, _)] = self.opponents.iter().collect::<Vec<_>>()[..]
            && (*opponent == self.last || !drifted)
        {
            return format!("and {} {} each time", opponent.who(), opponent.did());
        }
        let mut opponents: Vec<_> = self.opponents.iter().collect();
        opponents.sort_by_key(|(opponent, times)| (std::cmp::Reverse(*times), *opponent));
        let told = opponents.iter().map(|(opponent, times)| match times {
            1 => format!("{} {} once", opponent.who(), opponent.did()),
            times => format!("{} {} {times} times", opponent.who(), opponent.did()),
        });
        let told = told.collect::<Vec<_>>().join(", ");
        match drifted {
            true => format!("({told}), and now {} {}", self.last.who(), self.last.did()),
            false => format!("({told})"),
        }
    }
}

impl Opponent {
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
