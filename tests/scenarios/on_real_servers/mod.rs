//! Scenarios that only real servers can show: connections that break on their way, proxies, controllers.

mod causes;
mod proxies;
mod quota;
mod real;
mod transport;
mod webhooks;

use testkit::world::on_real_servers as scenario;
