//! A TCP proxy on loopback before a server, and what a way through a network may do to its connections: carry
//! nothing, be late, drip, break in the middle, garble, lead nowhere.
//!
//! ```text
//! client -> door (a listener; closed, or full, where the conduct says so) -> Line -> server
//!                                                                             up and down, a pump each
//! ```
//! It knows nothing of TLS and HTTP. What it is to do may be changed at any time, for all connections or for one.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Between two bytes of an answer that drips.
const DRIP: Duration = Duration::from_millis(100);
/// A connection to a door that is not full is there sooner.
const FULL_AFTER: Duration = Duration::from_millis(300);
const WAITING: u32 = 1024;
const PIECE: usize = 16 * 1024;

/// What the way does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// It carries everything, at once.
    Pass,
    /// Half open: connections stay and carry nothing in either direction; new ones are taken, and no more. What
    /// was sent meanwhile arrives when this ends, as TCP would send it again.
    Silent,
    /// The host has vanished: open connections are silent, and nobody answers who wants a new one.
    Vanished,
    /// The port is closed: open connections break, new ones are refused.
    Refuse,
    /// Each piece is late by this time, in both directions.
    Late(Duration),
    /// A byte of an answer each 100 ms.
    Drip,
    /// Connections break when they have carried so many bytes of answers since this was said.
    Cut(usize),
    /// A bit of each piece of an answer is wrong.
    Garble,
}

impl Conduct {
    fn carries(&self) -> bool {
        !matches!(self, Self::Silent | Self::Vanished)
    }

    /// What the door does: it is another one only where this differs.
    fn door(self) -> Door {
        match self {
            Self::Refuse => Door::Closed,
            Self::Vanished => Door::Full,
            _ => Door::Open,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Open,
    Closed,
    Full,
}

/// A TCP proxy that breaks, holds up and counts connections. Dropping it ends all connections, [`Proxy::stop`] waits for that.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    way: Arc<Way>,
    stop: CancellationToken,
}

struct Way {
    server: SocketAddr,
    conduct: watch::Sender<Conduct>,
    lines: Mutex<BTreeMap<u64, Arc<Line>>>,
    cuts: AtomicU64,
    tasks: TaskTracker,
}

/// One connection.
struct Line {
    conduct: watch::Sender<Conduct>,
    /// Bytes of answers.
    down: AtomicU64,
}

impl Proxy {
    /// Listens on a port of its own, and carries what comes to this server.
    ///
    /// # Errors
    /// No port is to be had.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into())?.listen(WAITING)?;
        let address = listener.local_addr()?;
        let way = Arc::new(Way {
            server,
            conduct: watch::Sender::new(Conduct::Pass),
            lines: Mutex::default(),
            cuts: AtomicU64::new(0),
            tasks: TaskTracker::new(),
        });
        let stop = CancellationToken::new();
        let door = way.clone().keep_door(address, listener, stop.clone());
        way.tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
            door.await.expect("the port is to be had again");
        }));
        Ok(Self { address, way, stop })
    }

    /// The same, as a kubeconfig names a server.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// What all connections do from now on, open and new ones.
    pub fn set(&self, conduct: Conduct) {
        // The door first: a connection that comes between is told by the one or by the other.
        self.way.conduct.send_replace(conduct);
        for line in self.way.lines.lock().values() {
            line.conduct.send_replace(conduct);
        }
    }

    /// What one open connection does from now on.
    pub fn set_one(&self, connection: u64, conduct: Conduct) {
        if let Some(line) = self.way.lines.lock().get(&connection) {
            line.conduct.send_replace(conduct);
        }
    }

    /// Open connections, and how many bytes of answers each has carried.
    pub fn open(&self) -> BTreeMap<u64, u64> {
        let lines = self.way.lines.lock();
        lines.iter().map(|(number, line)| (*number, line.down.load(Ordering::Relaxed))).collect()
    }

    /// How many connections were cut in the middle.
    pub fn cuts(&self) -> u64 {
        self.way.cuts.load(Ordering::Relaxed)
    }

    /// Ends all connections.
    pub async fn stop(self) {
        self.stop.cancel();
        self.way.tasks.close();
        self.way.tasks.wait().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Its port is taken again while connections of before are open.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Way {
    /// For ever.
    async fn keep_door(
        self: Arc<Self>,
        address: SocketAddr,
        first: TcpListener,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let mut conduct = self.conduct.subscribe();
        let (mut first, mut number) = (Some(first), 0);
        loop {
            let door = conduct.borrow_and_update().door();
            // Where it is not to be open any more, it is closed first.
            let open = first.take().filter(|_| door == Door::Open);
            let other = async |conduct: &mut watch::Receiver<Conduct>| {
                // Never fails: the sender is ours.
                let _ = conduct.wait_for(|now| now.door() != door).await;
            };
            match door {
                // Bound and not listening: the system refuses.
                Door::Closed => {
                    let _socket = bind(address)?;
                    other(&mut conduct).await;
                }
                Door::Full => {
                    let _listener = bind(address)?.listen(1)?;
                    // Nobody accepts: when the backlog is full, the system does not answer.
                    let mut held = Vec::new();
                    while let Ok(connected) = timeout(FULL_AFTER, TcpStream::connect(address)).await {
                        held.push(connected?);
                    }
                    other(&mut conduct).await;
                }
                Door::Open => {
                    let listener = match open {
                        Some(listener) => listener,
                        None => bind(address)?.listen(WAITING)?,
                    };
                    loop {
                        let client = tokio::select! {
                            biased;
                            () = other(&mut conduct) => break,
                            client = listener.accept() => client?.0,
                        };
                        number += 1;
                        let line = self.clone().carry(number, client);
                        self.tasks.spawn(stop.clone().run_until_cancelled_owned(line));
                    }
                }
            }
        }
    }

    /// One connection to its end.
    async fn carry(self: Arc<Self>, number: u64, client: TcpStream) {
        let line = {
            let mut lines = self.lines.lock();
            let conduct = watch::Sender::new(*self.conduct.borrow());
            lines.entry(number).or_insert(Arc::new(Line { conduct, down: AtomicU64::new(0) })).clone()
        };
        // How a connection ends is told to both its ends by closing them.
        let _ = self.join(&line, client).await;
        self.lines.lock().remove(&number);
    }

    async fn join(&self, line: &Line, client: TcpStream) -> io::Result<()> {
        let _ = line.conduct.subscribe().wait_for(Conduct::carries).await;
        let server = TcpStream::connect(self.server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::try_join!(self.up(line, from_client, to_server), self.down(line, from_server, to_client))?;
        Ok(())
    }

    async fn up(&self, line: &Line, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut pump = Pump::new(line);
        while let Some((conduct, piece)) = pump.piece(&mut from).await? {
            if let Conduct::Late(time) = conduct {
                sleep(time).await;
            }
            to.write_all(piece).await?;
        }
        to.shutdown().await
    }

    async fn down(&self, line: &Line, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut pump = Pump::new(line);
        let (mut under, mut carried) = (Conduct::Pass, 0);
        while let Some((conduct, piece)) = pump.piece(&mut from).await? {
            if std::mem::replace(&mut under, conduct) != conduct {
                carried = 0;
            }
            carried += piece.len();
            match conduct {
                Conduct::Late(time) => sleep(time).await,
                Conduct::Drip => {
                    drip(line, piece, &mut to).await?;
                    continue;
                }
                Conduct::Garble => piece[piece.len() / 2] ^= 1,
                Conduct::Cut(most) if carried > most => {
                    let left = piece.len() - (carried - most).min(piece.len());
                    to.write_all(&piece[..left]).await?;
                    self.cuts.fetch_add(1, Ordering::Relaxed);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                _ => {}
            }
            to.write_all(piece).await?;
            line.down.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        to.shutdown().await
    }
}

/// A byte at a time, as long as that is the conduct; then the rest.
async fn drip(line: &Line, piece: &[u8], to: &mut OwnedWriteHalf) -> io::Result<()> {
    for (number, byte) in piece.iter().enumerate() {
        if *line.conduct.borrow() != Conduct::Drip {
            let _ = line.conduct.subscribe().wait_for(Conduct::carries).await;
            return to.write_all(&piece[number..]).await;
        }
        to.write_all(&[*byte]).await?;
        line.down.fetch_add(1, Ordering::Relaxed);
        sleep(DRIP).await;
    }
    Ok(())
}

/// One direction of a connection, as it is read.
struct Pump {
    conduct: watch::Receiver<Conduct>,
    buffer: Vec<u8>,
}

impl Pump {
    fn new(line: &Line) -> Self {
        Self { conduct: line.conduct.subscribe(), buffer: vec![0; PIECE] }
    }

    /// The next piece that is to be carried, and what is to be done with it; `None`: its sender has ended.
    async fn piece(&mut self, from: &mut OwnedReadHalf) -> io::Result<Option<(Conduct, &mut [u8])>> {
        let gone = |_| io::Error::from(io::ErrorKind::ConnectionAborted);
        let size = loop {
            self.conduct.wait_for(Conduct::carries).await.map_err(gone)?;
            if *self.conduct.borrow_and_update() == Conduct::Refuse {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            tokio::select! {
                biased;
                changed = self.conduct.changed() => changed.map_err(gone)?,
                size = from.read(&mut self.buffer) => break size?,
            }
        };
        // It may have become silent since.
        let conduct = *self.conduct.wait_for(Conduct::carries).await.map_err(gone)?;
        Ok((size > 0).then(|| (conduct, &mut self.buffer[..size])))
    }
}

#[cfg(test)]
mod tests;
