//! The OpenAPI document, generated from the handlers.

use axum::Json;
use utoipa::OpenApi;

use super::{api, live, metrics, pages};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "cowbell",
        description = "Snapshots, thin pools and the disks below them. Unknown values are `null`, never 0; times are RFC 3339 in UTC."
    ),
    paths(
        api::status,
        api::devices,
        api::volumes,
        api::size,
        api::vm,
        api::jobs,
        api::job,
        api::commands::mark::put_job,
        api::commands::edit::note_job,
        api::commands::edit::certify_job,
        api::commands::edit::phase_job,
        api::commands::edit::accept_job,
        api::commands::edit::delete_job,
        api::figures,
        api::compare,
        api::file::export_job,
        api::file::import_job,
        pages::report::report,
        api::outlook,
        api::alerts,
        api::commands::alert::acknowledge_alert,
        api::commands::alert::withdraw_acknowledgement,
        api::commands::alert::silences,
        api::commands::alert::put_silence,
        api::commands::alert::end_silence,
        api::commands::alert::test_receivers,
        api::series,
        api::healthz,
        live::stream,
        metrics::metrics,
    )
)]
struct Description;

/// The OpenAPI document.
pub async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}
