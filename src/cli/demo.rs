//! `cowbell demo`: plays a recording of a backup that fails, again whenever the button of its banner is pressed.

use std::path::PathBuf;

use tokio::runtime::Handle;

use super::serve::Server;
use crate::config::Config;
use crate::daemon::Terms;
use crate::source::recording::{Player, Speed};
use crate::store;
use crate::web::Demo;

/// A recording of a real LVM host on which a snapshot overflows during a backup, by `tests/lab/run experiment-demo`.
static RECORDING: &[u8] = include_bytes!("../../web/demo.cowbell");
/// What it shows.
const STORY: &str = "half an hour on a database server whose backup fails";

/// Plays until a signal, each time with a new database, unless one is named.
pub async fn demo(
    config: Config,
    db: Option<PathBuf>,
    speed: Speed,
    web: &Handle,
) -> anyhow::Result<()> {
    let header = Player::of_bytes(RECORDING, speed)?.header().clone();
    let mut server = Server::open(config, &header.host, web)?;
    let demo = Demo {
        story: STORY,
        speed: speed.to_string(),
        is_repeatable: db.is_none(),
    };
    while !server.shutdown.is_cancelled() {
        let player = Player::of_bytes(RECORDING, speed)?;
        // Removed when dropped.
        let folder = store::passing_folder()?;
        let path = db
            .clone()
            .unwrap_or_else(|| folder.path().join("cowbell.db"));
        server
            .run(
                player.into(),
                Terms::of(header.clone()),
                &path,
                None,
                Some(demo.clone()),
            )
            .await?;
    }
    Ok(())
}
