//! Dry runs: what an apply would leave, whether one that was not compared yet is as it was left, and whether what is
//! declared could be created.

use kube::{
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, Status},
};
use serde_json::Value;
use vidra_core::{
    apply::{self, ApplyInput, Comparison},
    fields,
    mutants::{self, Mutant},
    object::ObjectKey,
    owner::other_owners_of,
    render::Declared,
};

use super::{Executor, call};
use crate::{
    base::error::{CallError, Named},
    member::live::Live,
};

/// What an apply of this body would leave of the object. Nothing is written.
pub(super) async fn dry_run(
    executor: &Executor<'_>,
    declared: &Declared,
    body: &Value,
    force: bool,
) -> Result<Live, CallError> {
    let params = PatchParams { dry_run: true, ..call::apply_params(executor, force) };
    call::patch_declared(executor, declared, "verify", &params, &Patch::Apply(body)).await
}

/// What an apply of this body would do to what was read, which is known from then on. `None`: the object was changed
/// meanwhile.
pub(super) async fn compare(
    executor: &Executor<'_>,
    input: &ApplyInput<'_>,
    live: &Value,
    body: &Value,
) -> Result<Option<Comparison>, CallError> {
    let declared = input.declared;
    let would = dry_run(executor, declared, body, true).await?;
    let manager = &executor.owner.manager;
    let owned = |manager: &str| fields::own_apply_set(live, manager);
    let Some(set) = fields::own_apply_set(&would.json, manager) else {
        return Ok(Some(Comparison::Differs));
    };
    let others = other_owners_of(live, executor.owner).into_iter().filter_map(owned);
    let is_lost = owned(manager).is_some_and(|now| set.is_lost_to(&now, others));
    let values = |json: &Value| {
        let compared = apply::comparable(input, json, live);
        fields::values_hash(&compared, &set, Some(&declared.body))
    };
    let same = values(&would.json) == values(live);
    let (records, owner, key) = (&executor.session.records, &executor.owner.hash, &declared.key);
    let is_newest = match same {
        true => records.rebase(owner, key, live, (set, is_lost), &declared.body),
        false => records.differs(owner, key, live, &would.json, set, declared),
    };
    Ok(is_newest.then_some(match (same, is_lost) {
        (false, _) => Comparison::Differs,
        (true, true) => Comparison::Own,
        (true, false) => Comparison::Equal,
    }))
}

/// Would the server create the object, if there were none of its name?
pub(super) async fn could_be_created(
    executor: &Executor<'_>,
    declared: &Declared,
    body: Value,
) -> Result<bool, CallError> {
    let (resource, scope) = call::resource(executor, &declared.gvk)?;
    let api = call::api(executor, &declared.key, (resource.clone(), scope));
    let params = PostParams { dry_run: true, field_manager: Some(executor.owner.manager.clone()) };
    let body = Live::from(body);
    let asked = async {
        match api.create(&params, &body).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if is_taken(&status, &resource, &declared.key) => Ok(true),
            Err(error) => Err(error),
        }
    };
    let about = call::changing(executor, &declared.key);
    executor.session.call(executor.fence, "verify", about, asked).await
}

/// The server's own word that nothing but the live object is in the way. A webhook may answer 409 as well, and would refuse
/// the object again when the live one is gone.
fn is_taken(status: &Status, resource: &ApiResource, key: &ObjectKey) -> bool {
    let named = status.details.as_ref().map(Named::of);
    let names = named.is_some_and(|named| named.is(&resource.group, &resource.plural, &key.name));
    status.code == 409 && (status.reason == "AlreadyExists" && names || mutants::is(Mutant::AnyConflict))
}
