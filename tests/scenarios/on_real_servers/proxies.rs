//! Members behind a proxy, where a setting allows one. On real servers only: memory has no sockets.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use testkit::world::{At, Who, World};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_api::TargetState;

use super::scenario;
use crate::{
    config_map, says,
    settings::{set, settings_at},
};

/// A proxy on loopback that speaks HTTP CONNECT and SOCKS 5; how many tunnels it has dug.
struct Proxy {
    address: SocketAddr,
    dug: Arc<AtomicUsize>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dug, tasks, stop) =
            (Arc::<AtomicUsize>::default(), TaskTracker::new(), CancellationToken::new());
        let (count, of_tunnels, end) = (dug.clone(), tasks.clone(), stop.clone());
        tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let count = count.clone();
                let tunnel = async move {
                    let _ = dig(client, &count).await;
                };
                of_tunnels.spawn(end.clone().run_until_cancelled_owned(tunnel));
            }
        }));
        Self { address, dug, tasks, stop }
    }

    fn dug(&self) -> usize {
        self.dug.load(Ordering::Relaxed)
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn dig(mut client: TcpStream, count: &AtomicUsize) -> std::io::Result<()> {
    let first = client.read_u8().await?;
    let (target, granted) = if first == 5 { socks(&mut client).await? } else { connect(&mut client).await? };
    let mut server = TcpStream::connect(target).await?;
    client.write_all(&granted).await?;
    count.fetch_add(1, Ordering::Relaxed);
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// RFC 1928, to an IPv4 address, without a password.
async fn socks(client: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let methods = client.read_u8().await?;
    client.read_exact(&mut vec![0; methods.into()]).await?;
    client.write_all(&[5, 0]).await?;
    let mut request = [0; 10];
    client.read_exact(&mut request).await?;
    assert_eq!(request[..4], [5, 1, 0, 1], "connect to an IPv4 address");
    let port = u16::from_be_bytes([request[8], request[9]]);
    let address = format!("{}.{}.{}.{}:{port}", request[4], request[5], request[6], request[7]);
    Ok((address, vec![5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
}

async fn connect(client: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.strip_prefix("ONNECT ").and_then(|rest| rest.split(' ').next()).expect("a CONNECT");
    Ok((target.to_owned(), b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec()))
}

fn through(world: &World, member: &str, proxy: &str) -> String {
    let mut kubeconfig: Value = serde_saphyr::from_str(&world.kubeconfig(member, Who::VidraHub)).unwrap();
    for cluster in kubeconfig["clusters"].as_array_mut().unwrap() {
        cluster["cluster"]["proxy-url"] = proxy.into();
    }
    kubeconfig.to_string()
}

#[test]
fn members_behind_proxies_are_reached_through_them_where_the_settings_allow_it_and_only_then() {
    scenario(async |world| {
        let (http, socks) = (Proxy::start().await, Proxy::start().await);
        let berlin = through(&world, "berlin", &format!("http://{}", http.address));
        let tokyo = through(&world, "tokyo", &format!("socks5://{}", socks.address));
        world.register_as("berlin", &berlin, json!({})).await;
        world.register_as("tokyo", &tokyo, json!({})).await;
        for name in ["berlin", "tokyo"] {
            let message = world.member_says(name, "CredentialsValid", "False").await;
            assert!(message.contains("proxy-url") && message.contains("allowProxy"), "{message}");
        }
        assert_eq!((http.dug(), socks.dug()), (0, 0));

        set(&world, json!({"allowProxy": "true"})).await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let settings = At::config_map(&world.ns, "settings");
        for name in ["berlin", "tokyo"] {
            let alice = world.alice(name).await;
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            alice.when(&settings, "repaired", says("one")).await;
        }
        assert!(http.dug() > 0 && socks.dug() > 0);

        // No way around: neither when it is gone, nor when it is forbidden again.
        http.end().await;
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        set(&world, json!({"allowProxy": "false"})).await;
        world.target_is("shop", "tokyo", TargetState::Unknown, "NoCredentials").await;
        let direct = world.kubeconfig("berlin", Who::VidraHub);
        world.register_as("berlin", &direct, json!({})).await;
        world.register_as("tokyo", &world.kubeconfig("tokyo", Who::VidraHub), json!({})).await;
        world.ready("shop").await;
        socks.end().await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}
