//! Jobs as files: one that is over is given out, one of another host is taken in.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

use super::commands::{Answer, forgotten_or_room, send};
use crate::commands::Command;
use crate::job::{IMPORTED, Job};
use crate::report::file;
use crate::store::{on_a_thread, packed};
use crate::web::Site;
use crate::web::answer::{Problem, ProblemBody};
use crate::web::api::JobBody;
use crate::web::slow;

/// Of a file that is sent, so much is in the hands of the connection.
const CHUNK: usize = 64 * 1024;
/// All of a file is sent within this time, as long as `cowbell job export` waits for it.
const SENT_WITHIN: Duration = Duration::from_secs(60);

/// A job that is over as one file, for another host. `src/report/file.rs` describes it.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/export", tag = "jobs",
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 200, description = "The file", content_type = "application/json", body = String), (status = 404, body = ProblemBody), (status = 409, description = "It runs", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn export_job(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<([(HeaderName, String); 2], Body), Problem> {
    let job = super::numbered(&site, &id).await?;
    if job.is_running() {
        return Err(Problem::Conflict(format!("job {id} runs: export it when it is over")));
    }
    let permit = site.costs.export()?;
    // Also where the visitor goes away, its memory is taken until it is done.
    let writing = tokio::spawn(async move { site.file_of(&job).await.map(|file| (file, permit)) });
    let (file, permit) = writing.await.map_err(|error| Problem::Inside(anyhow::Error::new(error)))??;
    let head =
        [(header::CONTENT_TYPE, "application/json".into()), (header::CONTENT_LENGTH, file.len().to_string())];
    Ok((head, sent(file, permit)))
}

/// What is still to be sent, and the leave to hold it in memory.
type Rest = Option<(Bytes, OwnedSemaphorePermit)>;

/// A body that holds file and permit until all of it is handed on, or too late. Whoever stalls does not ask for the next
/// part of it, so both are taken from it by a task beside: the lock is for these two, and never held across a wait.
fn sent(file: Vec<u8>, permit: OwnedSemaphorePermit) -> Body {
    let rest = Arc::new(Mutex::new(Some((Bytes::from(file), permit))));
    let late = Arc::downgrade(&rest);
    tokio::spawn(async move {
        tokio::time::sleep(SENT_WITHIN).await;
        drop(late.upgrade().and_then(|rest| lock(&rest).take()));
    });
    Body::from_stream(unfold(Some(rest), async |rest| {
        let rest = rest?;
        let chunk = match &mut *lock(&rest) {
            None => Err(io::Error::from(io::ErrorKind::TimedOut)),
            Some((bytes, _)) if bytes.is_empty() => return None,
            // A copy, so that the connection does not hold all of it.
            Some((bytes, _)) => Ok(Bytes::copy_from_slice(&bytes.split_to(bytes.len().min(CHUNK)))),
        };
        let goes_on = chunk.is_ok().then_some(rest);
        Some((chunk, goes_on))
    }))
}

fn lock(rest: &Mutex<Rest>) -> MutexGuard<'_, Rest> {
    rest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job that was imported.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ImportedJob {
    #[serde(flatten)]
    pub job: JobBody,
    /// Why it is held in memory and not stored, with status 202
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Takes in the file of a job of another host, whole or not at all. The same file twice is the same job.
#[utoipa::path(post, path = "/api/v1/jobs/import", tag = "jobs", request_body(content = String, content_type = "application/json", description = "As `export` gives it, 16 MiB at most"),
    responses((status = 200, description = "It was here already", body = ImportedJob), (status = 201, description = "Stored", body = ImportedJob), (status = 202, description = "Held in memory, not stored", body = ImportedJob), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody), (status = 409, description = "A recording is played", body = ProblemBody), (status = 503, body = ProblemBody), (status = 507, description = "Not stored: jobs and imported files take all the room they may", body = ProblemBody)))]
pub async fn import_job(
    State(site): State<Site>,
    body: Body,
) -> Result<(StatusCode, Json<ImportedJob>), Problem> {
    let permit = site.costs.import()?;
    let refused = || {
        let (most, seconds) = (file::LONGEST / 1024 / 1024, slow::LONGEST.as_secs());
        Problem::Bad(format!(
            "cannot take the file in: expected {most} MiB at most, and all of it within {seconds} s"
        ))
    };
    let body = to_bytes(body, file::LONGEST).await.map_err(|_| refused())?;
    // It goes on where the visitor goes away, and so holds the permit.
    let checking = on_a_thread(move || {
        let checked = checked(body);
        drop(permit);
        checked
    });
    let (job, file) = checking.await??;
    let stored = forgotten_or_room(&site, &job.key, file.len()).await?;
    let Answer { status, job, message } = send(&site, Command::Import(Box::new(job), file), stored).await?;
    Ok((status, Json(ImportedJob { job: JobBody::from(&job), message })))
}

/// The job of a file, and the file as it is kept: written anew from what was understood, so that nothing else is in it.
fn checked(body: Bytes) -> Result<(Job, Arc<[u8]>), Problem> {
    let read = file::read(&body, crate::source::live::now());
    // What was understood is written while it is not there any more.
    drop(body);
    let (job, course) = read.map_err(|error| Problem::Bad(error.to_string()))?;
    let text = file::write(&job, &course).map_err(|error| Problem::Inside(anyhow::Error::new(error)))?;
    let file = packed(&text).map_err(|error| Problem::Inside(anyhow::Error::new(error)))?;
    let key = format!("{IMPORTED}{:x}", Sha256::digest(&text));
    Ok((Job { key, ..job }, file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::costs::Costs;
    use futures_util::StreamExt;

    /// Of more than one chunk.
    fn file() -> Vec<u8> {
        (0..3 * CHUNK + 7).map(|place| place as u8).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn who_stalls_gives_his_place_back_and_gets_no_whole_file() {
        let costs = Costs::default();
        let mut parts = sent(file(), costs.export().unwrap()).into_data_stream();
        assert_eq!(parts.next().await.unwrap().unwrap().len(), CHUNK);
        assert!(costs.export().is_err(), "he has the place");
        tokio::time::sleep(SENT_WITHIN + Duration::from_secs(1)).await;
        assert!(costs.export().is_ok(), "another has it");
        assert!(parts.next().await.unwrap().is_err() && parts.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_on_gets_all_of_it_and_who_goes_away_gives_his_place_back() {
        let costs = Costs::default();
        let whole = to_bytes(sent(file(), costs.export().unwrap()), usize::MAX).await.unwrap();
        assert_eq!(whole, file());
        drop(sent(file(), costs.export().unwrap()));
        assert!(costs.export().is_ok());
    }
}
