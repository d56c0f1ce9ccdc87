//! The queue's promises, on the paused clock.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Wake, Waker},
};

use super::*;
use crate::base::env::SeededRng;

fn queue(per_member: usize) -> (Arc<Queue>, Timer) {
    let limits = Limits { per_member, ..Limits::default() };
    Queue::new(limits, Arc::new(SeededRng::new(1)), QueueMetrics::default())
}

fn target(resource: &str, cluster: &str) -> Key {
    Key::Target(TargetKey::new("team", resource, cluster))
}

fn resource(namespace: &str, name: &str) -> Key {
    Key::Resource(ResourceKey::new(namespace, name))
}

/// Counts how often somebody is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

async fn next(queue: &Queue) -> Key {
    queue.next().await.key
}

#[tokio::test(start_paused = true)]
async fn a_turn_says_what_made_its_key_ready_and_which_try_it_is() {
    let (queue, timer) = queue(4);
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(timer.run(stop.clone()));
    let key = target("a", "berlin");
    queue.add(key.clone(), Priority::User);
    let mut turns = Vec::new();
    for verdict in [Verdict::Backoff(Duration::from_secs(60)), Verdict::Done(Some(Duration::from_secs(1)))] {
        turns.push(queue.next().await);
        queue.done(&key, verdict);
    }
    turns.push(queue.next().await);
    let told: Vec<_> = turns.iter().map(|turn| (turn.trigger, turn.attempt)).collect();
    assert_eq!(told, [(Priority::User, 1), (Priority::Resync, 2), (Priority::Resync, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_worked_on_once() {
    let (queue, _timer) = queue(4);
    queue.add(target("a", "berlin"), Priority::Event);
    queue.add(target("a", "berlin"), Priority::User);
    let key = next(&queue).await;
    queue.done(&key, Verdict::Done(None));
    assert!(queue.inner.lock().keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_comes_again() {
    let (queue, _timer) = queue(4);
    queue.add(target("a", "berlin"), Priority::Event);
    let key = next(&queue).await;
    queue.add(key.clone(), Priority::Event);
    assert_eq!(queue.depth(), 0, "it is not started twice");
    queue.done(&key, Verdict::Done(None));
    assert_eq!(next(&queue).await, key);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_for_a_key_while_it_is_worked_on_is_told_at_once() {
    let (queue, _timer) = queue(4);
    queue.add(target("a", "berlin"), Priority::Event);
    let key = next(&queue).await;
    assert_eq!(queue.arrivals(&key), 0);
    let mut more = Box::pin(queue.more_arrivals(&key, 0));
    assert!(futures::poll!(&mut more).is_pending());
    queue.add(target("b", "berlin"), Priority::Event);
    assert!(futures::poll!(&mut more).is_pending(), "that was another key");
    queue.add(key.clone(), Priority::Event);
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
        queue.add(target(resource, "berlin"), Priority::Event);
    }
    queue.add(target("a", "tokyo"), Priority::Event);
    let order = [next(&queue).await, next(&queue).await, next(&queue).await];
    assert_eq!(order, [target("a", "berlin"), target("a", "tokyo"), target("b", "berlin")]);
    let stuck = tokio::time::timeout(Duration::from_secs(60), next(&queue)).await;
    assert!(stuck.is_err(), "berlin has used its two places");
}

#[tokio::test(start_paused = true)]
async fn a_users_change_goes_before_drift_and_drift_before_resync() {
    let (queue, _timer) = queue(9);
    queue.add(target("resync", "berlin"), Priority::Resync);
    queue.add(target("drift", "berlin"), Priority::Event);
    queue.add(target("user", "berlin"), Priority::Resync);
    queue.add(target("user", "berlin"), Priority::User);
    let order = [next(&queue).await, next(&queue).await, next(&queue).await];
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
    let key = next(&queue).await;
    assert_eq!(start.elapsed().as_secs(), 10);
    queue.done(&key, Verdict::Done(None));
    let later = tokio::time::timeout(Duration::from_secs(300), next(&queue)).await;
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
        let key = next(&queue).await;
        waits.push(start.elapsed());
        queue.done(&key, Verdict::Backoff(Duration::from_secs(5)));
    }
    assert!(waits[2] > waits[1] && waits[3] > waits[2], "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_millis(5600)), "{waits:?}");
    let key = next(&queue).await;
    queue.done(&key, Verdict::Done(None));
    queue.add(key.clone(), Priority::User);
    let key = next(&queue).await;
    queue.done(&key, Verdict::Backoff(Duration::from_secs(5)));
    let start = Instant::now();
    next(&queue).await;
    assert!(start.elapsed() < Duration::from_millis(300));
}

#[tokio::test(start_paused = true)]
async fn places_and_first_pauses_can_be_changed_while_keys_wait() {
    let (queue, timer) = queue(1);
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(timer.run(stop.clone()));
    for resource in ["a", "b", "c"] {
        queue.add(target(resource, "berlin"), Priority::Event);
    }
    let first = next(&queue).await;
    assert!(tokio::time::timeout(Duration::from_secs(60), next(&queue)).await.is_err(), "one place");
    queue.tune(2, Duration::from_secs(20));
    let second = next(&queue).await;
    assert_eq!([&first, &second], [&target("a", "berlin"), &target("b", "berlin")]);
    // With fewer places, one that becomes free is not given out again.
    queue.tune(1, Duration::from_secs(20));
    queue.done(&first, Verdict::Done(None));
    assert!(tokio::time::timeout(Duration::from_secs(60), next(&queue)).await.is_err(), "one place, taken");
    queue.done(&second, Verdict::Backoff(Duration::from_secs(60)));
    assert_eq!(next(&queue).await, target("c", "berlin"));
    queue.done(&target("c", "berlin"), Verdict::Done(None));
    let start = Instant::now();
    assert_eq!(next(&queue).await, second);
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
        assert_eq!(next(&queue).await, target("b", "berlin"));
        for _ in 0..2 {
            next(&queue).await;
        }
        stop.cancel();
    };
    tokio::join!(timer.run(stop.clone()), work);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_for_one_of_a_thousand_keys_wakes_who_waits_for_that_one() {
    let (queue, _timer) = queue(4);
    let keys: Vec<_> = (0..1000).map(|member| target("a", &format!("member-{member}"))).collect();
    keys.iter().for_each(|key| queue.add(key.clone(), Priority::Event));
    for _ in &keys {
        next(&queue).await;
    }
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    let mut waiting: Vec<_> = keys.iter().map(|key| Box::pin(queue.more_arrivals(key, 0))).collect();
    for more in &mut waiting {
        assert!(more.as_mut().poll(&mut context).is_pending());
    }
    queue.add(keys[500].clone(), Priority::Event);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(waiting[500].as_mut().poll(&mut context).is_ready());
    drop(waiting);
    keys.iter().for_each(|key| queue.done(key, Verdict::Done(None)));
    assert!(queue.inner.lock().waiting.is_empty(), "nobody works on them");
}

#[tokio::test(start_paused = true)]
async fn who_always_has_something_better_to_do_keeps_nothing_waiting_for_ever() {
    let (queue, _timer) = queue(4);
    queue.add(target("resync", "berlin"), Priority::Resync);
    for name in ["a", "b", "c", "d"] {
        queue.add(target(name, "berlin"), Priority::User);
    }
    queue.add(target("drift", "berlin"), Priority::Event);
    let mut turns = Vec::new();
    for _ in 0..32 {
        let key = next(&queue).await;
        if [target("resync", "berlin"), target("drift", "berlin")].contains(&key) {
            turns.push(key.clone());
        } else {
            queue.add(key.clone(), Priority::User);
        }
        queue.done(&key, Verdict::Done(None));
    }
    turns.sort();
    assert_eq!(turns, [target("drift", "berlin"), target("resync", "berlin")]);
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_and_one_that_changes_much_keeps_only_its_own_places() {
    let (queue, _timer) = queue(4);
    for number in 0..20 {
        queue.add(resource("loud", &format!("r{number}")), Priority::User);
    }
    let mut loud = Vec::new();
    while let Ok(key) = tokio::time::timeout(Duration::from_secs(1), next(&queue)).await {
        loud.push(key);
    }
    assert_eq!(loud.len(), Limits::default().per_loop);
    queue.add(resource("quiet", "shop"), Priority::Resync);
    assert_eq!(next(&queue).await, resource("quiet", "shop"));
    // In all there are so many that each may hold what it reads.
    for namespace in 0..20 {
        for number in 0..8 {
            queue.add(resource(&format!("more-{namespace:02}"), &format!("r{number}")), Priority::User);
        }
    }
    let mut more = 0;
    while tokio::time::timeout(Duration::from_secs(1), next(&queue)).await.is_ok() {
        more += 1;
    }
    assert_eq!(loud.len() + 1 + more, Limits::default().resources);
    queue.add(target("a", "berlin"), Priority::Resync);
    assert_eq!(next(&queue).await, target("a", "berlin"), "members have their own places");
    queue.done(&loud[0], Verdict::Done(None));
    assert!(matches!(next(&queue).await, Key::Resource(_)), "one became free");
}

/// Works on what comes for so long each time until `stop`; when each turn began.
async fn work(queue: &Queue, each: Duration, stop: &CancellationToken) -> Vec<Instant> {
    let mut turns = Vec::new();
    while let Some(key) = stop.run_until_cancelled(next(queue)).await {
        turns.push(Instant::now());
        tokio::time::sleep(each).await;
        queue.done(&key, Verdict::Done(None));
    }
    turns
}

#[tokio::test(start_paused = true)]
async fn of_what_targets_tell_their_resource_one_look_takes_up_much_and_none_is_missed() {
    let (queue, timer) = queue(4);
    let (stop, shop) = (CancellationToken::new(), resource("team", "shop"));
    let (mut last, mut asked) = (Instant::now(), Instant::now());
    let tell = async {
        for _ in 0..1000 {
            queue.add(shop.clone(), Priority::Event);
            last = Instant::now();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        // What a person changes is looked at as soon as the look of before has ended.
        queue.add(shop.clone(), Priority::Event);
        tokio::time::sleep(Duration::from_millis(1)).await;
        queue.add(shop.clone(), Priority::User);
        asked = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    let ((), (), turns) =
        tokio::join!(tell, timer.run(stop.clone()), work(&queue, Duration::from_millis(20), &stop));
    let while_told = turns.iter().filter(|turn| **turn <= last + ROLL_UP).count();
    assert!(while_told <= 12, "{while_told} looks");
    assert!(turns.iter().any(|turn| (last..=last + ROLL_UP).contains(turn)), "the last word was looked at");
    let user = turns.iter().find(|turn| **turn >= asked).map(|turn| turn.duration_since(asked));
    assert!(user.is_some_and(|after| after <= Duration::from_millis(20)), "{user:?}");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_takes_no_time_rests_none() {
    let (queue, _timer) = queue(4);
    queue.add(resource("team", "shop"), Priority::Event);
    let key = next(&queue).await;
    queue.add(key.clone(), Priority::Event);
    queue.done(&key, Verdict::Done(None));
    assert_eq!(queue.depth(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_later_delay_that_reaches_the_timer_late_puts_off_nothing() {
    let (queue, timer) = queue(4);
    let stop = CancellationToken::new();
    let start = Instant::now();
    let work = async {
        queue.add_after(target("a", "berlin"), Duration::from_secs(2));
        let late = Request::At(target("a", "berlin"), start + Duration::from_secs(30));
        assert!(queue.timer.send(late).is_ok());
        next(&queue).await;
        stop.cancel();
    };
    tokio::join!(timer.run(stop.clone()), work);
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_keys_that_are_gone_nothing_is_kept() {
    let (queue, timer) = queue(4);
    let stop = CancellationToken::new();
    let work = async {
        for number in 0..10_000 {
            let key = target(&format!("preview-{number}"), &format!("member-{}", number % 100));
            queue.add(key, Priority::User);
            let key = next(&queue).await;
            let month = Verdict::Done(Some(Duration::from_secs(720 * 3600)));
            queue
                .done(&key, if number % 2 == 0 { month } else { Verdict::Backoff(Duration::from_secs(300)) });
            queue.forget(&key);
        }
        {
            let inner = queue.inner.lock();
            let sizes = [inner.keys.len(), inner.flows.len(), inner.eligible.len(), inner.failures.len()];
            assert_eq!((sizes, inner.delayed.len(), inner.waiting.len()), ([0; 4], 0, 0));
        }
        let late = tokio::time::timeout(Duration::from_secs(800 * 3600), next(&queue)).await;
        assert!(late.is_err(), "the timer has forgotten it too");
        stop.cancel();
    };
    tokio::join!(timer.run(stop.clone()), work);
}
