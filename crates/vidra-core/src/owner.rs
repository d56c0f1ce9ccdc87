//! For whom objects are written, and whose a live object is: read off the object itself.

use serde_json::Value;
use vidra_api::{
    Conflicts,
    labels::HUB_LABEL,
    names::{HubId, OwnerHash},
};

use crate::fields;

/// For whom effects are performed.
#[derive(Clone, Debug)]
pub struct Owner {
    /// This hub.
    pub hub: HubId,
    /// The owner label's hash.
    pub hash: OwnerHash,
    /// The field manager.
    pub manager: String,
    /// `<namespace>/<name>` of the VidraResource.
    pub name: String,
    /// Its generation, written beside what is applied.
    pub generation: i64,
    /// When it was made, in seconds; 0 where nobody says.
    pub since: i64,
    /// Its target goes: what is not removed then is never looked at again.
    pub leaves: bool,
    /// Missing namespaces are made.
    pub create_namespaces: bool,
    /// What to do where others were first.
    pub conflicts: Conflicts,
    /// The id of the other hub whose objects in this member may be taken over, as a person wrote it.
    pub take_over_from: Option<String>,
}

impl Owner {
    /// It is the field manager of a VidraResource of this hub, of whatever name.
    pub fn is_of_hub(&self, manager: &str) -> bool {
        fields::is_of_hub(manager, self.hub.as_ref())
    }
}

/// Whose a live object is, read off the object itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Our own Apply entry owns our owner label.
    Ours,
    /// Another resource of this hub proves it its own.
    Shared,
    /// Its id as the label has it: for comparing; what is told of it is to be cleaned.
    OtherHub(String),
    /// A controller in the member has made it.
    Controlled,
    /// Nothing on it says that it is a hub's.
    Foreign,
}

/// A controller in the member makes it.
pub fn is_controlled(live: &Value) -> bool {
    controllers(live).next().is_some()
}

/// The object with this uid is that of its controller.
pub fn is_controlled_by(live: &Value, uid: &str) -> bool {
    controllers(live).any(|reference| reference["uid"] == uid)
}

fn controllers(live: &Value) -> impl Iterator<Item = &Value> {
    let references = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.filter(|reference| reference["controller"] == true)
}

/// Reads off a live object whose it is.
pub fn ownership(live: &Value, owner: &Owner) -> Ownership {
    if is_controlled(live) {
        return Ownership::Controlled;
    }
    if let Some(hub) = live["metadata"]["labels"][HUB_LABEL].as_str()
        && hub != owner.hub.as_ref()
    {
        return Ownership::OtherHub(hub.to_owned());
    }
    if is_proved(live, owner) {
        Ownership::Ours
    } else if !other_owners_of(live, owner).is_empty() {
        Ownership::Shared
    } else {
        Ownership::Foreign
    }
}

/// Our own Apply entry owns our owner label, whatever else the object says of itself.
pub fn is_proved(live: &Value, owner: &Owner) -> bool {
    let set = fields::own_apply_set(live, &owner.manager);
    set.is_some_and(|set| fields::owns_label(&set, &owner.hash.label_key()))
}

/// The field managers of the other VidraResources of this hub that apply the object.
pub fn other_owners_of<'a>(live: &'a Value, owner: &Owner) -> Vec<&'a str> {
    let mut others = fields::other_vidra_managers(live, &owner.manager);
    others.retain(|manager| owner.is_of_hub(manager));
    others
}

/// The managers of other VidraResources, of this hub or another, that apply the object, and whether each owns one of
/// these fields.
pub fn others_holding<'a>(live: &'a Value, owner: &Owner, contested: &[String]) -> Vec<(&'a str, bool)> {
    let holds = |manager: &str| {
        let set = fields::own_apply_set(live, manager);
        set.is_some_and(|set| set.paths().iter().any(|path| contested.contains(&path.to_string())))
    };
    let others = fields::other_vidra_managers(live, &owner.manager).into_iter();
    others.map(|manager| (manager, holds(manager))).collect()
}
