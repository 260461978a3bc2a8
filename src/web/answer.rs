//! Errors of HTTP requests. Clients get a sentence; details of internal errors go to the log only.

use axum::Json;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::job::CommandError;
use crate::series::when::InvalidTime;
use crate::store::{JobPlace, ReadError, in_words};

/// The header of an incomplete list: what is missing, and why.
const MISSING: HeaderName = HeaderName::from_static("cowbell-missing");

/// Why a request failed.
#[derive(Debug)]
pub enum Problem {
    Bad(String),
    Unauthorized(String),
    TooMany(String),
    Forbidden(String),
    NotFound(String),
    Conflict(String),
    /// The store has no room, or refuses.
    NotStored(String),
    Unavailable(String),
    /// Logged once and hidden from the client.
    Inside(anyhow::Error),
}

/// A problem as JSON.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProblemBody {
    /// The problem and its remedy.
    pub error: String,
}

/// The body is JSON; [`super::pages::dress_problem`] turns it into a page.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, error) = match self {
            Self::Bad(sentence) => (StatusCode::BAD_REQUEST, sentence),
            Self::Unauthorized(sentence) => (StatusCode::UNAUTHORIZED, sentence),
            Self::TooMany(sentence) => (StatusCode::TOO_MANY_REQUESTS, sentence),
            Self::Forbidden(sentence) => (StatusCode::FORBIDDEN, sentence),
            Self::NotFound(sentence) => (StatusCode::NOT_FOUND, sentence),
            Self::Conflict(sentence) => (StatusCode::CONFLICT, sentence),
            Self::NotStored(sentence) => (StatusCode::INSUFFICIENT_STORAGE, sentence),
            Self::Unavailable(sentence) => (StatusCode::SERVICE_UNAVAILABLE, sentence),
            Self::Inside(error) => {
                tracing::error!("a request failed: {}", in_words(&error));
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal error; see the daemon's log".into(),
                )
            }
        };
        let body = ProblemBody { error };
        let mut response = (status, Json(body.clone())).into_response();
        response.extensions_mut().insert(body);
        response
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<ReadError>() {
            Ok(unanswered) => unanswered.into(),
            Err(error) => Self::Inside(error),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(unanswered: ReadError) -> Self {
        let what_to_do = match unanswered {
            ReadError::NoThread => ": try again",
            _ => "; try again later, or request the last 20 minutes, which are in memory",
        };
        Self::Unavailable(format!("{unanswered}{what_to_do}"))
    }
}

/// The text of a header; empty without one, or if it is not text.
pub fn header_text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Names and values of all cookies.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let texts = headers.get_all(header::COOKIE).iter();
    let texts = texts.filter_map(|cookies| cookies.to_str().ok());
    let pairs = texts.flat_map(|cookies| cookies.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

/// An answer, with a sentence if it is incomplete.
pub struct Partial<T> {
    pub found: T,
    pub missing: Option<String>,
}

impl<T> Partial<T> {
    /// The stored data, or if the database does not answer, the data in memory; `what` describes that.
    pub fn or_from_memory(
        stored: anyhow::Result<T>,
        in_memory: impl FnOnce() -> T,
        what: &str,
    ) -> Result<Self, Problem> {
        let (found, missing) = match stored {
            Ok(found) => (found, None),
            Err(error) => {
                let unanswered = error.downcast::<ReadError>().map_err(Problem::Inside)?;
                (in_memory(), Some(format!("{unanswered}: {what}.")))
            }
        };
        Ok(Self { found, missing })
    }

    pub fn map<U>(self, what: impl FnOnce(T) -> U) -> Partial<U> {
        Partial {
            found: what(self.found),
            missing: self.missing,
        }
    }
}

/// The sentence becomes a header, since lists are bare arrays.
impl<T: Serialize> IntoResponse for Partial<Json<T>> {
    fn into_response(self) -> Response {
        let mut response = self.found.into_response();
        if let Some(Ok(missing)) = self.missing.map(HeaderValue::try_from) {
            response.headers_mut().insert(MISSING, missing);
        }
        response
    }
}

impl From<CommandError> for Problem {
    fn from(refused: CommandError) -> Self {
        let sentence = refused.to_string();
        match refused {
            CommandError::NameIsNumber(_) => Self::Bad(sentence),
            CommandError::Deleted => Self::NotFound(sentence),
            _ => Self::Conflict(sentence),
        }
    }
}

impl From<InvalidTime> for Problem {
    fn from(error: InvalidTime) -> Self {
        Self::Bad(error.to_string())
    }
}

/// The query of a request; if it is invalid, the answer is a 400 with a sentence.
pub struct ParsedQuery<Q>(pub Q);

impl<Q: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ParsedQuery<Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                let why = rejection.body_text();
                Err(Problem::Bad(format!("invalid query: {why}")))
            }
        }
    }
}

/// A query with repeated keys.
pub type QueryPairs = Vec<(String, String)>;

/// The place after which a page of a list starts, from the link to it.
pub fn parsed_place(before: Option<&str>) -> Result<Option<JobPlace>, Problem> {
    before.map(str::parse).transpose().map_err(Problem::Bad)
}
