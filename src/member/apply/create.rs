//! Making objects: create-only, so that nothing foreign is ever overwritten, in a namespace that is made where it may be.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use tokio::time::Instant;
use vidra_core::{
    directives::ApplyMode,
    object::{Gvk, ObjectKey},
    plan::Why,
    render::Declared,
};

use super::{Executor, Outcome, Step};
use crate::base::error::{CallError, Class};

impl Executor<'_> {
    /// Makes it, unless something bears its name: then that is joined, or left, or refused.
    pub(super) async fn create(&self, declared: &Declared, corrected: bool) -> Step {
        if declared.directives.apply == ApplyMode::IfAbsent {
            return self.make_where_absent(declared).await;
        }
        match self.create_only(declared).await {
            Ok(uid) => Ok(Outcome::Applied { uid, corrected }),
            Err(error) if is_taken(&error) => self.join(declared, Some(("", error))).await,
            Err(error) => Err(error),
        }
    }

    /// A resourceVersion that no object can have makes the server refuse when one is there. Returns the new uid.
    pub(super) async fn create_only(&self, declared: &Declared) -> Result<String, CallError> {
        let mut body = self.body(declared);
        body["metadata"]["resourceVersion"] = "1".into();
        let sent = Instant::now();
        let answer = match self.send(declared, &body, false).await {
            Err(error) if error.class == (Class::Namespace { terminating: false }) => {
                match self.create_namespace(&declared.key.namespace, sent).await? {
                    true => self.send(declared, &body, false).await,
                    // It is not missing: a webhook says so.
                    false => Err(error),
                }
            }
            answer => answer,
        };
        // What the end of the session cut off may have been sent, and may land while the next session is at work. That
        // one makes it only where there is none, for the inventory has had it since before it was sent; and takes it for
        // gone only when nothing can land any more: it has the same notes, and this pass holds the target until this one is
        // written.
        let is_cut = |error: &CallError| error.class == Class::Withdrawn && self.session.has_ended();
        if answer.as_ref().is_err_and(|error| error.is_unsure() || is_cut(error)) {
            self.session.note_landing(&self.owner.hash, &declared.key);
        }
        answer
    }

    /// It was there under this uid and is not seen: deleted, most often, or hidden by a lost label. Create-only tells
    /// which, and where the name is taken, the uid tells by whom.
    pub(super) async fn make_again(&self, declared: &Declared, uid: &str, force: bool) -> Step {
        match self.create_only(declared).await {
            Ok(uid) => Ok(Outcome::Applied { uid, corrected: true }),
            Err(error) if is_taken(&error) => self.apply(declared, uid, Why::Missing, force).await,
            Err(error) => Err(error),
        }
    }

    /// Plain, unlabelled, outside the inventory: it is not ours and is never deleted. False: it was there when the call was
    /// `sent` that found it missing.
    async fn create_namespace(&self, name: &str, sent: Instant) -> Result<bool, CallError> {
        let missing = |message: String| CallError { class: Class::Namespace { terminating: false }, message };
        if !self.owner.create_namespaces {
            return Err(missing(format!(
                "namespace {name:?} is missing; create it in the member, or set createNamespaces: true"
            )));
        }
        // Its own apply failed or is under way: made here, it would be somebody else's for ever.
        let declared = ObjectKey::new(&Gvk::new("", "v1", "Namespace"), "", name);
        if self.desired.objects.contains_key(&declared) {
            return Err(missing(format!(
                "namespace {name:?} is declared and is not there yet; trying again"
            )));
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let api: Api<Namespace> = Api::all(self.session.client.clone());
        let about = self.changing(&declared);
        let create = async {
            let parameters = PostParams::default();
            let call = api.create(&parameters, &namespace);
            match self.session.call(self.token, "create", about, call).await {
                Ok(_) => Ok(true),
                Err(error) if error.class == Class::Conflict => Ok(false),
                Err(error) if error.class == Class::Forbidden => Err(missing(format!(
                    "namespace {name:?} is missing and the hub may not create it; create it in the member: {error}"
                ))),
                Err(error) => Err(error),
            }
        };
        self.session.namespaces.make(name, sent, create).await
    }
}

/// A create-only apply found an object of the name: the server looks at the fields' managers before it looks at the
/// resourceVersion.
pub(super) fn is_taken(error: &CallError) -> bool {
    matches!(error.class, Class::Conflict | Class::FieldConflict(_))
}
