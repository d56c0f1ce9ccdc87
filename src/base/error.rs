//! What can go wrong in a call, classified once, where it happens: by status codes and causes, and by the words of a
//! message only where an API server gives nothing else (`is_of_conversion`).

use std::time::Duration;

use kube::{
    Resource,
    core::{
        Status,
        response::{StatusDetails, StatusSummary},
    },
};
use vidra_core::{
    drift::{About, Does, Redactions, Refusal},
    mutants::{self, Mutant},
    status::Reason,
    unseen,
};

/// How a failed call is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// No answer, or one that cannot be read: says nothing about the object.
    Transport,
    /// The server asks to wait; for how long, where it says so. Nobody waits by this: `wire::pace` reads what the header
    /// of an answer asks, and what was refused alone is tried again as any call is.
    Throttled(Option<Duration>),
    /// The credentials are not accepted (401).
    Unauthenticated,
    /// The credentials lack the right (403).
    Forbidden,
    /// The namespace that the object is in is missing (404) or being deleted (403 with that cause).
    Namespace {
        /// It is being deleted; otherwise it is missing.
        terminating: bool,
    },
    /// This object is not there. A webhook may say so of another one.
    NotFound(Named),
    /// Nothing is served there (404 of no object).
    NotServed,
    /// A precondition did not hold, or the object exists already (409).
    Conflict,
    /// These fields are held by other managers (409 with causes), as the server writes paths: for comparing; what is
    /// told of them is to be cleaned.
    FieldConflict(Vec<String>),
    /// These fields make the object, or the change of it, invalid (422 with causes), likewise.
    InvalidFields(Vec<String>),
    /// A field of what was sent is unknown, or of another type (400, 500 without a reason). An API server that is in
    /// trouble, or does not know the newest schema yet, may answer so too.
    InvalidField,
    /// The object is not valid (422), the request is not (400), too large (413), or the kind takes no such call (405, 415).
    Invalid,
    /// The watch or list position is too old (410) or ahead of the server (504).
    Expired,
    /// The server failed (5xx).
    Server,
    /// What answers is no API server: it says nothing of objects, and mostly goes by itself.
    Gateway,
    /// The answer is larger than any that an API server gives.
    Oversized,
    /// The server's watches send more than is read of them, or its lists do not end.
    Flood,
    /// The call was not made, for the leave to make it counts no more; or its session ended before it was answered.
    Withdrawn,
}

/// What a server says something of, as it is addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The resource's group.
    pub group: String,
    /// The resource's plural name.
    pub plural: String,
    /// The object's name.
    pub name: String,
}

impl Named {
    pub(crate) fn of(details: &StatusDetails) -> Self {
        Self { group: details.group.clone(), plural: details.kind.clone(), name: details.name.clone() }
    }

    pub(crate) fn is(&self, group: &str, plural: &str, name: &str) -> bool {
        (&*self.group, &*self.plural, &*self.name) == (group, plural, name)
    }
}

/// A failed call, with what failed in a sentence.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// How to take it.
    pub class: Class,
    /// What the server, or the transport, said, as far as it may be told. Holds no request or response body.
    pub message: String,
}

impl CallError {
    /// The call did not end within its deadline.
    pub fn deadline(limit: Duration) -> Self {
        Self { class: Class::Transport, message: format!("no answer within {} s", limit.as_secs_f32()) }
    }

    /// The member asks to be left alone for as long: nothing was sent.
    pub fn throttled(rest: Duration) -> Self {
        let message = "it throttles requests (429) and asks the hub to wait".to_owned();
        Self { class: Class::Throttled(Some(rest)), message }
    }

    /// A list that a reconcile waits for no longer.
    pub fn late_list(limit: Duration) -> Self {
        let limit = limit.as_secs_f32();
        let message = format!("the list takes longer than {limit} s (setting informer.cacheSyncTimeout)");
        Self { class: Class::Transport, message }
    }

    /// A list that was given up.
    pub fn endless(why: &str) -> Self {
        Self { class: Class::Flood, message: format!("the list does not end: {why}") }
    }

    /// What was asked may have been done, or may be done yet: a server that fails behind its store says so as it does of a
    /// wrong field.
    pub fn is_unsure(&self) -> bool {
        matches!(self.class, Class::Transport | Class::Server | Class::Gateway | Class::InvalidField)
    }

    /// Another try may succeed without anything being changed by a person.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.class,
            Class::Transport
                | Class::Throttled(_)
                | Class::Expired
                | Class::Server
                | Class::Gateway
                | Class::Conflict
                | Class::Oversized
                | Class::Flood
                | Class::Withdrawn
        )
    }

    /// This very object is not there.
    pub fn is_gone(&self, group: &str, plural: &str, name: &str) -> bool {
        matches!(&self.class, Class::NotFound(missing)
            if missing.is(group, plural, name) || mutants::is(Mutant::AnyNotFound))
    }

    /// This very object, of a kind that is known beforehand, is not there.
    pub fn is_gone_of<K: Resource<DynamicType = ()>>(&self, name: &str) -> bool {
        self.is_gone(&K::group(&()), &K::plural(&()), name)
    }

    /// Of a call that makes an object in this namespace: where that is what is missing, the object is not at fault.
    #[must_use]
    pub fn making_in(self, namespace: &str) -> Self {
        match !namespace.is_empty() && self.is_gone("", "namespaces", namespace) {
            true => Self { class: Class::Namespace { terminating: false }, ..self },
            false => self,
        }
    }

    /// The member did not answer at all.
    pub fn is_transport(&self) -> bool {
        self.class == Class::Transport
    }

    /// The server does not accept what it was sent.
    pub fn is_invalid(&self) -> bool {
        matches!(self.class, Class::Invalid | Class::InvalidFields(_) | Class::InvalidField)
    }

    /// As metrics name it.
    pub fn outcome(&self) -> &'static str {
        self.reason().as_str()
    }

    /// As conditions and Events name it.
    pub fn reason(&self) -> Reason {
        match self.class {
            Class::Transport => Reason::NoAnswer,
            Class::Throttled(_) => Reason::Throttled,
            Class::Unauthenticated => Reason::CredentialsRefused,
            Class::Forbidden => Reason::Forbidden,
            Class::Namespace { terminating: true } => Reason::NamespaceTerminating,
            Class::Namespace { terminating: false } => Reason::NamespaceMissing,
            Class::NotFound(_) => Reason::NotFound,
            Class::NotServed => Reason::NotServed,
            Class::Conflict => Reason::Conflict,
            Class::FieldConflict(_) => Reason::FieldConflict,
            Class::Invalid | Class::InvalidFields(_) => Reason::Invalid,
            Class::InvalidField => Reason::InvalidField,
            Class::Expired => Reason::Expired,
            Class::Server | Class::Gateway => Reason::ServerError,
            Class::Oversized | Class::Flood => Reason::AnswerTooLarge,
            Class::Withdrawn => Reason::Withdrawn,
        }
    }
}

impl CallError {
    /// Of a call about objects: where these hold values that are never written, without the member's words.
    pub fn about(error: kube::Error, about: About<'_>, redactions: &Redactions) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(*status, about, redactions),
            other => other.into(),
        }
    }

    /// Of what the server has said of a call about objects.
    pub fn of_status(status: Status, about: About<'_>, redactions: &Redactions) -> Self {
        let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        let causes = causes.iter().take(causes_max());
        let causes: Vec<(&str, &str)> = causes.map(|cause| (&*cause.reason, &*cause.field)).collect();
        let (code, reason, message) = (status.code, &*status.reason, &*status.message);
        let told = redactions.withheld(about, &Refusal { code, reason, message, causes: &causes });
        // Where nothing is sent no field of it is at fault.
        let of_fields = matches!(about.does, Does::Writes(Some(_)))
            && is_said(&status)
            && (code == 400 || (code, reason) == (500, "") && !is_of_conversion(message));
        let mut error = Self::from(status);
        if of_fields {
            error.class = Class::InvalidField;
        }
        match told {
            Some(message) => Self { message, ..error },
            None => error,
        }
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from(*status),
            // A body that does not decode may hold a Secret: say so without it.
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Self {
                class: Class::Gateway,
                message: "the answer is no Kubernetes object, or cannot be decoded; is there a gateway or a proxy before the API server?".into(),
            },
            other if is_oversized(&other) => Self {
                class: Class::Oversized,
                message: "the answer is larger than any that an API server gives".into(),
            },
            other => Self { class: Class::Transport, message: root_cause(&other) },
        }
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        let details = status.details.as_ref();
        let has_cause = |reason: &str| {
            details.is_some_and(|details| {
                details.causes.iter().take(causes_max()).any(|cause| cause.reason == reason)
            })
        };
        let class = match status.code {
            _ if !is_said(&status) => Class::Gateway,
            401 => Class::Unauthenticated,
            403 if has_cause("NamespaceTerminating") => Class::Namespace { terminating: true },
            403 => Class::Forbidden,
            404 => match details.filter(|details| !details.name.is_empty()) {
                Some(details) if status.reason == "NotFound" => Class::NotFound(Named::of(details)),
                _ => Class::NotServed,
            },
            409 if has_cause("FieldManagerConflict") => {
                Class::FieldConflict(fields(details, |reason| reason == "FieldManagerConflict"))
            }
            409 => Class::Conflict,
            410 => Class::Expired,
            // Ahead of the server: 504 from kube-apiserver, other codes from servers behind it.
            _ if has_cause("ResourceVersionTooLarge") => Class::Expired,
            429 => {
                let seconds =
                    details.map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
                Class::Throttled(seconds.map(|seconds| Duration::from_secs(u64::from(seconds.min(60)))))
            }
            422 if details.is_some_and(|details| {
                details.causes.iter().take(causes_max()).any(|cause| !cause.field.is_empty())
            }) =>
            {
                Class::InvalidFields(fields(details, |_| true))
            }
            400 | 405 | 406 | 413 | 415 | 422 => Class::Invalid,
            _ => Class::Server,
        };
        let is_said = is_said(&status);
        let message = if status.message.is_empty() { status.reason } else { status.message };
        let code = if status.code == 0 { String::new() } else { format!(" ({})", status.code) };
        let message = match is_said {
            true => format!("{}{code}", trimmed(&message)),
            false => {
                format!(
                    "what answers is no API server, but a gateway or a proxy before it{code}{}",
                    quoted(&message)
                )
            }
        };
        Self { class, message }
    }
}

/// kube makes a Status of any page, and gives it this reason.
const OF_A_PAGE: &str = "Failed to parse error data";

/// An API server has said so. What else answers (a gateway, a load balancer) says nothing of objects, whatever its code.
fn is_said(status: &Status) -> bool {
    let is_failure = status.status == Some(StatusSummary::Failure) && status.reason != OF_A_PAGE;
    is_failure || mutants::is(Mutant::HtmlBelieved)
}

/// A conversion webhook did not answer, or wrongly: the server says so as it does of a wrong field, by 500 without a
/// reason. The manifest is as it should be. Source: apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go.
fn is_of_conversion(message: &str) -> bool {
    message.contains("conversion webhook for ")
}

/// What of a page is told. It may quote the request, and with it the credentials: of HTML only the title, and nothing from
/// the first word on that may lead to them.
fn quoted(page: &str) -> String {
    const MOST: usize = 200;
    let lower = page.to_ascii_lowercase();
    let (start, end) = match lower.find('<') {
        Some(at) if !lower.trim_start().starts_with('<') => (0, at),
        None => (0, page.len()),
        Some(_) => {
            let title = lower.find("<title>").map_or(0..0, |at| at + 7..page.len());
            let end = lower.get(title.clone()).and_then(|rest| rest.find('<')).unwrap_or_default();
            (title.start, title.start + end)
        }
    };
    let told = lower.get(start..end).unwrap_or_default();
    let leads = ["authorization", "bearer", "token", "cookie", "password", "basic "];
    let end = leads.iter().filter_map(|word| told.find(word)).min().map_or(end, |at| start + at);
    match page.get(start..end).unwrap_or_default().trim() {
        "" => String::new(),
        told => format!(": {}", unseen::shown(told, MOST)),
    }
}

/// Bound on the causes that are looked at: a member may send hundreds of thousands.
const CAUSES_MAX: usize = 64;

fn causes_max() -> usize {
    if mutants::is(Mutant::AllCauses) { usize::MAX } else { CAUSES_MAX }
}

/// The fields of causes with such a reason, each once, in the server's order: as it says them, for they are compared.
fn fields(details: Option<&StatusDetails>, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let causes = details.map(|details| details.causes.as_slice()).unwrap_or_default();
    let mut fields = Vec::new();
    let causes = causes.iter().take(causes_max());
    for cause in causes.filter(|cause| wanted(&cause.reason) && !cause.field.is_empty()) {
        if !fields.contains(&cause.field) {
            fields.push(cause.field.clone());
        }
    }
    fields
}

/// The innermost error says what happened; the outer ones say only that something did.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    trimmed(&innermost.to_string())
}

/// The transport's own bound was met.
fn is_oversized(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Members' words are bounded and clean before they go anywhere.
fn trimmed(text: &str) -> String {
    unseen::shown(text, 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn statuses_are_classified_by_code_and_cause() {
        let cases = [
            (json!({"code": 403, "message": "no"}), Class::Forbidden, "Forbidden"),
            (
                json!({"code": 403, "details": {"causes": [{"reason": "NamespaceTerminating"}]}}),
                Class::Namespace { terminating: true },
                "NamespaceTerminating",
            ),
            (
                json!({"code": 404, "details": {"kind": "namespaces", "name": "a"}}),
                Class::NotServed,
                "NotServed",
            ),
            (
                json!({"code": 404, "reason": "NotFound", "details": {"kind": "configmaps", "name": "a"}}),
                Class::NotFound(missing("", "configmaps", "a")),
                "NotFound",
            ),
            (json!({"code": 404, "reason": "NotFound", "details": {}}), Class::NotServed, "NotServed"),
            (
                json!({"code": 404, "message": "admission webhook denied the request"}),
                Class::NotServed,
                "NotServed",
            ),
            (json!({"code": 409}), Class::Conflict, "Conflict"),
            (
                json!({"code": 409, "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".data.a"}]}}),
                Class::FieldConflict(vec![".data.a".into()]),
                "FieldConflict",
            ),
            (
                json!({"code": 422, "details": {"causes": [
                    {"reason": "FieldValueInvalid", "field": "spec.template"},
                    {"reason": "FieldValueForbidden", "field": "spec.template"}]}}),
                Class::InvalidFields(vec!["spec.template".into()]),
                "Invalid",
            ),
            (json!({"code": 422}), Class::Invalid, "Invalid"),
            (json!({"code": 400}), Class::Invalid, "Invalid"),
            (json!({"code": 500}), Class::Server, "ServerError"),
            (
                json!({"code": 429, "details": {"retryAfterSeconds": 900}}),
                Class::Throttled(Some(Duration::from_secs(60))),
                "Throttled",
            ),
        ];
        for (status, class, reason) in cases {
            // Without that it may be anybody's JSON.
            let of_a_gateway: Status = serde_json::from_value(status.clone()).unwrap();
            assert_eq!(CallError::from(of_a_gateway).class, Class::Gateway, "{status}");
            let error = CallError::from(said(&status));
            assert_eq!((&error.class, error.reason().as_str()), (&class, reason), "{status}");
        }
    }

    fn missing(group: &str, plural: &str, name: &str) -> Named {
        Named { group: group.to_owned(), plural: plural.to_owned(), name: name.to_owned() }
    }

    /// As an API server writes it.
    fn said(status: &serde_json::Value) -> Status {
        let mut status = status.clone();
        status["status"] = "Failure".into();
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn only_what_is_asked_about_is_gone_and_only_who_makes_something_misses_its_namespace() {
        let not_found = |group: &str, kind: &str, name: &str| {
            let details = json!({"group": group, "kind": kind, "name": name});
            CallError::from(said(&json!({"code": 404, "reason": "NotFound", "details": details})))
        };
        for (error, gone, namespace) in [
            (not_found("", "configmaps", "web"), true, false),
            (not_found("apps", "deployments", "web"), false, false),
            (not_found("example.com", "configmaps", "web"), false, false),
            (not_found("", "configmaps", "main"), false, false),
            (not_found("", "namespaces", "web"), false, false),
            (not_found("", "namespaces", "shop"), false, true),
            (not_found("example.com", "namespaces", "shop"), false, false),
        ] {
            assert_eq!(error.is_gone("", "configmaps", "web"), gone, "{error:?}");
            let made = error.clone().making_in("shop").class == Class::Namespace { terminating: false };
            assert_eq!(made, namespace, "{error:?}");
        }
        let cluster_wide = not_found("", "namespaces", "").making_in("");
        assert_eq!(cluster_wide.class, Class::NotServed);
    }

    #[test]
    fn a_field_is_at_fault_only_where_one_was_sent_and_an_api_server_says_so_without_another_reason() {
        let body = json!({"data": {}});
        let of = |does| About { group: "", kind: "ConfigMap", does };
        let sent = of(Does::Writes(Some(&body)));
        let field = "failed to create typed patch object: .spec.colour: field not declared in schema";
        let hook = "conversion webhook for example.com/v1, Kind=Shop failed: Post \"https://hook.shop.svc\": dial tcp 10.0.0.1:443: connect: connection refused";
        let short = "conversion webhook for example.com/v1, Kind=Shop returned 0 objects, expected 1";
        let wrapped =
            format!("failed to convert new object (shop/web; example.com/v1) to proper version: {hook}");
        for (about, code, reason, message, class) in [
            (sent, 500, "", field, Class::InvalidField),
            (sent, 400, "BadRequest", field, Class::InvalidField),
            (sent, 500, "InternalError", field, Class::Server),
            (sent, 500, OF_A_PAGE, field, Class::Gateway),
            (sent, 400, OF_A_PAGE, field, Class::Gateway),
            (of(Does::Writes(None)), 500, "", field, Class::Server),
            (of(Does::Reads), 500, "", field, Class::Server),
            (of(Does::Reads), 400, "", field, Class::Invalid),
            (sent, 500, "", hook, Class::Server),
            (sent, 500, "", short, Class::Server),
            (sent, 500, "", &wrapped, Class::Server),
            (of(Does::Reads), 500, "", hook, Class::Server),
        ] {
            let status = said(&json!({"code": code, "reason": reason, "message": message}));
            let error = CallError::of_status(status, about, &Redactions::default());
            assert_eq!(error.class, class, "{about:?} {code} {reason} {message}");
        }
    }

    /// What kube makes of a page is in no contract of it.
    #[tokio::test]
    async fn a_gateways_page_is_no_answer_of_an_api_server_whatever_its_code() {
        for code in [400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503] {
            let answer = move |_: http::Request<kube::client::Body>| async move {
                let page = kube::client::Body::from(b"<html>no such page</html>".to_vec());
                http::Response::builder().status(code).body(page)
            };
            let client = kube::Client::new(tower::service_fn(answer), "default");
            let asked = client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await;
            let error = CallError::from(asked.unwrap_err());
            assert_eq!(error.class, Class::Gateway, "{code}");
        }
    }

    #[test]
    fn of_a_page_the_title_is_told_and_nothing_that_may_quote_credentials() {
        for (page, told) in [
            (
                "<html><head><title>502 Bad Gateway</title></head>Authorization: Bearer s3cr3t</html>",
                ": 502 Bad Gateway",
            ),
            ("<HTML><TITLE>\n no route </TITLE>", ": no route"),
            ("<p>Authorization: Bearer s3cr3t</p>", ""),
            ("<title>GET / authorization: s3cr3t</title>", ": GET /"),
            ("upstream connect error", ": upstream connect error"),
            ("dial tcp: <nil>", ": dial tcp:"),
            ("bad gateway; request was: GET / BEARER s3cr3t", ": bad gateway; request was: GET /"),
            ("Cookie: s3cr3t", ""),
            ("", ""),
        ] {
            assert_eq!(quoted(page), told, "{page}");
        }
        let status: Status = serde_json::from_value(json!({
            "code": 502, "message": "<html>Authorization: Bearer s3cr3t</html>", "reason": OF_A_PAGE,
        }))
        .unwrap();
        let error = CallError::from(status).to_string();
        assert!(error.contains("(502)") && !error.contains("s3cr3t"), "{error}");
    }

    #[test]
    fn members_words_are_bounded_and_bear_nothing_that_is_not_seen() {
        let status: Status = serde_json::from_value(
            json!({"code": 500, "message": format!("\u{1b}[31m\u{2066}a\nb{}", "x".repeat(2000))}),
        )
        .unwrap();
        let error = CallError::from(status);
        assert!(error.message.chars().count() < 600 && error.message.contains("a b"), "{error}");
        assert!(!error.message.chars().any(unseen::is_unseen), "{error}");
    }

    #[test]
    fn of_a_member_that_names_causes_without_end_a_few_are_looked_at() {
        let causes: Vec<_> = (0..10_000).map(|number| json!({"field": format!("f{number}")})).collect();
        let status = said(&json!({"code": 422, "details": {"causes": causes}}));
        let Class::InvalidFields(fields) = CallError::from(status).class else { panic!("they are fields") };
        assert_eq!(fields.len(), CAUSES_MAX);
    }
}
