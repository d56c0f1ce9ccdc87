//! Clusters over HTTPS, in real time: who gets in, what a client that goes away leaves behind (nothing), and
//! what being out of reach looks like from outside.
#![allow(clippy::disallowed_methods, reason = "clients run beside the tests, not in the server")]

mod binary;
mod client;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::{CONFIG_MAPS, World, ask, http2, json, read_until, request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use memkube::listen::{ListenError, Server, Settings, User};
use memkube::{Cluster, Down, Fault, Options, tokio_clock};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes, shorter than a person waits.
const LONG: Duration = Duration::from_secs(10);
/// So long nothing comes from a silent server.
const SHORT: Duration = Duration::from_millis(150);

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_leads_to_each_cluster_and_only_its_owner_may_read_it() -> Result<()> {
    let world = World::new().await?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config");
    std::fs::write(&path, "old")?;
    world.server.write_kubeconfig(&path, "tester")?;
    ensure!(std::fs::metadata(&path)?.permissions().mode() & 0o777 == 0o600);
    ensure!(std::fs::read_dir(directory.path())?.count() == 1, "nothing is left beside it");
    let all = Kubeconfig::read_from(&path)?;
    ensure!(all.current_context.as_deref() == Some("one"));
    for (context, kubeconfig) in [
        ("one", all.clone()),
        ("two", all),
        ("two", Kubeconfig::from_yaml(&world.server.kubeconfig_of("two", "tester")?)?),
    ] {
        let options = KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let api: Api<ConfigMap> = Api::default_namespaced(kube::Client::try_from(config)?);
        api.list(&Default::default()).await?;
    }
    let calls: Vec<_> = world.clusters.iter().flat_map(Cluster::requests).collect();
    let seen: Vec<_> = calls.iter().map(|call| (&*call.cluster, &*call.user)).collect();
    ensure!(seen == [("one", "tester"), ("two", "tester"), ("two", "tester")], "{seen:?}");
    for (cluster, user) in [("one", "nobody"), ("three", "tester")] {
        let refused = world.server.kubeconfig_of(cluster, user);
        ensure!(matches!(refused, Err(ListenError::Unknown { .. })), "{refused:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_its_own_cluster_and_without_one_only_health_and_version_are_told() -> Result<()> {
    let world = World::new().await?;
    let (own, other) = (world.token("one"), world.token("two"));
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
        "reason": "Unauthorized", "code": 401,
    });
    for (header, path, code) in [
        (format!("Authorization: Bearer {own}\r\n"), CONFIG_MAPS, 200),
        (format!("Authorization: bearer {own}\r\n"), CONFIG_MAPS, 200),
        (format!("Authorization: Bearer {other}\r\n"), CONFIG_MAPS, 401),
        (format!("Authorization: Basic {own}\r\n"), CONFIG_MAPS, 401),
        ("Authorization: Bearer wrong\r\n".to_owned(), "/healthz", 401),
        (String::new(), CONFIG_MAPS, 401),
        (String::new(), "/apis", 401),
        (String::new(), "/healthz", 200),
        (String::new(), "/livez", 200),
        (String::new(), "/readyz", 200),
        (String::new(), "/version", 200),
    ] {
        let (found, body) =
            ask(&world, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n"), b"").await?;
        ensure!(found == code && (code != 401 || body == status), "{header:?} {path}: {found} {body}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_carry_writes_and_watches() -> Result<()> {
    let world = World::new().await?;
    let body = json!({"metadata": {"name": "a"}}).to_string();
    let length = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let (code, _) = ask(&world, &world.head("POST", CONFIG_MAPS, &length), body.as_bytes()).await?;
    ensure!(code == 201);
    let mut sender = http2(&world).await?;
    let watch = request(&world, "GET", &format!("{CONFIG_MAPS}?watch=true"), "")?;
    let mut watch = sender.send_request(watch).await?.into_body();
    let mut old = world.connect(b"http/1.1").await?;
    old.write_all(world.head("GET", &format!("{CONFIG_MAPS}?watch=true"), "").as_bytes()).await?;
    read_until(&mut old, "ADDED").await?;
    let delete = request(&world, "DELETE", &format!("{CONFIG_MAPS}/a"), "")?;
    ensure!(json(sender.send_request(delete).await?).await?.0 == 200);
    for event in ["ADDED", "DELETED"] {
        use http_body_util::BodyExt;
        let frame = timeout(LONG, watch.frame()).await?.context("an event")??;
        let data = frame.into_data().unwrap_or_default();
        ensure!(String::from_utf8_lossy(&data).contains(event), "{data:?}");
    }
    read_until(&mut old, "DELETED").await?;
    world.until_open(2, 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_leave_nothing_behind() -> Result<()> {
    let world = World::new().await?;
    let length = "Content-Type: application/json\r\nContent-Length: 1000\r\n";
    for round in 0..3 {
        let silent = world.tcp().await?;
        let mut writer = world.connect(b"http/1.1").await?;
        writer.write_all(world.head("POST", CONFIG_MAPS, length).as_bytes()).await?;
        writer.write_all(b"{\"metadata\":").await?;
        let mut watcher = world.connect(b"http/1.1").await?;
        watcher.write_all(world.head("GET", &format!("{CONFIG_MAPS}?watch=true"), "").as_bytes()).await?;
        read_until(&mut watcher, "200 OK").await?;
        let mut sender = http2(&world).await?;
        let watch = request(&world, "GET", &format!("{CONFIG_MAPS}?watch=true"), "")?;
        let watch = sender.send_request(watch).await?;
        world.until_open(4, 3).await.with_context(|| format!("round {round}"))?;
        drop((silent, writer, watcher, watch, sender));
        world.until_open(0, 0).await.with_context(|| format!("round {round}"))?;
        ensure!(world.server.tasks() == 2, "one that accepts for each cluster");
    }
    ensure!(world.clusters[0].objects("", "configmaps").is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_long_is_refused_and_not_read_for_ever() -> Result<()> {
    let world = World::new().await?;
    let body = vec![b'x'; 4 << 20];
    let length = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let (code, answer) = ask(&world, &world.head("POST", CONFIG_MAPS, &length), &body).await?;
    ensure!(code == 413 && answer["reason"] == "RequestEntityTooLarge", "{code} {answer}");
    // A client that would never end.
    let mut endless = world.connect(b"http/1.1").await?;
    let head = world.head("POST", CONFIG_MAPS, "Transfer-Encoding: chunked\r\n");
    endless.write_all(head.as_bytes()).await?;
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 1 << 16], b"\r\n"].concat();
    let send = async { while endless.write_all(&chunk).await.is_ok() {} };
    timeout(LONG, send).await.context("the server goes on reading")?;
    let (code, answer) = {
        let large = "x".repeat(4 << 20);
        let large = request(&world, "POST", CONFIG_MAPS, &large)?;
        json(http2(&world).await?.send_request(large).await?).await?
    };
    ensure!(code == 413 && answer["code"] == 413, "{code} {answer}");
    drop(endless);
    world.until_open(0, 0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_refuses_breaks_open_connections_and_takes_no_new_ones() -> Result<()> {
    let world = World::new().await?;
    let mut idle = world.connect(b"http/1.1").await?;
    let mut watcher = world.connect(b"http/1.1").await?;
    watcher.write_all(world.head("GET", &format!("{CONFIG_MAPS}?watch=true"), "").as_bytes()).await?;
    read_until(&mut watcher, "200 OK").await?;
    let mut sender = http2(&world).await?;
    world.clusters[0].set_down(Some(Down::Refuse));
    world.until_open(0, 0).await?;
    for stream in [&mut idle, &mut watcher] {
        let mut rest = Vec::new();
        // Ended without a goodbye: an error, not an end.
        ensure!(timeout(LONG, stream.read_to_end(&mut rest)).await?.is_err());
    }
    ensure!(sender.send_request(request(&world, "GET", CONFIG_MAPS, "")?).await.is_err());
    ensure!(world.connect(b"http/1.1").await.is_err());
    world.clusters[0].set_down(None);
    let (code, _) = ask(&world, &world.head("GET", CONFIG_MAPS, ""), b"").await?;
    ensure!(code == 200);
    // As short as can be: open connections break all the same.
    let mut idle = world.connect(b"http/1.1").await?;
    world.clusters[0].set_down(Some(Down::Refuse));
    world.clusters[0].set_down(None);
    ensure!(timeout(LONG, idle.read(&mut [0])).await?.is_err());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_hangs_is_silent_and_goes_on_where_it_was() -> Result<()> {
    let world = World::new().await?;
    let mut open = world.connect(b"http/1.1").await?;
    world.until_open(1, 0).await?;
    world.clusters[0].set_down(Some(Down::Hang));
    open.write_all(world.head("GET", "/version", "").as_bytes()).await?;
    // Not even a wrong token is told so.
    let refused = ask(&world, "GET /apis HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n", b"");
    ensure!(timeout(SHORT, refused).await.is_err(), "no TLS either");
    ensure!(timeout(SHORT, open.read(&mut [0])).await.is_err());
    world.clusters[0].set_down(None);
    timeout(LONG, read_until(&mut open, "gitVersion")).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fault_of_a_call_breaks_its_connection() -> Result<()> {
    let world = World::new().await?;
    world.clusters[0].set_fault(std::sync::Arc::new(|call| match call.resource.as_str() {
        "configmaps" => Fault::DropAfter,
        _ => Fault::None,
    }));
    let mut stream = world.connect(b"http/1.1").await?;
    stream.write_all(world.head("GET", CONFIG_MAPS, "").as_bytes()).await?;
    let mut rest = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut rest)).await?;
    ensure!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    let mut sender = http2(&world).await?;
    ensure!(sender.send_request(request(&world, "GET", CONFIG_MAPS, "")?).await.is_err());
    let (code, _) = json(sender.send_request(request(&world, "GET", "/version", "")?).await?).await?;
    ensure!(code == 200, "other streams go on");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_task_is_left_when_a_server_stops_is_dropped_or_is_told_to_end() -> Result<()> {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let gone = |before: usize| async move {
        for _ in 0..500 {
            if alive() <= before {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::bail!("{} tasks are left, {before} were before", alive())
    };
    let before = alive();
    for how in ["stopped", "dropped", "told"] {
        let cluster =
            Cluster::new("one", Options { clock: tokio_clock(jiff::Timestamp::UNIX_EPOCH), uids: 7 });
        let token = CancellationToken::new();
        let user = User { name: "tester".to_owned(), token: Some("secret".to_owned()) };
        let settings = Settings { users: vec![user], ..Settings::default() };
        let server = Server::start(vec![cluster.clone()], &settings, &token).await?;
        ensure!(server.endpoints()[0].token("tester") == Some("secret"));
        let world = World { clusters: vec![cluster], server };
        let mut watcher = world.connect(b"http/1.1").await?;
        watcher.write_all(world.head("GET", &format!("{CONFIG_MAPS}?watch=true"), "").as_bytes()).await?;
        read_until(&mut watcher, "200 OK").await?;
        let mut sender = http2(&world).await?;
        let watch = request(&world, "GET", &format!("{CONFIG_MAPS}?watch=true"), "")?;
        let watch = sender.send_request(watch).await?;
        match how {
            "stopped" => timeout(LONG, world.server.stop()).await?,
            "dropped" => drop(world),
            _ => {
                token.cancel();
                world.until_open(0, 0).await?;
                ensure!(world.connect(b"h2").await.is_err());
            }
        }
        drop((watch, sender, watcher));
        gone(before).await.context(how)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_one_name_and_ports_that_are_taken_are_refused() -> Result<()> {
    let cluster =
        |name: &str| Cluster::new(name, Options { clock: tokio_clock(jiff::Timestamp::UNIX_EPOCH), uids: 7 });
    let stop = CancellationToken::new();
    let twice = Server::start(vec![cluster("a"), cluster("a")], &Settings::default(), &stop).await;
    ensure!(matches!(twice, Err(ListenError::Name(name)) if name == "a"));
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let settings = Settings { first_port: taken.local_addr()?.port(), ..Settings::default() };
    let refused = Server::start(vec![cluster("a")], &settings, &stop).await;
    ensure!(matches!(refused, Err(ListenError::Bind { .. })));
    Ok(())
}
