//! What a job ran on, fact by fact: the end of its page. Nothing is there of what is not known.

use askama::Template;

use super::shown;
use crate::job::Job;
use crate::report::facts::facts;
use crate::web::Site;
use crate::web::answer::Problem;

#[derive(Template)]
#[template(path = "job_ran.html")]
struct JobRan {
    facts: Vec<(&'static str, String)>,
}

/// The section, as HTML; nothing where nothing is known.
pub async fn section(site: &Site, job: &Job) -> Result<String, Problem> {
    let setup = match site.cost(job).await {
        // The charts say why.
        Err(Problem::Unavailable(_)) => job.setup.clone(),
        cost => cost?.setup.clone(),
    };
    let known = facts(job, &setup).into_iter().filter(|fact| fact.name != "how it ended");
    shown(&JobRan { facts: known.filter_map(|fact| Some((fact.name, fact.value?))).collect() })
}
