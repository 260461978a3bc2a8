//! `cowbell job compare`: jobs side by side, as columns, Markdown, CSV or JSON.

use std::time::Duration;

use super::Daemon;
use super::job::{Form, ask_for, understood};
use crate::report::plain::plain;
use crate::report::text::{csv, markdown};
use crate::units::Prefix;
use crate::web::CompareBody;

/// Sixty jobs are summed up one after another, from a disk that may be busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Which jobs: by their numbers, or all of a set.
pub struct Chosen {
    pub ids: Vec<i64>,
    pub set: Option<String>,
}

/// The text to print.
pub async fn compare(daemon: &Daemon, chosen: &Chosen, form: Form) -> anyhow::Result<String> {
    let query = chosen.query();
    let query: Vec<(&str, &str)> = query.iter().map(|(key, value)| (*key, &**value)).collect();
    let answer = ask_for(daemon, "/api/v1/jobs/compare", &query, TIME_LIMIT).await?;
    if form == Form::Json {
        return Ok(answer + "\n");
    }
    let body: CompareBody = understood(&answer)?;
    Ok(match form {
        Form::Markdown => markdown(&body.comparison, Prefix::default()),
        Form::Csv => csv(&body.comparison),
        Form::Text | Form::Json => plain(&body.comparison, Prefix::default()),
    })
}

impl Chosen {
    pub fn query(&self) -> Vec<(&'static str, String)> {
        let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
        let ids = (!ids.is_empty()).then(|| ("ids", ids.join(",")));
        ids.into_iter().chain(self.set.clone().map(|set| ("set", set))).collect()
    }
}
