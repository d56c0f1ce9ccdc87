//! Looks up the names of members' addresses: a few at a time, within a limit, and for a while with the last answer where
//! none comes.
//!
//! A look-up blocks a thread until the system's resolver gives up, and all members share those threads; nothing ends it
//! before.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;
use tower::{BoxError, Service, ServiceExt};
use vidra_core::{
    kubeconfig::{Allow, check_address},
    mutants::{self, Mutant},
};

/// Look-ups under way for one member.
const LOOK_UPS: usize = 2;
/// One that waits or takes longer has failed.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(5);
/// So long an answer counts while no other comes. Who answers there is asked all the same, before anything is written.
const GOOD_FOR: Duration = Duration::from_secs(600);

/// The last good answer for each name of all members; what is older than [`GOOD_FOR`] goes.
#[derive(Clone, Debug, Default)]
pub struct LastAnswers(Arc<Mutex<BTreeMap<String, Answer>>>);

/// Where a name led, and when.
type Answer = (Vec<SocketAddr>, Instant);

impl LastAnswers {
    fn note(&self, host: &str, found: &[SocketAddr]) {
        let mut last_answers = self.0.lock();
        last_answers.retain(|_, (_, at)| at.elapsed() <= GOOD_FOR);
        last_answers.insert(host.to_owned(), (found.to_vec(), Instant::now()));
    }

    fn last(&self, host: &str) -> Option<Vec<SocketAddr>> {
        let last_answers = self.0.lock();
        last_answers.get(host).filter(|(_, at)| at.elapsed() <= GOOD_FOR).map(|(found, _)| found.clone())
    }
}

/// Looks names up for one member, and refuses those that lead where no kubeconfig may: a name says nothing of its
/// address.
#[derive(Clone)]
pub struct MemberResolver<R> {
    resolver: R,
    allow: Allow,
    turns: Arc<Semaphore>,
    last_answers: LastAnswers,
}

impl<R> MemberResolver<R> {
    /// With this resolver, to addresses that a kubeconfig may name.
    pub fn new(resolver: R, allow: Allow, last_answers: LastAnswers) -> Self {
        Self { resolver, allow, turns: Arc::new(Semaphore::new(LOOK_UPS)), last_answers }
    }
}

impl<R> MemberResolver<R>
where
    R: Service<Name> + Clone + Send + 'static,
    R::Response: Iterator<Item = SocketAddr> + Send,
    R::Error: Into<BoxError>,
    R::Future: Send,
{
    /// Asks the resolver. A look-up that has begun keeps its turn until it has ended, whoever still waits for it.
    async fn ask(&self, name: Name) -> Result<Vec<SocketAddr>, BoxError> {
        let turn = self.turns.clone().acquire_owned().await?;
        let resolver = self.resolver.clone();
        let under_way = TaskTracker::new().spawn(async move {
            let found = resolver.oneshot(name).await.map(Iterator::collect).map_err(Into::into);
            drop(turn);
            found
        });
        under_way.await?
    }

    async fn look_up(self, name: Name) -> Result<std::vec::IntoIter<SocketAddr>, BoxError> {
        let host = name.to_string();
        let answer = timeout(LOOK_UP_WITHIN, self.ask(name)).await.unwrap_or_else(|_| {
            Err(format!("looking up {host} took longer than {} s", LOOK_UP_WITHIN.as_secs()).into())
        });
        let last = || self.last_answers.last(&host).filter(|_| !mutants::is(Mutant::NoLastAddress));
        let (found, is_new) = match answer {
            Ok(found) => (found, true),
            Err(failed) => (last().ok_or(failed)?, false),
        };
        for address in &found {
            check_address(address.ip(), &self.allow).map_err(|forbidden| {
                format!("{host} resolves to {}, which is refused: {forbidden:?}", address.ip())
            })?;
        }
        if is_new && !found.is_empty() {
            self.last_answers.note(&host, &found);
        }
        Ok(found.into_iter())
    }
}

impl<R> Service<Name> for MemberResolver<R>
where
    R: Service<Name> + Clone + Send + Sync + 'static,
    R::Response: Iterator<Item = SocketAddr> + Send,
    R::Error: Into<BoxError>,
    R::Future: Send,
{
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().look_up(name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tower::service_fn;

    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Dns {
        Answers(&'static str),
        Fails,
        Hangs,
    }

    type Way = Arc<Mutex<Dns>>;

    /// A resolver that behaves as it is told, and counts the look-ups that have begun.
    fn resolver(
        way: &Way,
        begun: &Arc<AtomicUsize>,
    ) -> impl Service<Name, Response = std::vec::IntoIter<SocketAddr>, Error = BoxError, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static {
        let (way, begun) = (way.clone(), begun.clone());
        service_fn(move |_: Name| {
            begun.fetch_add(1, Ordering::Relaxed);
            let way = *way.lock();
            async move {
                match way {
                    Dns::Answers(address) => Ok(vec![address.parse::<SocketAddr>()?].into_iter()),
                    Dns::Fails => Err(BoxError::from("no such name")),
                    Dns::Hangs => std::future::pending().await,
                }
            }
        })
    }

    fn name() -> Name {
        "api.berlin.example".parse().expect("a name")
    }

    const ALLOW: Allow = Allow { loopback: false, http: false, proxy: false };

    #[tokio::test(start_paused = true)]
    async fn the_last_address_counts_for_ten_minutes_while_nobody_answers() {
        let (way, begun) = (Way::new(Mutex::new(Dns::Answers("192.0.2.1:0"))), Arc::default());
        let names = MemberResolver::new(resolver(&way, &begun), ALLOW, LastAnswers::default());
        let found = async || names.clone().look_up(name()).await.map(|found| found.as_slice().to_vec());
        let first = found().await.expect("it is found");
        for way_now in [Dns::Fails, Dns::Hangs] {
            *way.lock() = way_now;
            assert_eq!(found().await.expect("it was found a moment ago"), first);
        }
        tokio::time::sleep(GOOD_FOR).await;
        *way.lock() = Dns::Fails;
        assert!(found().await.is_err_and(|error| error.to_string().contains("no such name")));
        assert_eq!(begun.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn look_ups_that_hang_take_two_threads_of_all_and_end_within_five_seconds() {
        let (way, begun) = (Way::new(Mutex::new(Dns::Hangs)), Arc::<AtomicUsize>::default());
        let names = MemberResolver::new(resolver(&way, &begun), ALLOW, LastAnswers::default());
        let started = Instant::now();
        for _ in 0..10 {
            let all = (0..10).map(|_| names.clone().look_up(name()));
            let ended = futures::future::join_all(all).await;
            assert!(ended.iter().all(Result::is_err));
        }
        assert_eq!(begun.load(Ordering::Relaxed), LOOK_UPS);
        assert_eq!(started.elapsed(), LOOK_UP_WITHIN * 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_leads_where_no_kubeconfig_may_is_refused_whatever_it_led_to_before() {
        let (way, begun) = (Way::new(Mutex::new(Dns::Answers("192.0.2.1:0"))), Arc::default());
        let last_answers = LastAnswers::default();
        let names = MemberResolver::new(resolver(&way, &begun), ALLOW, last_answers.clone());
        assert!(names.clone().look_up(name()).await.is_ok());
        *way.lock() = Dns::Answers("127.0.0.1:0");
        let refused = names.clone().look_up(name()).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("is refused")));
        *way.lock() = Dns::Fails;
        let kept: Vec<_> = names.look_up(name()).await.expect("it was found").collect();
        assert_eq!(kept, ["192.0.2.1:0".parse::<SocketAddr>().expect("an address")]);
    }
}
