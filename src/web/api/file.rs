//! Export and import of jobs as files.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedMutexGuard;
use utoipa::ToSchema;

use super::commands::{CommandOutcome, forgotten_or_room, send};
use super::jobs::JobBody;
use crate::job::{IMPORTED, Job};
use crate::report::file;
use crate::requests::Command;
use crate::store::{on_a_thread, packed};
use crate::web::SharedSite;
use crate::web::answer::{Problem, ProblemBody};
use crate::web::connections::BODY_TIMEOUT;

/// The part of a file that the connection buffers.
const CHUNK: usize = 64 * 1024;
/// The time limit for sending a file; `cowbell job export` waits as long.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// An ended job as one file, for another host. `src/report/file.rs` describes the format.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/export", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "The file", content_type = "application/json", body = Object), (status = 404, body = ProblemBody), (status = 409, description = "The job is running", body = ProblemBody)))]
pub async fn export_job(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
) -> Result<([(HeaderName, String); 2], Body), Problem> {
    let job = super::numbered(&site, &id).await?;
    if job.is_running() {
        return Err(Problem::Conflict(format!(
            "job {id} is running: export it when it has ended"
        )));
    }
    let permit = site.costs.export()?;
    // A task of its own, which holds the permit even if the client disconnects.
    let writing = tokio::spawn(async move { site.file_of(&job).await.map(|file| (file, permit)) });
    let (file, permit) = writing
        .await
        .map_err(|error| Problem::Inside(anyhow::Error::new(error)))??;
    let head = [
        (header::CONTENT_TYPE, "application/json".into()),
        (header::CONTENT_LENGTH, file.len().to_string()),
    ];
    Ok((head, sent(file, permit)))
}

/// The unsent rest and its permit.
type Rest = Option<(Bytes, OwnedMutexGuard<()>)>;

/// A body that drops file and permit when all is sent, or at the time limit: a stalled client does not request more, so a
/// separate task takes them. The lock is never held across a wait.
fn sent(file: Vec<u8>, permit: OwnedMutexGuard<()>) -> Body {
    let rest = Arc::new(Mutex::new(Some((Bytes::from(file), permit))));
    let late = Arc::downgrade(&rest);
    tokio::spawn(async move {
        tokio::time::sleep(SEND_TIMEOUT).await;
        drop(late.upgrade().and_then(|rest| lock(&rest).take()));
    });
    let parts = unfold(Some(rest), async |rest| {
        let rest = rest?;
        let chunk = match &mut *lock(&rest) {
            None => Err(io::Error::from(io::ErrorKind::TimedOut)),
            Some((bytes, _)) if bytes.is_empty() => return None,
            // A copy, so that the connection does not hold the whole file.
            Some((bytes, _)) => Ok(Bytes::copy_from_slice(
                &bytes.split_to(bytes.len().min(CHUNK)),
            )),
        };
        let goes_on = chunk.is_ok().then_some(rest);
        Some((chunk, goes_on))
    });
    // Compression asks again after the end, where `unfold` panics.
    Body::from_stream(parts.fuse())
}

fn lock(rest: &Mutex<Rest>) -> MutexGuard<'_, Rest> {
    rest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job that was imported.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ImportedJob {
    #[serde(flatten)]
    pub job: JobBody,
    /// With status 202: why it is held in memory, not stored
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Imports the file of a job of another host. Importing the same file again changes nothing.
#[utoipa::path(post, path = "/api/v1/jobs/import", tag = "jobs", request_body(content = Object, content_type = "application/json", description = "As `export` returns it, at most 16 MiB"),
    responses((status = 200, description = "The job exists already", body = ImportedJob), (status = 201, description = "Stored", body = ImportedJob), (status = 202, description = "Held in memory, not stored", body = ImportedJob), (status = 409, description = "cowbell plays a recording", body = ProblemBody), (status = 507, description = "Not stored: there is no room for more jobs and imported files", body = ProblemBody)))]
pub async fn import_job(
    State(site): State<SharedSite>,
    body: Body,
) -> Result<(StatusCode, Json<ImportedJob>), Problem> {
    let permit = site.costs.import()?;
    let refused = || {
        let (most, seconds) = (file::LONGEST / 1024 / 1024, BODY_TIMEOUT.as_secs());
        Problem::Bad(format!(
            "cannot import the file: expected at most {most} MiB, and all of it within {seconds} s"
        ))
    };
    let body = to_bytes(body, file::LONGEST).await.map_err(|_| refused())?;
    // The thread holds the permit, since it continues if the client disconnects.
    let checking = on_a_thread(move || {
        let checked = checked(body);
        drop(permit);
        checked
    });
    let (job, file) = checking.await??;
    let stored = forgotten_or_room(&site, &job.key, file.len()).await?;
    let CommandOutcome {
        status,
        job,
        message,
    } = send(&site, Command::Import(Box::new(job), file), stored).await?;
    Ok((
        status,
        Json(ImportedJob {
            job: JobBody::new(&job, &*site.present()?),
            message,
        }),
    ))
}

/// The job of a file, and the file to store: written anew, so that it contains nothing else.
fn checked(body: Bytes) -> Result<(Job, Arc<[u8]>), Problem> {
    let read = file::read(&body, crate::source::clock::now());
    // Frees memory before the file is written anew.
    drop(body);
    let (job, time_series) = read.map_err(|error| Problem::Bad(error.to_string()))?;
    let text = file::write(&job, &time_series)
        .map_err(|error| Problem::Inside(anyhow::Error::new(error)))?;
    let file = packed(&text).map_err(|error| Problem::Inside(anyhow::Error::new(error)))?;
    let key = format!("{IMPORTED}{:x}", Sha256::digest(&text));
    Ok((Job { key, ..job }, file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::costs::Costs;

    /// Of more than one chunk.
    fn file() -> Vec<u8> {
        (0..3 * CHUNK + 7).map(|place| place as u8).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_download_is_cut_and_frees_its_permit() {
        let costs = Costs::default();
        let mut parts = sent(file(), costs.export().unwrap()).into_data_stream();
        assert_eq!(parts.next().await.unwrap().unwrap().len(), CHUNK);
        assert!(costs.export().is_err(), "he has the place");
        tokio::time::sleep(SEND_TIMEOUT + Duration::from_secs(1)).await;
        assert!(costs.export().is_ok(), "another has it");
        assert!(parts.next().await.unwrap().is_err() && parts.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_download_is_complete_and_a_cancelled_one_frees_its_permit() {
        let costs = Costs::default();
        let whole = to_bytes(sent(file(), costs.export().unwrap()), usize::MAX)
            .await
            .unwrap();
        assert_eq!(whole, file());
        drop(sent(file(), costs.export().unwrap()));
        assert!(costs.export().is_ok());
    }

    #[tokio::test]
    async fn a_download_that_ended_stays_at_its_end() {
        let mut parts = sent(file(), Costs::default().export().unwrap()).into_data_stream();
        while parts.next().await.is_some() {}
        assert!(parts.next().await.is_none());
    }
}
