//! The routes of the API, and the OpenAPI document that follows from them.

use axum::Json;
use axum::middleware::from_fn;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::ProblemBody;
use super::guard::Right;
use super::{SharedSite, api, drawing, live, pages};

/// The routes of the API by the right that they need. Router, access and the OpenAPI document all follow from this list.
pub fn routes() -> [(Right, OpenApiRouter<SharedSite>); 3] {
    // These take a while with a thousand volumes, or draw.
    let long = OpenApiRouter::new()
        .routes(routes!(api::volumes::devices))
        .routes(routes!(api::volumes::volumes))
        .routes(routes!(api::jobs::compare))
        .routes(routes!(pages::report::report))
        .routes(routes!(api::now::metrics))
        .layer(from_fn(drawing::on_its_own_thread));
    let usual = OpenApiRouter::new()
        .routes(routes!(api::now::status))
        .routes(routes!(api::now::vm))
        .routes(routes!(api::volumes::size))
        .routes(routes!(api::jobs::jobs))
        .routes(routes!(api::jobs::job, api::job_commands::delete_job))
        .routes(routes!(api::jobs::figures))
        .routes(routes!(api::jobs::outlook))
        .routes(routes!(api::file::export_job))
        .routes(routes!(api::file::import_job))
        .routes(routes!(api::job_commands::accept_job))
        .routes(routes!(api::job_commands::note_job))
        .routes(routes!(api::job_commands::phase_job))
        .routes(routes!(api::job_commands::certify_job))
        .routes(routes!(api::alerts::alerts))
        .routes(routes!(api::alerts::test_receivers))
        .routes(routes!(
            api::alerts::acknowledge_alert,
            api::alerts::withdraw_acknowledgement
        ))
        .routes(routes!(
            api::alerts::silences,
            api::alerts::put_silence,
            api::alerts::end_silence
        ))
        .routes(routes!(api::series))
        .routes(routes!(live::stream));
    let own_jobs = OpenApiRouter::new().routes(routes!(api::job_commands::put_job));
    let public = OpenApiRouter::new().routes(routes!(api::now::healthz));
    [
        (Right::Usual, long.merge(usual)),
        (Right::OwnJobs, own_jobs),
        (Right::Public, public),
    ]
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "cowbell",
        description = "Snapshots, thin pools and the disks below them. Unknown values are `null`, never 0; times are RFC 3339 in UTC."
    ),
    components(schemas(ProblemBody))
)]
struct Description;

const TOKEN: &str = "token";

/// The OpenAPI document.
pub async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    let mut document = Description::openapi();
    for (right, routes) in routes() {
        let mut described = routes.into_openapi();
        if right != Right::Public {
            describe_refusals(&mut described);
        }
        document.merge(described);
    }
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "The content of the daemon's `token_file`. On this host, reading needs none.",
        ))
        .build();
    if let Some(components) = &mut document.components {
        components.add_security_scheme(TOKEN, SecurityScheme::Http(token));
    }
    Json(document)
}

/// What every operation may answer that not everybody may use.
const REFUSALS: [(&str, &str); 4] = [
    ("401", "The token is missing or wrong"),
    ("403", "Not permitted"),
    ("429", "Too many wrong tokens, or too many requests at once"),
    (
        "503",
        "No tick has been taken yet, or the database or the loop does not answer",
    ),
];

fn describe_refusals(document: &mut utoipa::openapi::OpenApi) {
    for item in document.paths.paths.values_mut() {
        for (operation, is_read) in [
            (&mut item.get, true),
            (&mut item.put, false),
            (&mut item.post, false),
            (&mut item.delete, false),
        ] {
            let Some(operation) = operation else { continue };
            let mut refusals = Vec::from(REFUSALS);
            if operation.parameters.is_some() || operation.request_body.is_some() {
                refusals.push(("400", "The request is not as described"));
            }
            for (status, description) in refusals {
                let answer = operation.responses.responses.entry(status.into());
                answer.or_insert_with(|| refusal(description).into());
            }
            let mut ways = vec![SecurityRequirement::new::<_, _, String>(TOKEN, [])];
            if is_read {
                // Without the token, on this host.
                ways.insert(0, SecurityRequirement::default());
            }
            operation.security = Some(ways);
        }
    }
}

fn refusal(description: &str) -> utoipa::openapi::Response {
    let schema = Ref::from_schema_name("ProblemBody");
    let body = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(description)
        .content("application/json", body)
        .build()
}
