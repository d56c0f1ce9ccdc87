//! The hub's three seams, as the simulation owns them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use tower::ServiceExt;
use vidra_core::kubeconfig::{ClientAuth, MemberConfig};
use vidra_hub::base::env::{Clock, Connect, ConnectError, Link, Rng, SecretError, SeededRng};

use memkube::Address;

/// The token that members accept.
pub const TOKEN: &str = "a-token";

/// Wall time: that of the clusters, which goes with tokio's clock.
pub struct SimClock(pub memkube::Clock);

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        (self.0)()
    }

    fn uptime(&self) -> Duration {
        Duration::try_from((self.0)().as_duration()).unwrap_or_default()
    }
}

/// The way to members: the host of a kubeconfig's server leads to a cluster in memory.
pub struct SimConnect {
    /// By host.
    pub members: BTreeMap<String, Address>,
    /// As whom.
    pub user: Arc<str>,
}

impl Connect for SimConnect {
    fn connect(&self, config: &MemberConfig) -> Result<Link, ConnectError> {
        let host = config.server.host().unwrap_or_default();
        let unknown = || ConnectError::Server(format!("the simulation has no member at {host:?}"));
        let member = self.members.get(host).ok_or_else(unknown)?;
        match &config.client_auth {
            ClientAuth::Token(token) if token.expose() == TOKEN => {
                Ok(member.service_as(&self.user).boxed_clone())
            }
            _ => Err(ConnectError::Tls("the simulation's members take one token only".into())),
        }
    }
}

/// Chance. What a hub without identity makes its hash key of is the same in every life, so that names made with the key can
/// be compared between runs; the numbers are the life's own.
pub struct SimRng {
    first: SeededRng,
    own: SeededRng,
}

impl SimRng {
    /// For the hub's life of this number.
    pub fn new(seed: u64, life: u32) -> Self {
        let own = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(life);
        Self { first: SeededRng::new(seed), own: SeededRng::new(own) }
    }
}

impl Rng for SimRng {
    fn next(&self) -> u64 {
        self.own.next()
    }

    /// The same in each life.
    fn secret(&self) -> Result<[u8; 32], SecretError> {
        self.first.secret()
    }
}
