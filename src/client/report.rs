//! `cowbell job report`: jobs as one HTML file, as the daemon makes it.

use std::time::Duration;

use super::Daemon;
use super::compare::JobSelection;
use super::job::ask_for;

/// Sixty jobs are summed up one after another, from a disk that may be busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The file's text.
pub async fn report(daemon: &Daemon, chosen: &JobSelection) -> anyhow::Result<String> {
    let query = chosen.query();
    let query: Vec<(&str, &str)> = query.iter().map(|(key, value)| (*key, &**value)).collect();
    ask_for(daemon, "/api/v1/jobs/report", &query, TIME_LIMIT).await
}
