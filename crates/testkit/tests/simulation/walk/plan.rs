//! Which walk: a seed, and which of its steps are taken. Each step draws from a source of chance of its own, so that one
//! that is left out changes nothing of the others; that is how a walk that fails is made short.

use std::{fmt, str::FromStr};

/// Steps of a walk.
pub const STEPS: usize = 16;

/// See the module. Written `5017`, or with the steps that it takes, from 0, `5017:2,9`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Of all chance.
    pub seed: u64,
    /// In this order.
    pub steps: Vec<usize>,
}

impl Plan {
    /// With all its steps.
    pub fn whole(seed: u64) -> Self {
        Self { seed, steps: (0..STEPS).collect() }
    }

    /// What a step draws from.
    pub fn chance(&self, step: usize) -> fastrand::Rng {
        let step = (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fastrand::Rng::with_seed(self.seed ^ step)
    }

    /// What is drawn from for what happens beside a step.
    pub fn beside(&self, step: usize) -> fastrand::Rng {
        fastrand::Rng::with_seed(!self.chance(step).get_seed())
    }

    /// As few steps as still fail, by taking out halves, quarters and so on to single ones (Zeller's ddmin).
    pub fn shrunk(&self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut plan = self.clone();
        let mut size = plan.steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < plan.steps.len() {
                let mut fewer = plan.clone();
                fewer.steps.drain(at..(at + size).min(fewer.steps.len()));
                if fails(&fewer) { plan = fewer } else { at += size }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        plan
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::whole(self.seed) {
            return write!(f, "{}", self.seed);
        }
        let steps: Vec<_> = self.steps.iter().map(ToString::to_string).collect();
        write!(f, "{}:{}", self.seed, steps.join(","))
    }
}

impl FromStr for Plan {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((seed, steps)) = text.split_once(':') else { return Ok(Self::whole(text.parse()?)) };
        let steps = steps.split(',').filter(|step| !step.is_empty());
        Ok(Self { seed: seed.parse()?, steps: steps.map(str::parse).collect::<Result<_, _>>()? })
    }
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    for text in ["5017", "5017:2,9", "5017:"] {
        assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
    }
}

#[test]
fn a_plan_is_shrunk_to_the_steps_that_it_needs() {
    let needs = |plan: &Plan, these: &[usize]| these.iter().all(|step| plan.steps.contains(step));
    for these in [&[][..], &[7], &[0, 15], &[3, 4, 12]] {
        assert_eq!(Plan::whole(1).shrunk(|plan| needs(plan, these)).steps, these);
    }
}
