//! Lists of many members, and many lists of one.

use futures::future::join_all;

use super::*;

/// A member that answers at once, and whose answers take a second to read; how many are read now, and the most that were.
fn slow(reading: Arc<AtomicUsize>, most: Arc<AtomicUsize>) -> Client {
    let answer = move |_: http::Request<Body>| {
        let (reading, most) = (reading.clone(), most.clone());
        let frames = futures::stream::once(async move {
            most.fetch_max(reading.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            reading.fetch_sub(1, Ordering::Relaxed);
            let page = EMPTY;
            Ok::<_, std::io::Error>(Frame::data(bytes::Bytes::from_static(page.as_bytes())))
        });
        async move { Ok::<_, http::Error>(http::Response::new(StreamBody::new(Box::pin(frames)))) }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

#[tokio::test(start_paused = true)]
async fn of_all_members_a_few_single_lists_are_read_at_a_time() {
    const MEMBERS: usize = 64;
    let (turns, most) = (Shared::default(), Arc::<AtomicUsize>::default());
    let reading = Arc::<AtomicUsize>::default();
    let members: Vec<_> = (0..MEMBERS)
        .map(|_| sharing(slow(reading.clone(), most.clone()), Arc::default(), turns.clone()))
        .collect();
    let (all, resource) = (Place::everywhere(&gvk()), resource());
    let listed = join_all(members.iter().map(|member| member.list_once(&all, &resource))).await;
    assert!(listed.iter().all(Result::is_ok), "{listed:?}");
    assert_eq!(most.load(Ordering::Relaxed), 16);
}

#[tokio::test(start_paused = true)]
async fn what_many_ask_for_at_once_is_listed_for_all_of_them() {
    let calls = Arc::<AtomicUsize>::default();
    let informers = informers(member(vec![item("a", &json!("one"))], calls.clone()), Arc::default());
    let (all, resource) = (Place::everywhere(&gvk()), resource());
    for round in 1..=2 {
        let listed = join_all((0..50).map(|_| informers.list_once(&all, &resource))).await;
        assert!(listed.iter().all(Result::is_ok), "{listed:?}");
        // The one that is under way when the others ask, and one that begins after that.
        assert_eq!(calls.load(Ordering::Relaxed), 2 * round);
    }
    informers.list_once(&all, &resource).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 5, "what was listed before somebody asks is not for them");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_waits_for_its_turn_is_not_told_as_slow() {
    let turns = Shared::default();
    let held: Vec<_> = std::iter::from_fn(|| turns.turns().free_turn()).collect();
    let informers = sharing(member(Vec::new(), Arc::default()), Arc::default(), turns);
    let (target, needs) = (TargetKey::new("team", "shop", "berlin"), needs(&["team"]));
    informers.require(&target, &needs);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let states = informers.require(&target, &needs);
    assert_eq!(states, BTreeMap::from([(place(""), State::Syncing)]));
    drop(held);
    let states = settled(&informers, &target, &needs).await;
    assert_eq!(states, BTreeMap::from([(place(""), State::Synced)]));
    informers.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn of_one_member_fewer_lists_are_read_at_a_time_than_of_all_whatever_it_makes_of_them() {
    let (reading, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let member = informers(slow(reading, most.clone()), Arc::default());
    let (places, resource): (Vec<_>, _) =
        ((0..64).map(|nth| place(&format!("n{nth}"))).collect(), resource());
    let listed = join_all(places.iter().map(|place| member.list_once(place, &resource))).await;
    assert!(listed.iter().all(Result::is_ok), "{listed:?}");
    assert_eq!(most.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_single_list_that_waits_for_its_turn_is_not_given_up_as_slow() {
    let turns = Shared::default();
    let held: Vec<_> = std::iter::from_fn(|| turns.turns().free_turn()).collect();
    let informers = sharing(member(Vec::new(), Arc::default()), Arc::default(), turns);
    let (all, resource) = (Place::everywhere(&gvk()), resource());
    let frees = async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        drop(held);
    };
    let (listed, ()) = tokio::join!(informers.list_once(&all, &resource), frees);
    assert!(listed.is_ok(), "{listed:?}");
    assert!(informers.at_rest(&all).is_none());
}
