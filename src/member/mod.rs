//! Everything towards one member cluster: connection, session, informers, records, applies.

mod absent;
pub mod apply;
mod call_guard;
pub mod cause;
pub mod claims;
pub mod connect;
mod connection_pool;
mod dns;
pub mod doubt;
pub mod fence;
pub mod informers;
pub mod kind_facts;
pub mod kinds;
pub mod late_creates;
pub mod live;
pub mod metadata_list;
mod namespaces;
pub mod own_objects;
mod reading;
pub mod records;
pub mod session;
pub mod session_deps;
