//! What a job ran on, fact by fact: the end of its page. Nothing is there of what is not known.

use super::shown;
use crate::job::Job;
use crate::report::facts::facts;
use crate::table::{Column, Table};
use crate::web::Site;
use crate::web::answer::Problem;

/// The section, as HTML; nothing where nothing is known.
pub async fn section(site: &Site, job: &Job) -> Result<String, Problem> {
    let setup = match site.cost(job).await {
        // The charts say why.
        Err(Problem::Unavailable(_)) => job.setup.clone(),
        cost => cost?.setup.clone(),
    };
    let known = facts(job, &setup).into_iter().filter(|fact| fact.name != "how it ended");
    let rows = known.filter_map(|fact| Some(vec![fact.name.into(), fact.value?.into()]));
    let table =
        Table::new("What it ran on", [Column::name(""), Column::text("").class("says")], rows).class("ran");
    if table.is_empty() { Ok(String::new()) } else { shown(&table) }
}
