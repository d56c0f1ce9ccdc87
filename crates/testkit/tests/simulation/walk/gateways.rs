//! Somebody stands between the hub and a member, and answers in its place: a gateway with pages of its own, or what says of
//! something else that it is not there. Nothing that he says is about the member's objects.

use std::time::Duration;

use testkit::sim::trouble::Between;
use tokio::time::sleep;

use super::{Walk, model::place, steps::AWAKES_WITHIN};

/// A member for which another one answers is told as one that does not answer within this: two probes that are missed, ten
/// seconds apart and five seconds long, and a status.
const TOLD_WITHIN: Duration = Duration::from_secs(40);
/// The codes of a gateway that answers for a member, as one that asks for credentials, has too much to do, or has no route.
const CODES: [u16; 5] = [403, 429, 404, 401, 502];

impl Walk {
    /// One of these, by its number from 0 to 2.
    pub(super) async fn stand_between(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 | 1 => self.answer_some(member, some).await,
            _ => self.answer_all(member, some).await,
        }
    }

    /// He answers some of what the hub asks, while something is to be removed there, mostly.
    async fn answer_some(&mut self, member: &'static str, some: Duration) {
        self.world.observer.cloud(member, some * 2);
        let chance = self.chance.fork();
        let between = Between { member: member.to_owned(), all: None, chance };
        self.world.observer.stand_between(Some(between));
        if self.chance.u8(..3) == 0 {
            self.world.cluster(member).cut_watches();
        }
        let slot = self.some_slot();
        match self.chance.u8(..6) {
            0 | 1 => self.declare_no_more(slot).await,
            2 => self.come_or_go().await,
            3 => self.select().await,
            4 => {
                self.world.crash_hub().await;
                self.world.start_hub();
                self.declare_no_more(slot).await;
            }
            _ => self.edit().await,
        }
        sleep(some * 2).await;
        self.world.observer.stand_between(None);
    }

    /// He answers all of it: that is no contact with the member. The others go on.
    async fn answer_all(&mut self, member: &'static str, some: Duration) {
        let lasts = TOLD_WITHIN + some;
        self.world.observer.cloud(member, lasts);
        let (all, chance) = (Some(self.pick(&CODES)), self.chance.fork());
        let between = Between { member: member.to_owned(), all, chance };
        self.world.observer.stand_between(Some(between));
        self.world.cluster(member).cut_watches();
        let (other, (path, tampered)) = (self.pick_member(), place(self.some_slot()));
        if other != member {
            self.world.try_patch(other, &path, tampered).await;
        }
        sleep(lasts).await;
        self.world.observer.judge_contact(member, TOLD_WITHIN);
        if other != member {
            self.world.observer.judge_core(other, AWAKES_WITHIN);
        }
        self.world.observer.stand_between(None);
    }
}
