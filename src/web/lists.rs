//! Jobs and alerts for pages and API: those in memory in their current state, the others as stored.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Site;
use super::answer::{Partial, Problem};
use crate::alert::Alert;
use crate::job::Job;
use crate::notify::Delivery;
use crate::series::Range;
use crate::store::{JobPage, JobPlace, JobQuery};

impl Site {
    pub async fn job(&self, id: i64) -> Result<Job, Problem> {
        let present = self.present()?;
        let found = match present.jobs.iter().find(|job| job.id == id) {
            Some(job) => Some(Job::clone(job)),
            None => self.store.job(id).await?,
        };
        found.ok_or_else(|| {
            Problem::NotFound(format!(
                "there is no job {id}; `cowbell job list` lists all jobs"
            ))
        })
    }

    /// A page of jobs, the latest first.
    pub async fn job_page(
        &self,
        query: &JobQuery,
        most: usize,
    ) -> Result<Partial<JobPage>, Problem> {
        let stored = self.store.jobs(query, most).await;
        let present = self.present()?;
        let what = "only running and recently ended jobs are listed";
        let mut listed = Partial::or_from_memory(stored, JobPage::default, what)?;
        let JobPage { jobs, next } = &mut listed.found;
        jobs.retain(|stored| present.jobs.iter().all(|job| job.id != stored.id));
        let in_memory = present.jobs.iter().filter(|job| query.matches(job));
        jobs.extend(in_memory.map(|job| Job::clone(job)));
        jobs.sort_by_key(|job| Reverse(JobPlace::of(job)));
        if jobs.len() > most {
            jobs.truncate(most);
            *next = jobs.last().map(JobPlace::of);
        }
        Ok(listed)
    }

    /// The same without a next page.
    pub async fn job_list(
        &self,
        query: &JobQuery,
        most: usize,
    ) -> Result<Partial<Vec<Job>>, Problem> {
        Ok(self.job_page(query, most).await?.map(|page| page.jobs))
    }

    /// The jobs of the range without imported ones, for charts of this host.
    pub async fn own_job_list(
        &self,
        range: Range,
        most: usize,
    ) -> Result<Partial<Vec<Job>>, Problem> {
        let mut listed = self.job_page(&JobQuery::of(range), most).await?;
        listed.found.jobs.retain(|job| !job.is_imported());
        Ok(listed.map(|page| page.jobs))
    }

    /// Alerts with IDs below `before`, the latest first, and the `before` of the next page.
    pub async fn alert_page(
        &self,
        before: Option<i64>,
        most: usize,
    ) -> Result<(Partial<Vec<Alert>>, Option<i64>), Problem> {
        let present = self.present()?;
        // One more shows whether there is a next page.
        let stored = self.store.alerts(before, most + 1).await;
        let what = "only open alerts are listed";
        let mut listed = Partial::or_from_memory(stored, Vec::new, what)?;
        let alerts = &mut listed.found;
        alerts.retain(|stored| present.alerts.iter().all(|alert| alert.id != stored.id));
        let is_wanted = |alert: &&Alert| before.is_none_or(|before| alert.id < before);
        alerts.extend(present.alerts.iter().filter(is_wanted).cloned());
        alerts.sort_by_key(|alert| Reverse(alert.id));
        let next = (alerts.len() > most).then(|| alerts[most - 1].id);
        alerts.truncate(most);
        Ok((listed, next))
    }

    /// The last delivery of each of these alerts to each receiver. Without the database, only recent ones.
    pub async fn deliveries(
        &self,
        alerts: &[Alert],
    ) -> Result<BTreeMap<i64, Vec<Delivery>>, Problem> {
        let present = self.present()?;
        let ids: Vec<i64> = alerts.iter().map(|alert| alert.id).collect();
        let stored = self.store.deliveries(&ids).await;
        let stored = Partial::or_from_memory(stored, Vec::new, "only recent ones are listed")?;
        let recent = present.deliveries.values();
        let recent = recent.filter(|delivery| ids.contains(&delivery.alert));
        let mut last = BTreeMap::new();
        for delivery in stored.found.into_iter().chain(recent.cloned()) {
            last.insert((delivery.alert, delivery.receiver.clone()), delivery);
        }
        let mut by_alert = BTreeMap::<i64, Vec<Delivery>>::new();
        for ((alert, _), delivery) in last {
            by_alert.entry(alert).or_default().push(delivery);
        }
        Ok(by_alert)
    }
}
