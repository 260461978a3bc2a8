//! The OpenAPI document, generated from the handlers.

use axum::Json;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "cowbell",
        description = "Snapshots, thin pools and the disks below them. Unknown values are `null`, never 0; times are RFC 3339 in UTC."
    ),
    paths(
        super::status,
        super::devices,
        super::volumes,
        super::vm,
        super::jobs,
        super::job,
        super::commands::mark::put_job,
        super::commands::edit::note_job,
        super::commands::edit::phase_job,
        super::commands::edit::delete_job,
        super::figures,
        super::compare,
        super::file::export_job,
        super::file::import_job,
        crate::web::pages::report::report,
        super::outlook,
        super::alerts,
        super::series,
        super::healthz,
        crate::web::live::stream,
    )
)]
struct Description;

/// The OpenAPI document.
pub async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}
