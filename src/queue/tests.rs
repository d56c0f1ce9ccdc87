//! The queue's promises, on the paused clock.

use super::*;
use crate::seams::SeededRng;

fn queue(per_member: usize) -> (Arc<Queue>, Timer) {
    let limits = Limits { per_member, per_loop: 8 };
    Queue::new(limits, Arc::new(SeededRng::new(1)), QueueMetrics::default())
}

fn target(resource: &str, cluster: &str) -> Key {
    Key::Target(TargetKey::new("team", resource, cluster))
}

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_worked_on_once() {
    let (queue, _timer) = queue(4);
    queue.add(target("a", "berlin"), Priority::Drift);
    queue.add(target("a", "berlin"), Priority::User);
    let key = queue.next().await;
    queue.done(&key, Verdict::Done(None));
    assert!(queue.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_comes_again() {
    let (queue, _timer) = queue(4);
    queue.add(target("a", "berlin"), Priority::Drift);
    let key = queue.next().await;
    queue.add(key.clone(), Priority::Drift);
    assert_eq!(queue.depth(), 0, "it is not started twice");
    queue.done(&key, Verdict::Done(None));
    assert_eq!(queue.next().await, key);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_for_a_key_while_it_is_worked_on_is_told_at_once() {
    let (queue, _timer) = queue(4);
    queue.add(target("a", "berlin"), Priority::Drift);
    let key = queue.next().await;
    assert_eq!(queue.arrivals(&key), 0);
    let mut more = Box::pin(queue.more_arrivals(&key, 0));
    assert!(futures::poll!(&mut more).is_pending());
    queue.add(target("b", "berlin"), Priority::Drift);
    assert!(futures::poll!(&mut more).is_pending(), "that was another key");
    queue.add(key.clone(), Priority::Drift);
    assert_eq!(more.await, 1);
    queue.add(key.clone(), Priority::Resync);
    assert_eq!(queue.more_arrivals(&key, 1).await, 2);
    queue.done(&key, Verdict::Done(None));
    assert_eq!(queue.arrivals(&key), 0, "it waits for its turn now");
}

#[tokio::test(start_paused = true)]
async fn members_take_turns_and_a_slow_one_keeps_only_its_own_places() {
    let (queue, _timer) = queue(2);
    for resource in ["a", "b", "c", "d"] {
        queue.add(target(resource, "berlin"), Priority::Drift);
    }
    queue.add(target("a", "tokyo"), Priority::Drift);
    let order = [queue.next().await, queue.next().await, queue.next().await];
    assert_eq!(order, [target("a", "berlin"), target("a", "tokyo"), target("b", "berlin")]);
    let stuck = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
    assert!(stuck.is_err(), "berlin has used its two places");
}

#[tokio::test(start_paused = true)]
async fn a_users_change_goes_before_drift_and_drift_before_resync() {
    let (queue, _timer) = queue(9);
    queue.add(target("resync", "berlin"), Priority::Resync);
    queue.add(target("drift", "berlin"), Priority::Drift);
    queue.add(target("user", "berlin"), Priority::Resync);
    queue.add(target("user", "berlin"), Priority::User);
    let order = [queue.next().await, queue.next().await, queue.next().await];
    assert_eq!(order, [target("user", "berlin"), target("drift", "berlin"), target("resync", "berlin")]);
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_of_a_key_the_earlier_one_counts() {
    let (queue, timer) = queue(4);
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(timer.run(stop.clone()));
    let start = Instant::now();
    queue.add_after(target("a", "berlin"), Duration::from_secs(60));
    queue.add_after(target("a", "berlin"), Duration::from_secs(10));
    queue.add_after(target("a", "berlin"), Duration::from_secs(30));
    let key = queue.next().await;
    assert_eq!(start.elapsed().as_secs(), 10);
    queue.done(&key, Verdict::Done(None));
    let later = tokio::time::timeout(Duration::from_secs(300), queue.next()).await;
    assert!(later.is_err(), "the later delays were replaced");
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_up_to_its_limit_and_starts_afresh_after_success() {
    let (queue, timer) = queue(4);
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(timer.run(stop.clone()));
    queue.add(target("a", "berlin"), Priority::User);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let start = Instant::now();
        let key = queue.next().await;
        waits.push(start.elapsed());
        queue.done(&key, Verdict::Retry(Duration::from_secs(5)));
    }
    assert!(waits[2] > waits[1] && waits[3] > waits[2], "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_millis(5600)), "{waits:?}");
    let key = queue.next().await;
    queue.done(&key, Verdict::Done(None));
    queue.add(key.clone(), Priority::User);
    let key = queue.next().await;
    queue.done(&key, Verdict::Retry(Duration::from_secs(5)));
    let start = Instant::now();
    queue.next().await;
    assert!(start.elapsed() < Duration::from_millis(300));
}

#[tokio::test(start_paused = true)]
async fn places_and_first_pauses_can_be_changed_while_keys_wait() {
    let (queue, timer) = queue(1);
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(timer.run(stop.clone()));
    for resource in ["a", "b", "c"] {
        queue.add(target(resource, "berlin"), Priority::Drift);
    }
    let first = queue.next().await;
    assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err(), "one place");
    queue.tune(2, Duration::from_secs(20));
    let second = queue.next().await;
    assert_eq!([&first, &second], [&target("a", "berlin"), &target("b", "berlin")]);
    // With fewer places, one that becomes free is not given out again.
    queue.tune(1, Duration::from_secs(20));
    queue.done(&first, Verdict::Done(None));
    assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err(), "one place, taken");
    queue.done(&second, Verdict::Retry(Duration::from_secs(60)));
    assert_eq!(queue.next().await, target("c", "berlin"));
    queue.done(&target("c", "berlin"), Verdict::Done(None));
    let start = Instant::now();
    assert_eq!(queue.next().await, second);
    assert!((18..=22).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn however_long_a_delay_is_the_timer_goes_on() {
    let (queue, timer) = queue(4);
    let stop = CancellationToken::new();
    let work = async {
        queue.add_after(target("long", "berlin"), Duration::MAX / 2);
        queue.add_after(target("a", "berlin"), Duration::from_secs(20_000 * 3600));
        queue.add_after(target("b", "berlin"), Duration::from_secs(1));
        assert_eq!(queue.next().await, target("b", "berlin"));
        for _ in 0..2 {
            queue.next().await;
        }
        stop.cancel();
    };
    tokio::join!(timer.run(stop.clone()), work);
}
