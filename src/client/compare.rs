//! `cowbell job compare`: jobs compared, as text, Markdown, CSV or JSON.

use anyhow::Context;
use clap::Args;

use super::job::Form;
use super::terminal::wrapped;
use super::{Daemon, LONGEST_LIMIT, parsed};
use crate::report::compare::ComparedRow;
use crate::report::text::{csv, text};
use crate::table::Style;
use crate::web::CompareBody;

// The selected jobs.
#[derive(Args)]
pub struct JobSelection {
    /// IDs in the list; the others are compared with the first
    #[arg(value_name = "ID", required_unless_present_any = ["set", "groups"])]
    ids: Vec<i64>,
    /// A named group of repeats such as `before:3,4`; can be repeated
    #[arg(long = "group", value_name = "NAME:ID,ID")]
    groups: Vec<String>,
    /// All jobs of this set, by variant
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
}

/// The text to print.
pub async fn compare(
    daemon: &Daemon,
    chosen: &JobSelection,
    figures: &[String],
    form: Form,
) -> anyhow::Result<String> {
    let answer = daemon
        .ask("/api/v1/jobs/compare", &chosen.query(), LONGEST_LIMIT)
        .await?;
    if form == Form::Json {
        return Ok(answer + "\n");
    }
    let mut body: CompareBody = parsed(&answer)?;
    only(&mut body.comparison.rows, figures)?;
    if figures.is_empty() && form != Form::Csv {
        body.comparison.drop_zeros();
    }
    // Sentences on the whole comparison precede the remarks.
    let of_all = body
        .sentences
        .len()
        .saturating_sub(body.comparison.remarks.len());
    let of_all: String = body.sentences[..of_all]
        .iter()
        .map(|sentence| format!("{sentence}\n\n"))
        .collect();
    Ok(match form {
        Form::Markdown => of_all + &text(&body.comparison, Style::Markdown),
        Form::Csv => String::from_utf8(csv(&body.comparison).csv()?)?,
        Form::Text | Form::Json => wrapped(&(of_all + &text(&body.comparison, Style::Plain))),
    })
}

/// Keeps these rows in this order, or all rows if `figures` is empty.
fn only(rows: &mut Vec<ComparedRow>, figures: &[String]) -> anyhow::Result<()> {
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
        groups
            .chain(ids)
            .chain(self.set.clone().map(|set| ("set", set)))
            .collect()
    }
}
