//! Who watches the members all the week: nothing that is declared is deleted by the hub, and a member that asks to be
//! left alone is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use memkube::{Call, Changed, Cluster, Fault, Verb};
use parking_lot::Mutex;
use serde_json::Value;

/// So long a busy member asks to be left alone, each time that it is asked for something.
pub const ASKS: u32 = 20;

/// Of each day.
pub const HOURS: usize = 3;

/// What is on the members, by member and name.
type Places = BTreeSet<(String, String)>;

/// See the module.
#[derive(Clone, Default)]
pub struct Judge(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// ConfigMaps that are declared.
    declared: Places,
    /// What the hub has deleted and should not have.
    wrong: Vec<String>,
    /// How many deletions there were.
    deleted: usize,
    /// How often busy members were asked for something, probes apart.
    asked: BTreeMap<String, usize>,
}

/// The users that kubeconfigs name by turns.
pub fn is_of_hub(call: &Call) -> bool {
    matches!(&*call.user, "vidra-hub" | "alice")
}

pub fn is_probe(call: &Call) -> bool {
    call.verb == Verb::Get && call.path == "/api/v1/namespaces/kube-system"
}

impl Judge {
    /// Watches this member from now on.
    pub fn watch(&self, member: &Cluster) {
        let (own, name) = (self.0.clone(), member.name().to_owned());
        member.set_witness(Some(Arc::new(move |call: &Call, changes: &[Changed]| {
            if is_of_hub(call) {
                changes.iter().for_each(|change| own.lock().see(&name, call, change));
            }
        })));
    }

    /// A ConfigMap is declared on a member, or is not any more. Said before what is dropped is, and after what is added.
    pub fn declare(&self, member: &str, name: &str, is_declared: bool) {
        let mut seen = self.0.lock();
        let place = (member.to_owned(), name.to_owned());
        if is_declared {
            seen.declared.insert(place);
        } else {
            seen.declared.remove(&place);
        }
    }

    /// What is declared.
    pub fn declared(&self) -> BTreeSet<(String, String)> {
        self.0.lock().declared.clone()
    }

    /// From now on a member has too many requests.
    pub fn busy(&self, member: &Cluster) {
        let (own, name) = (self.0.clone(), member.name().to_owned());
        member.set_fault(Arc::new(move |call: &Call| {
            if !is_of_hub(call) {
                return Fault::None;
            }
            if !is_probe(call) {
                *own.lock().asked.entry(name.clone()).or_default() += 1;
            }
            Fault::TooMany(ASKS)
        }));
    }

    /// It has not any more. How often it was asked meanwhile.
    pub fn free(&self, member: &Cluster) -> usize {
        member.clear_fault();
        let asked = self.0.lock().asked.remove(member.name()).unwrap_or_default();
        // Its probes are refused too and ask for more each time, so each caller tries once in the longest pause; they are few.
        // One that has lost contact is asked as soon as it lets itself be asked, from the beginning on.
        let most = HOURS * 3600 / ASKS as usize + 1;
        assert!(asked <= most, "{}: {asked} calls in {HOURS} hours, {most} at most", member.name());
        asked
    }

    /// Nothing was deleted that should not have been. How many deletions there were.
    pub fn judged(&self) -> usize {
        let seen = self.0.lock();
        assert!(seen.wrong.is_empty(), "{} wrong deletions: {:#?}", seen.wrong.len(), seen.wrong);
        seen.deleted
    }
}

impl Seen {
    fn see(&mut self, member: &str, call: &Call, change: &Changed) {
        let goes = |object: Option<Arc<Value>>| {
            object.is_none_or(|object| !object["metadata"]["deletionTimestamp"].is_null())
        };
        if !goes(change.after()) || goes(change.before()) {
            return;
        }
        self.deleted += 1;
        let is_declared = self.declared.contains(&(member.to_owned(), change.name.clone()));
        if change.plural != "configmaps" || is_declared {
            self.wrong.push(format!("{member}: {} {} by {call}", change.plural, change.name));
        }
    }
}
