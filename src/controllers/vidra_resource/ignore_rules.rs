//! Rules of `spec.drift.ignore` that cannot be read, and those that match nothing on any member.

use vidra_api::{VidraResourceStatus, condition::IGNORE_UNMATCHED, target::DesiredState};
use vidra_core::{
    ignore::{self, Rules, Unused},
    status::{Problem, Reason},
};

use super::context::Context;

/// A path that cannot be read: nothing is delivered, for what is to be left alone is not known.
pub(super) fn rule_error(ctx: &Context<'_>) -> Option<Problem> {
    let error = Rules::compile(&ctx.resource.spec.drift).err()?;
    Some(Problem { reason: Reason::IgnoreInvalid, message: error.to_string(), stalled: true })
}

/// Puts into the status what matches nothing on any member, or takes it out again. While no target has looked
/// it stays as it was.
pub(super) fn warn(ctx: &Context<'_>, status: &mut VidraResourceStatus) {
    let Some(unused) = unused_rules(ctx) else { return };
    let complaint = ignore::complaint(&unused, &ctx.resource.spec.drift);
    if let Some((_, message)) = ctx.put_complaint(status, IGNORE_UNMATCHED, complaint) {
        ctx.warn(Reason::IgnoreUnmatched, &message);
    }
}

/// What matches nothing in every target that has looked by the rules of now. `None`: nobody knows.
fn unused_rules(ctx: &Context<'_>) -> Option<Vec<Unused>> {
    let spec = &ctx.resource.spec.drift;
    if spec.ignore.is_empty() {
        return Some(Vec::new());
    }
    let targets = ctx.targets();
    let mut present =
        targets.iter().filter(|(_, target)| target.spec.desired == DesiredState::Present).peekable();
    if present.peek().is_none() {
        return Some(Vec::new());
    }
    let state = ctx.hub.state.lock();
    let told = present.filter_map(|(cluster, _)| {
        let (of, unused) = state.target(&ctx.target_key(cluster))?.unused.as_ref()?;
        (of == spec).then_some(unused.as_slice())
    });
    ignore::unused_everywhere(told)
}
