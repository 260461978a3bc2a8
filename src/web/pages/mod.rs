//! Pages.
use super::Site;
use super::answer::Problem;
use crate::alert::Alert;
use crate::job::Job;
use crate::present::Present;
use crate::series::Range;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;

/// Jobs of a range: those in memory as they are now, the others as they were kept.
pub async fn job_list(
    site: &Site,
    present: &Arc<Present>,
    range: Range,
    most: usize,
) -> Result<Vec<Job>, Problem> {
    let mut jobs = site.archive.jobs(range, most).await?;
    for job in &present.jobs {
        jobs.retain(|kept| kept.id != job.id);
        if job.started_at <= range.to && job.ended_at.is_none_or(|ended_at| ended_at >= range.from) {
            jobs.push(job.clone());
        }
    }
    jobs.sort_by_key(|job| std::cmp::Reverse((job.started_at, job.id)));
    jobs.truncate(most);
    Ok(jobs)
}

/// Alerts that are raised now, and the kept ones.
pub async fn alert_list(site: &Site, most: usize) -> Result<Vec<Alert>, Problem> {
    let present = site.present()?;
    let mut alerts = site.archive.alerts(most).await?;
    for alert in &present.alerts {
        alerts.retain(|kept| kept.id != alert.id);
        alerts.push(alert.clone());
    }
    alerts.sort_by_key(|alert| std::cmp::Reverse((alert.raised_at, alert.id)));
    alerts.truncate(most);
    Ok(alerts)
}

pub async fn not_found() -> Problem {
    Problem::NotFound("there is no page at this address".into())
}

pub async fn dress_problem(State(_site): State<Site>, response: Response) -> Response {
    response
}
