//! `cowbell job export`, `import` and `report`: jobs as files.

use std::time::Duration;

use super::compare::JobSelection;
use super::{Daemon, LONGEST_LIMIT, accepted, failed, parsed};
use crate::web::JobBody;

/// The time limit for a long job, which is read from or written to a busy disk.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The file of a job.
pub async fn export(daemon: &Daemon, id: i64) -> anyhow::Result<String> {
    daemon
        .ask(&format!("/api/v1/jobs/{id}/export"), &[], TIME_LIMIT)
        .await
}

/// Imports a file; returns a line to print.
pub async fn import(daemon: &Daemon, file: Vec<u8>) -> anyhow::Result<String> {
    let request = daemon
        .http()
        .await?
        .post(super::url("/api/v1/jobs/import"))
        .timeout(TIME_LIMIT);
    let request = request
        .header("Content-Type", "application/json")
        .body(file);
    let answer = request.send().await.map_err(|error| failed(error.into()))?;
    let status = answer.status();
    let text = accepted(status.is_success(), answer.text().await.unwrap_or_default())?;
    let job: JobBody = parsed(&text)?;
    let host = job
        .imported_from
        .map_or_else(String::new, |host| format!(" of {host}"));
    let how = if status.as_u16() == 201 {
        "is"
    } else {
        "exists already as"
    };
    Ok(format!("{}{host} {how} job {}\n", job.name, job.id))
}

/// Jobs as one HTML file.
pub async fn report(daemon: &Daemon, chosen: &JobSelection) -> anyhow::Result<String> {
    daemon
        .ask("/api/v1/jobs/report", &chosen.query(), LONGEST_LIMIT)
        .await
}
