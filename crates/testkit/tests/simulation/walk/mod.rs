//! Random walks: a seed chooses what people do, what breaks and when the hub dies. What must hold at all
//! times is judged all the time; in the end everything mends, and the hub must bring all to what is declared
//! and then fall silent.
//!
//! `cargo xtask simulate` runs many; `VIDRA_SIM_WALK=<plan>` one, with what happens in it and the hub's logs.

mod backups;
mod documented;
mod end;
mod fresh;
mod gateways;
mod hindrances;
mod hubs;
mod leniency;
pub mod many;
mod mistakes;
mod model;
mod patience;
mod plan;
mod reached;
mod refusals;
mod removals;
mod rig;
mod steps;
mod strangers;
mod teams;
mod wishes;
mod workloads;
mod worlds;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use testkit::sim::{
    Shape, World,
    crash::{caught, stored},
    marks,
    marks::Mark,
    observer::CLEARS_WITHIN,
    run,
    trouble::LANDS_WITHIN,
    world::{hub_path_in, place_of},
};
use tokio::time::sleep;

use backups::Kept;
use hubs::OtherHub;
use model::{Docs, UNIQUE, VALUES, declaring};
pub use plan::Plan;
use plan::STEPS;
use rig::RIG;
use steps::{kinds, later, mix};
use teams::OTHER;

fn pick<T: Copy>(chance: &mut fastrand::Rng, from: &[T]) -> T {
    from[chance.usize(..from.len())]
}

struct Walk {
    world: World,
    /// Of the step that is taken.
    chance: fastrand::Rng,
    /// The kinds of steps that there are in this walk.
    mix: Vec<u8>,
    /// Those of them that came later.
    later: Vec<u8>,
    /// There is another team beside the first one. Without it a walk is what it would be if there never were any.
    others: bool,
    /// There is another hub beside the first one.
    other_hub: Option<OtherHub>,
    /// What each VidraResource that there is declares.
    declared: BTreeMap<&'static str, Docs>,
    /// What of the shop differs from cluster to cluster, by the slot that it changes.
    overrides: Vec<(&'static str, serde_json::Value)>,
    backups: BTreeMap<&'static str, memkube::Backup>,
    /// A backup of the hub.
    kept: Option<Kept>,
    /// Counts values, from another number at each step.
    values: usize,
    /// A member, or the hub, was put back to what it was: what a member has that no inventory knows and nobody wants is for people
    /// to remove.
    restored: bool,
    /// What that has brought back of VidraResources that did not declare it, by its key in a state.
    returned: BTreeSet<(String, String)>,
    /// What bears the marks of a VidraResource that nothing proves any more, by its key in a state.
    unproved: BTreeSet<(String, String)>,
    /// From now on nothing that is gone stays so.
    corrects: bool,
    told: bool,
}

impl Walk {
    async fn new(plan: &Plan, told: bool) -> Self {
        let seed = plan.seed;
        let mut chance = fastrand::Rng::with_seed(seed);
        // Most have two members; half have only some kinds of steps, and these the more often.
        let members = [2, 2, 2, 3, 4, 5][chance.usize(..6)];
        let others = teams::is_with_others(seed);
        let some = chance.bool();
        let mix = if some { mix(&mut chance, others) } else { kinds(others).collect() };
        let later = later(seed, some);
        let usual = Shape::of("walk", seed);
        let shape = Shape { latency: true, kept: true, lease: seed % 3 == 2, members, ..usual };
        let mut world = World::new(shape).await;
        // The observer has them: nobody asks the clusters.
        world.clusters.all().for_each(|cluster| cluster.set_recording(false));
        let shop = Docs::from([("a", "one"), ("b", "one"), ("s", "one")]);
        let mut declared = BTreeMap::from([("shop", shop), ("bank", bank())]);
        let mut made: Vec<_> = declared.iter().map(|(name, docs)| (*name, declaring(name, docs))).collect();
        if rig::is_with_rig(seed) {
            rig::found(&world).await;
            let (docs, its) = rig::made();
            declared.insert(RIG, docs);
            made.push((RIG, its));
        }
        if others {
            teams::found(&world).await;
            let (docs, theirs) = teams::others(&mut chance);
            declared.insert(OTHER, docs);
            made.push((OTHER, theirs));
        }
        for (name, resource) in made {
            world.create("hub", &hub_path_in(place_of(name).0, "vidraresources"), resource).await;
        }
        let other_hub = OtherHub::of(seed, &mut world).await;
        world.start_hub();
        let backups = BTreeMap::new();
        Self {
            world,
            chance,
            mix,
            later,
            others,
            other_hub,
            declared,
            overrides: Vec::new(),
            backups,
            kept: None,
            values: 0,
            restored: false,
            returned: BTreeSet::new(),
            unproved: BTreeSet::new(),
            corrects: false,
            told,
        }
    }

    fn pick_member(&mut self) -> &'static str {
        let members = self.world.members();
        self.pick(members)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        pick(&mut self.chance, from)
    }

    /// One of a few, or one that was never there: what is found must be the newest, and not by chance the same.
    fn value(&mut self) -> &'static str {
        self.values += 1;
        if self.chance.bool() { self.pick(&VALUES) } else { &UNIQUE[self.values % UNIQUE.len()] }
    }

    #[allow(clippy::print_stdout, reason = "one walk is looked at")]
    fn tell(&self, what: &str) {
        if self.told {
            println!("=== {:?} {what}", self.world.observer.elapsed());
        }
    }
}

fn bank() -> Docs {
    Docs::from([("c", "one"), ("s", "one")])
}

/// How a walk went.
struct Walked {
    /// What went wrong, if anything did.
    wrong: Vec<String>,
    /// All calls of the hub, where they are kept.
    trace: Vec<String>,
    /// All objects in the end, where they are kept.
    stored: Vec<String>,
    /// What it has reached.
    marks: BTreeSet<Mark>,
}

fn walk(plan: &Plan, told: bool) -> Walked {
    walk_and_keep(plan, told, false)
}

/// With what two walks of a seed are compared by. Of thousands that are not it would be text for nobody.
fn kept_walk(plan: &Plan) -> Walked {
    walk_and_keep(plan, false, true)
}

#[allow(clippy::print_stdout, reason = "one walk is looked at")]
fn walk_and_keep(plan: &Plan, told: bool, kept: bool) -> Walked {
    run(plan.seed, || async {
        marks::take();
        let mut walk = Walk::new(plan, told).await;
        let walked = caught(async {
            for step in &plan.steps {
                (walk.chance, walk.values) = (plan.chance(*step), step * VALUES_A_STEP);
                let pause = walk.chance.u64(..4000);
                sleep(Duration::from_millis(pause)).await;
                walk.meddle(plan.chance(*step).fork()).await;
                walk.work_rig(plan.beside(*step)).await;
                walk.step().await;
                walk.roll_out(false).await;
                walk.world.observer.judge_claims(STALE_AFTER);
            }
            if plan.steps.contains(&(STEPS - 1)) {
                walk.abandon_rig(plan.beside(STEPS)).await;
            }
            // A watch that failed again and again is begun again after a minute; if it has expired, another.
            sleep(CLEARS_WITHIN + LANDS_WITHIN + STALE_AFTER + SLACK).await;
            walk.tell("the end");
            walk.judge_before_the_nudge().await;
            walk.put_right().await;
            walk.mend().await
        })
        .await;
        let mut wrong = walk.world.observer.breaches();
        wrong.extend(walked.and_then(|mended| mended).err());
        let trace: Vec<_> = match told || kept {
            true => walk.world.observer.whole_trace().iter().map(ToString::to_string).collect(),
            false => Vec::new(),
        };
        if told {
            trace.iter().for_each(|seen| println!("{seen}"));
            walk.world.state().iter().for_each(|(key, object)| println!("{key}: {object}"));
        }
        let stored = if kept { stored(&walk.world) } else { Vec::new() };
        Walked { wrong, trace, stored, marks: marks::take() }
    })
}

/// More than any step takes.
const VALUES_A_STEP: usize = 8;

/// What began in the last moment of that has ended, and is told.
const SLACK: Duration = Duration::from_secs(5);

/// A target that says Ready and is not must say otherwise, or be so again, within this: a watch tells of it,
/// a pass looks, and a status waits for a second at most. A new life lists first.
const STALE_AFTER: Duration = Duration::from_secs(10);
