//! Each conduct of the proxy, before a server that sends back what it gets.

use super::*;

const SOON: Duration = Duration::from_secs(10);
/// On loopback nothing takes so long.
const NOTHING: Duration = Duration::from_millis(200);

/// An echo, a proxy before it, and a connection through it that carries.
async fn echo(tasks: &TaskTracker) -> (Proxy, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let of_connections = tasks.clone();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            of_connections.spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    let proxy = Proxy::start(address).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    assert_eq!(said(&mut stream, "hello").await, "hello");
    (proxy, stream)
}

/// Sends this; as much of an answer as comes.
async fn said(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    heard(stream, text.len()).await.unwrap()
}

async fn heard(stream: &mut TcpStream, size: usize) -> io::Result<String> {
    let mut answer = vec![0; size];
    timeout(SOON, stream.read_exact(&mut answer)).await.expect("an answer")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn hears_nothing(stream: &mut TcpStream) {
    let heard = timeout(NOTHING, stream.read_u8()).await;
    assert!(heard.is_err(), "{heard:?}");
}

#[tokio::test]
async fn a_silent_connection_stays_open_and_what_was_sent_arrives_later() {
    let (proxy, mut stream) = echo(&TaskTracker::new()).await;
    proxy.set(Conduct::Silent);
    stream.write_all(b"anybody").await.unwrap();
    hears_nothing(&mut stream).await;
    let mut other = TcpStream::connect(proxy.address).await.unwrap();
    other.write_all(b"there").await.unwrap();
    hears_nothing(&mut other).await;
    proxy.set(Conduct::Pass);
    assert_eq!(heard(&mut stream, 7).await.unwrap(), "anybody");
    assert_eq!(heard(&mut other, 5).await.unwrap(), "there");
    proxy.stop().await;
}

#[tokio::test]
async fn one_connection_is_silent_and_the_others_are_not() {
    let (proxy, mut stream) = echo(&TaskTracker::new()).await;
    let mut other = TcpStream::connect(proxy.address).await.unwrap();
    assert_eq!(said(&mut other, "to be told apart by its size").await.len(), 28);
    let carried = proxy.open();
    let (largest, _) = carried.iter().max_by_key(|(_, bytes)| **bytes).unwrap();
    proxy.set_one(*largest, Conduct::Silent);
    other.write_all(b"anybody").await.unwrap();
    hears_nothing(&mut other).await;
    assert_eq!(said(&mut stream, "still here").await, "still here");
    proxy.stop().await;
}

#[tokio::test]
async fn a_closed_port_refuses_and_breaks_what_is_open_until_it_is_open_again() {
    let (proxy, mut stream) = echo(&TaskTracker::new()).await;
    proxy.set(Conduct::Refuse);
    assert!(heard(&mut stream, 1).await.is_err());
    let refused = async {
        loop {
            match TcpStream::connect(proxy.address).await {
                Err(error) => break error.kind(),
                Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    assert_eq!(timeout(SOON, refused).await.unwrap(), io::ErrorKind::ConnectionRefused);
    proxy.set(Conduct::Pass);
    let again = async {
        loop {
            if let Ok(stream) = TcpStream::connect(proxy.address).await {
                break stream;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let mut stream = timeout(SOON, again).await.unwrap();
    assert_eq!(said(&mut stream, "back").await, "back");
    proxy.stop().await;
}

#[tokio::test]
async fn nobody_answers_who_wants_a_connection_to_a_host_that_has_vanished() {
    let (proxy, mut stream) = echo(&TaskTracker::new()).await;
    proxy.set(Conduct::Vanished);
    stream.write_all(b"anybody").await.unwrap();
    hears_nothing(&mut stream).await;
    // The door is full after a moment; connections until then count for nothing.
    let unanswered = async {
        let mut held = Vec::new();
        while let Ok(connected) = timeout(NOTHING, TcpStream::connect(proxy.address)).await {
            held.push(connected);
        }
    };
    timeout(SOON, unanswered).await.unwrap();
    proxy.set(Conduct::Pass);
    assert_eq!(heard(&mut stream, 7).await.unwrap(), "anybody");
    // The first SYN is lost; the system sends it again after a second.
    let mut again = timeout(SOON, TcpStream::connect(proxy.address)).await.unwrap().unwrap();
    assert_eq!(said(&mut again, "back").await, "back");
    proxy.stop().await;
}

#[tokio::test]
async fn answers_drip_are_late_are_garbled_and_are_cut() {
    let (proxy, mut stream) = echo(&TaskTracker::new()).await;
    proxy.set(Conduct::Drip);
    let began = tokio::time::Instant::now();
    assert_eq!(said(&mut stream, "slow").await, "slow");
    assert!(began.elapsed() >= 3 * DRIP, "{:?}", began.elapsed());

    proxy.set(Conduct::Late(NOTHING));
    let began = tokio::time::Instant::now();
    assert_eq!(said(&mut stream, "late").await, "late");
    assert!(began.elapsed() >= 2 * NOTHING, "{:?}", began.elapsed());

    proxy.set(Conduct::Garble);
    assert_ne!(said(&mut stream, "wrong").await, "wrong");

    proxy.set(Conduct::Cut(3));
    stream.write_all(b"middle").await.unwrap();
    assert_eq!(heard(&mut stream, 3).await.unwrap(), "mid");
    assert!(heard(&mut stream, 1).await.is_err());
    assert_eq!(proxy.cuts(), 1);
    proxy.stop().await;
}
