//! `cowbell job compare`: jobs side by side, as columns, Markdown, CSV or JSON.

use std::time::Duration;

use anyhow::Context;

use super::Daemon;
use super::job::{Form, ask_for, understood};
use crate::report::compare::Row;
use crate::report::text::{csv, text};
use crate::table::Style;
use crate::units::Prefix;
use crate::web::CompareBody;

/// Sixty jobs are summed up one after another, from a disk that may be busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Which jobs: by their numbers, in groups, or all of a set.
pub struct JobSelection {
    pub ids: Vec<i64>,
    pub set: Option<String>,
    /// As `before:3,4`.
    pub groups: Vec<String>,
}

/// The text to print.
pub async fn compare(
    daemon: &Daemon,
    chosen: &JobSelection,
    figures: &[String],
    form: Form,
) -> anyhow::Result<String> {
    let query = chosen.query();
    let query: Vec<(&str, &str)> = query.iter().map(|(key, value)| (*key, &**value)).collect();
    let answer = ask_for(daemon, "/api/v1/jobs/compare", &query, TIME_LIMIT).await?;
    if form == Form::Json {
        return Ok(answer + "\n");
    }
    let mut body: CompareBody = understood(&answer)?;
    only(&mut body.comparison.rows, figures)?;
    // What is said of the whole stands before the remarks.
    let of_all = body.sentences.len().saturating_sub(body.comparison.remarks.len());
    let of_all: String = body.sentences[..of_all].iter().map(|sentence| format!("{sentence}\n\n")).collect();
    Ok(match form {
        Form::Markdown => of_all + &text(&body.comparison, Prefix::default(), Style::Markdown),
        Form::Csv => String::from_utf8(csv(&body.comparison).csv()?)?,
        Form::Text | Form::Json => of_all + &text(&body.comparison, Prefix::default(), Style::Plain),
    })
}

/// Leaves these rows, in this order; all where none is named.
fn only(rows: &mut Vec<Row>, figures: &[String]) -> anyhow::Result<()> {
    if figures.is_empty() {
        return Ok(());
    }
    let named = |figure: &String| {
        let found = rows.iter().find(|row| row.figure == *figure);
        found.cloned().with_context(|| {
            let known: Vec<&str> = rows.iter().map(|row| &*row.figure).collect();
            format!(
                "expected a figure of these jobs, but found \"{figure}\"; they have: {}",
                known.join(", ")
            )
        })
    };
    *rows = figures.iter().map(named).collect::<anyhow::Result<_>>()?;
    Ok(())
}

impl JobSelection {
    pub fn query(&self) -> Vec<(&'static str, String)> {
        let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
        let ids = (!ids.is_empty()).then(|| ("ids", ids.join(",")));
        let groups = self.groups.iter().map(|group| ("group", group.clone()));
        groups.chain(ids).chain(self.set.clone().map(|set| ("set", set))).collect()
    }
}
