//! `cowbell job export` and `import`: a job as one file, from one host to another.

use std::time::Duration;

use super::Daemon;
use super::job::{ask_for, understood};
use crate::web::JobBody;

/// A long job is read from a disk that may be busy, and written to one.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The file's text.
pub async fn export(daemon: &Daemon, id: i64) -> anyhow::Result<String> {
    ask_for(daemon, &format!("/api/v1/jobs/{id}/export"), &[], TIME_LIMIT).await
}

/// Hands a file to the daemon; gives a line for a person.
pub async fn import(daemon: &Daemon, file: Vec<u8>) -> anyhow::Result<String> {
    let request = daemon.http()?.post(daemon.url("/api/v1/jobs/import")).timeout(TIME_LIMIT);
    let request = request.header("Content-Type", "application/json").body(file);
    let answer = request.send().await.map_err(|error| daemon.unheard(&error.into()))?;
    let status = answer.status();
    let text = answer.text().await.unwrap_or_default();
    if !status.is_success() {
        anyhow::bail!("the daemon at {} answers: {}", daemon.address, super::said(text));
    }
    let job: JobBody = understood(&text)?;
    let host = job.imported_from.map_or_else(String::new, |host| format!(" of {host}"));
    let how = if status.as_u16() == 201 { "is" } else { "was here already as" };
    Ok(format!("{}{host} {how} job {}\n", job.name, job.id))
}
