//! An operator that changes the quorum of an application.

use std::time::Duration;

use bellwether::domain::command::Command;
use bellwether::domain::name::AppName;
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::quorum::Quorum;
use tokio::time::sleep;

use super::Client;

/// Configures the quorum of an application now and then, or none.
pub async fn configure(mut client: Client, app: AppName) {
    loop {
        let quorum = match client.dice.index(5) {
            0 => None,
            1 => Some(Quorum::Percent(50)),
            units => Some(Quorum::Units(units as u32 - 1)),
        };
        let patch = ConfigPatch { quorum: Some(quorum), ..ConfigPatch::default() };
        let place = client.pick();
        client.apply(place, &app, None, Command::Configure(Box::new(patch))).await;
        sleep(Duration::from_millis(client.dice.between(10_000, 60_000))).await;
    }
}
