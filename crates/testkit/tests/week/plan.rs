//! What happens in the week, and when: a function of its scale alone.

use std::time::Duration;

use memkube::Down;

/// How large the fleet is, and how long its week.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub members: usize,
    /// Members that come and go.
    pub flapping: usize,
    /// Members that have too many requests for three hours of each day.
    pub busy: usize,
    /// VidraResources, each on four members, and each changed once.
    pub resources: usize,
    pub days: u64,
}

/// What every check has time for.
const SHORT: Scale = Scale { members: 8, flapping: 3, busy: 1, resources: 16, days: 2 };
/// What is meant.
const FULL: Scale = Scale { members: 200, flapping: 50, busy: 4, resources: 500, days: 7 };

impl Scale {
    /// The week of as many members as the variable VIDRA_WEEK says, and of as much else for each as is meant.
    pub fn chosen() -> Self {
        let Ok(members) = std::env::var("VIDRA_WEEK") else { return SHORT };
        let members: usize = members.parse().expect("VIDRA_WEEK is how many members there are");
        assert!(members >= SHORT.members, "at least {}", SHORT.members);
        let part = |whole: usize| (whole * members).div_ceil(FULL.members);
        let (flapping, busy, resources) = (part(FULL.flapping), part(FULL.busy), part(FULL.resources));
        Self { members, flapping, busy, resources, days: FULL.days }
    }

    /// The members of a VidraResource.
    pub fn places(&self, resource: usize) -> [usize; 4] {
        [0, 1, 3, 7].map(|step| (resource + step) % self.members)
    }

    fn busy_ones(&self) -> std::ops::Range<usize> {
        self.flapping..self.flapping + self.busy
    }
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A member is out of reach.
    Away(usize, Down),
    Back(usize),
    /// A member has too many requests.
    Busy(usize),
    Free(usize),
    /// The kubeconfig of a member is replaced.
    Rotate(usize),
    /// A VidraResource is changed.
    Change(usize),
    /// The one on all members is.
    ChangeAll,
    /// A namespace is made on the hub, with VidraResources in it.
    Begin(u64),
    /// It is deleted, with them.
    End(u64),
    /// An hour has passed.
    Hour,
}

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// Days from this one until before that one, in order. At their end all members are there, and nobody is busy.
pub fn days(scale: &Scale, from: u64, until: u64) -> Vec<(Duration, Act)> {
    let mut acts: Vec<(Duration, Act)> =
        (0..scale.flapping).flat_map(|member| flaps(member, from, until)).collect();
    for day in from..until {
        let at = |time: Duration| DAY * day as u32 + time;
        for member in 0..scale.members {
            acts.push((at(DAY / scale.members as u32 * member as u32), Act::Rotate(member)));
        }
        for member in scale.busy_ones() {
            acts.extend([(at(HOUR * 9), Act::Busy(member)), (at(HOUR * 12), Act::Free(member))]);
        }
        acts.push((at(HOUR * 10 + MINUTE * 10), Act::ChangeAll));
        for quarter in 0..4 {
            let (nth, begins) = (day * 4 + quarter, HOUR * 6 * quarter as u32 + HOUR / 2);
            acts.extend([(at(begins), Act::Begin(nth)), (at(begins + HOUR * 5), Act::End(nth))]);
        }
        acts.extend((0..24).map(|hour| (at(HOUR * hour), Act::Hour)));
        let (first, beyond) = (changed_by(scale, day), changed_by(scale, day + 1));
        let each = DAY / ((beyond - first).max(1) as u32);
        let changes = (first..beyond).zip(0..);
        acts.extend(changes.map(|(resource, nth)| (at(each * nth + each / 2), Act::Change(resource))));
    }
    acts.sort_by_key(|(at, _)| *at);
    acts
}

/// So many VidraResources are changed before this day.
fn changed_by(scale: &Scale, day: u64) -> usize {
    scale.resources * day as usize / scale.days as usize
}

/// A member that comes and goes, in its own time and its own way: for a minute of three, for hours, and between these.
fn flaps(member: usize, from: u64, until: u64) -> Vec<(Duration, Act)> {
    let own = member as u32;
    let period = match own % 10 {
        0 => MINUTE * 3,
        _ => MINUTE * 17 * (1 + own % 11) + Duration::from_secs(13) * own,
    };
    let away = period / (2 + own % 4);
    let how = [Down::Hang, Down::Refuse, Down::Queue][member % 3];
    let (begin, end) = (DAY * from as u32, DAY * until as u32);
    let first = begin + MINUTE * 20 + Duration::from_secs(29) * own;
    let times = (0..).map(|nth| first + period * nth).take_while(|at| *at + away + HOUR / 2 < end);
    times.flat_map(|at| [(at, Act::Away(member, how)), (at + away, Act::Back(member))]).collect()
}
