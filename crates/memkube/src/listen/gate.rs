//! Before a cluster takes a request up: whose is it, and how long is its body.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use tower::{BoxError, ServiceExt};

use super::connection::Site;
use super::count::CountedBody;
use crate::failure::Failure;
use crate::limits::REQUEST;

/// What of a body is read beyond the limit, and for how long, before it is refused: a client that is still
/// sending would not see the refusal.
const BEYOND: usize = 16 << 20;
const BEYOND_FOR: Duration = Duration::from_millis(500);
/// How long a body may take; the real server's `--request-timeout`.
const BODY: Duration = Duration::from_secs(60);
/// What everybody may see on the real server (the ClusterRole `system:public-info-viewer`).
const PUBLIC: [&str; 6] = ["/healthz", "/livez", "/readyz", "/version", "/version/", "/favicon.ico"];

pub(super) async fn answer(
    site: Arc<Site>,
    request: Request<Incoming>,
) -> Result<Response<CountedBody>, BoxError> {
    let counted = site.open.call();
    let counted = |response: Response<_>| response.map(|body| CountedBody::new(body, counted));
    let Some(user) = user(&site, request.headers(), request.uri().path()) else {
        return Ok(counted(refused(&Failure::new(401, "Unauthorized", "Unauthorized"))));
    };
    let (parts, body) = request.into_parts();
    let Some(body) = read(body).await? else {
        let message = "Timeout: request did not complete within the allotted timeout";
        return Ok(counted(refused(&Failure::new(504, "Timeout", message))));
    };
    let request = Request::from_parts(parts, Full::new(body));
    Ok(counted(site.cluster.service_as(&user).oneshot(request).await?))
}

/// Who asks; `None` is refused. A token must be right wherever it is shown.
fn user(site: &Site, headers: &HeaderMap, path: &str) -> Option<Arc<str>> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        return PUBLIC.contains(&path).then(|| "system:anonymous".into());
    };
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let known = site.users.get(token.trim())?;
    scheme.eq_ignore_ascii_case("bearer").then(|| known.clone())
}

/// The body, or of one that is too long so much that the cluster sees it; `None` where it takes too long.
async fn read(mut body: Incoming) -> Result<Option<Bytes>, BoxError> {
    let mut read = BytesMut::new();
    let mut left = BEYOND;
    let mut deadline = Instant::now() + BODY;
    loop {
        let full = read.len() > REQUEST;
        let Ok(next) = timeout_at(deadline, body.frame()).await else {
            return Ok(full.then(|| read.freeze()));
        };
        let Some(frame) = next else { return Ok(Some(read.freeze())) };
        let Ok(data) = frame?.into_data() else { continue };
        if !full {
            read.extend_from_slice(&data);
            if read.len() > REQUEST {
                deadline = Instant::now() + BEYOND_FOR;
            }
        } else if data.len() < left {
            left -= data.len();
        } else {
            return Ok(Some(read.freeze()));
        }
    }
}

fn refused(failure: &Failure) -> Response<crate::ResponseBody> {
    let text = failure.status().to_string();
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
