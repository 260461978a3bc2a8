//! The jobs of a comparison: their selection, and their costs.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Site;
use super::answer::Problem;
use super::costs::Cost;
use crate::commands::JobLabel;
use crate::job::Job;
use crate::report::compare::{ComparedRun, ComparedSet, Comparison, compare};
use crate::report::figure::shared_phases;
use crate::report::sets::facts;
use crate::report::sets::{JobGroup, grouped, run_name};
use crate::series::Range;
use crate::store::{JobPlace, JobQuery, on_a_thread};

/// Maximum jobs in a comparison. An experiment has up to sixty runs, and each needs all its ticks.
pub const MOST_COMPARED: usize = 64;
/// Maximum runs of a set, and maximum jobs that are searched for sets to offer.
const MOST_JOBS: usize = 1_000;
/// Maximum earlier runs that are searched for the previous one: some failed, or ran on other hosts.
const MOST_BEFORE: usize = 50;
pub const EVER: Range = Range {
    from: Timestamp::UNIX_EPOCH,
    to: Timestamp::MAX,
};

const DURATIONS_ALONE: &str = "These jobs have no figure in common except their duration.";

/// The selected jobs, in the requested order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    ids: Vec<i64>,
    set: Option<String>,
    /// Named groups of jobs, which count as repeats whatever their sets are.
    groups: Vec<(String, Vec<i64>)>,
}

/// The jobs by columns, with their comparison.
pub struct ComparisonData {
    pub columns: Vec<ComparedColumn>,
    pub comparison: Comparison,
    /// Sentences on the whole comparison.
    pub of_all: Vec<String>,
}

pub struct ComparedColumn {
    pub name: String,
    pub runs: Vec<(Job, Arc<Cost>)>,
}

impl Choice {
    /// Parses `ids=3,4`, `group=NAME:3,4`, `set=NAME`, and `id=3` of checkboxes. The first two can be repeated.
    pub fn of(query: &[(String, String)]) -> Result<Self, Problem> {
        let choice = Self::or_nothing(query)?;
        if choice.is_empty() {
            return Err(Problem::Bad(
                "expected IDs of jobs such as `ids=3,4`, or a set such as `set=chunks`".into(),
            ));
        }
        Ok(choice)
    }

    /// The same; the query may select nothing.
    pub fn or_nothing(query: &[(String, String)]) -> Result<Self, Problem> {
        let mut choice = Self::default();
        let mut checked = Vec::new();
        for (key, value) in query {
            match &**key {
                // The page lists the latest first; jobs are compared in the order in which they ran.
                "id" => checked.insert(0, number(value)?),
                "ids" => choice.ids.extend(numbers(value)?),
                "group" => choice.groups.push(group(value)?),
                "set" if !value.is_empty() => choice.set = Some(value.clone()),
                _ => {}
            }
        }
        choice.ids.splice(..0, checked);
        let mut seen = HashSet::new();
        for (name, ids) in &mut choice.groups {
            ids.retain(|id| seen.insert(*id));
            if ids.is_empty() {
                return Err(Problem::Bad(format!(
                    "all jobs of the group `{name}` are in earlier groups"
                )));
            }
        }
        seen.clear();
        choice.ids.retain(|id| seen.insert(*id));
        Ok(choice)
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }

    /// As keys and values of a query.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let listed = |ids: &[i64]| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let mut pairs = Vec::new();
        for (name, ids) in &self.groups {
            pairs.push(("group", format!("{name}:{}", listed(ids))));
        }
        if !self.ids.is_empty() {
            pairs.push(("ids", listed(&self.ids)));
        }
        pairs.extend(self.set.clone().map(|set| ("set", set)));
        pairs
    }

    /// The arguments of `cowbell job compare` for this choice, quoted for a shell.
    pub fn arguments(&self) -> String {
        let argument = |(key, value): (&str, String)| match key {
            "ids" => value.replace(',', " "),
            _ => format!("--{key} '{}'", value.replace('\'', "'\\''")),
        };
        let arguments: Vec<String> = self.pairs().into_iter().map(argument).collect();
        arguments.join(" ")
    }

    /// The jobs: groups first, then single ones, then the set. Of a set that is too large, the latest, with a sentence.
    pub async fn jobs(&self, site: &Site) -> Result<(Vec<Job>, Option<String>), Problem> {
        let grouped = self.groups.iter().flat_map(|(_, ids)| ids);
        let grouped: HashSet<i64> = grouped.copied().collect();
        check_number(self.ids.len() + grouped.len())?;
        let (mut jobs, mut left_out) = (Vec::new(), None);
        for (name, ids) in &self.groups {
            for id in ids {
                let mut job = site.job(*id).await?;
                job.label = Some(JobLabel {
                    set: name.clone(),
                    variant: None,
                    repeat: None,
                });
                jobs.push(job);
            }
        }
        for id in self.ids.iter().filter(|id| !grouped.contains(id)) {
            jobs.push(site.job(*id).await?);
        }
        if let Some(set) = &self.set {
            let mut of_set = site.jobs_of_set(set).await?;
            of_set.retain(|job| !self.ids.contains(&job.id) && !grouped.contains(&job.id));
            let (found, room) = (of_set.len(), MOST_COMPARED.saturating_sub(jobs.len()));
            jobs.extend(of_set.into_iter().skip(found.saturating_sub(room)));
            left_out = (found > room).then(|| {
                format!("The set {set} has {found} runs. Only the latest {room} are compared.")
            });
        }
        check_number(jobs.len())?;
        Ok((jobs, left_out))
    }
}

impl Site {
    /// Computes the comparison.
    pub async fn compared(&self, choice: &Choice) -> Result<ComparisonData, Problem> {
        let (jobs, left_out) = choice.jobs(self).await?;
        if jobs.len() < 2 {
            return Err(Problem::Bad(
                "expected two jobs or more to compare, but found one".into(),
            ));
        }
        let mut columns = Vec::new();
        for JobGroup { name, jobs } in grouped(jobs) {
            let mut runs = Vec::new();
            for job in jobs {
                let cost = self.cost(&job).await?;
                runs.push((job, cost));
            }
            columns.push(ComparedColumn { name, runs });
        }
        let comparing = on_a_thread(move || {
            let runs = columns.iter().flat_map(|column| &column.runs);
            let phases = shared_phases(runs.map(|(_, cost)| &cost.figures.phases[..]));
            let sets: Vec<ComparedSet> = columns.iter().map(|column| column.set(&phases)).collect();
            let comparison = compare(&sets);
            let mut of_all = Vec::from_iter(left_out);
            if comparison.has_durations_alone() {
                of_all.push(DURATIONS_ALONE.into());
            }
            ComparisonData {
                columns,
                comparison,
                of_all,
            }
        });
        let compared = comparing.await?;
        if !compared.comparison.has_common_figures() {
            return Err(Problem::Conflict(
                "these jobs have no figure in common: the data of some was deleted; compare others"
                    .into(),
            ));
        }
        Ok(compared)
    }

    /// The sets of the latest jobs, each with its number of runs.
    pub async fn sets(&self) -> Result<Vec<(String, usize)>, Problem> {
        let jobs = self.job_list(&JobQuery::of(EVER), MOST_JOBS).await?.found;
        let mut sets: Vec<(String, usize)> = Vec::new();
        for set in jobs.into_iter().filter_map(|job| Some(job.label?.set)) {
            match sets.iter_mut().find(|(name, _)| *name == set) {
                Some((_, runs)) => *runs += 1,
                None => sets.push((set, 1)),
            }
        }
        Ok(sets)
    }

    /// The earliest first.
    async fn jobs_of_set(&self, set: &str) -> Result<Vec<Job>, Problem> {
        let query = JobQuery {
            set: Some(set.into()),
            ..JobQuery::of(EVER)
        };
        let mut jobs = self.job_list(&query, MOST_JOBS).await?.found;
        jobs.reverse();
        if jobs.is_empty() {
            return Err(Problem::NotFound(format!(
                "no job belongs to a set `{set}`; /api/v1/jobs lists jobs with their `label`"
            )));
        }
        Ok(jobs)
    }

    /// The previous job of the same origin, or without origin, of the same name.
    pub async fn previous_run(&self, job: &Job) -> Result<Option<Job>, Problem> {
        let origin = job.vg.clone().zip(job.origin.clone());
        let query = JobQuery {
            before: Some(JobPlace::of(job)),
            kind: Some(job.kind),
            name: origin.is_none().then(|| job.name.clone()),
            origin,
            ..JobQuery::of(EVER)
        };
        let earlier = self.job_list(&query, MOST_BEFORE).await?.found;
        let host = |job: &Job| (job.is_imported(), job.imported_from().map(String::from));
        let is_alike = |other: &Job| host(other) == host(job) && !other.made_no_snapshot();
        Ok(earlier.into_iter().find(is_alike))
    }
}

impl ComparedColumn {
    /// The runs with their figures in these phases.
    fn set(&self, phases: &[String]) -> ComparedSet {
        let mut runs = Vec::new();
        for (place, (job, cost)) in self.runs.iter().enumerate() {
            let (name, figures) = (run_name(place, job), &cost.figures);
            let run = ComparedRun::new(&name, figures, facts(job, &cost.setup));
            runs.push(run.with_phases(figures, phases));
        }
        let name = self.name.clone();
        ComparedSet { name, runs }
    }
}

fn group(value: &str) -> Result<(String, Vec<i64>), Problem> {
    let (name, ids) = value.split_once(':').unwrap_or_default();
    let (name, ids) = (name.trim(), numbers(ids)?);
    if name.is_empty() {
        return Err(Problem::Bad(format!(
            "expected a name and IDs such as `group=before:3,4`, but found `{value}`"
        )));
    }
    if ids.is_empty() {
        return Err(Problem::Bad(format!(
            "expected IDs of jobs for `{name}`, such as `group={name}:3,4`"
        )));
    }
    Ok((name.into(), ids))
}

fn numbers(list: &str) -> Result<Vec<i64>, Problem> {
    list.split(',')
        .filter(|id| !id.trim().is_empty())
        .map(number)
        .collect()
}

fn number(id: &str) -> Result<i64, Problem> {
    id.trim().parse().map_err(|_| {
        Problem::Bad(format!(
            "expected IDs of jobs, separated by commas, such as `ids=3,4`, but found `{id}`"
        ))
    })
}

fn check_number(found: usize) -> Result<(), Problem> {
    if found > MOST_COMPARED {
        return Err(Problem::Bad(format!(
            "expected at most {MOST_COMPARED} jobs to compare, but found {found}; leave some out"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(query: &[(&str, &str)]) -> Result<Choice, Problem> {
        let owned = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        Choice::of(&query.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn ids_are_single_or_separated_by_commas() {
        let found = choice(&[
            ("id", "3"),
            ("id", "5"),
            ("ids", "4,3"),
            ("set", "a b"),
            ("width", "9"),
        ])
        .unwrap();
        assert_eq!(
            found,
            Choice {
                ids: vec![5, 3, 4],
                set: Some("a b".into()),
                groups: Vec::new()
            }
        );
        assert_eq!(found.arguments(), "5 3 4 --set 'a b'");
    }

    #[test]
    fn groups_have_names() {
        let found = choice(&[("group", "before:3,4"), ("group", "after, at night:5")]).unwrap();
        assert_eq!(
            found.arguments(),
            "--group 'before:3,4' --group 'after, at night:5'"
        );
    }

    #[test]
    fn a_job_counts_in_its_first_group_only() {
        let found = choice(&[("group", "a:33,33,33"), ("group", "b:33,4")]).unwrap();
        assert_eq!(found.arguments(), "--group 'a:33' --group 'b:4'");
    }

    #[test]
    fn queries_without_jobs_are_refused() {
        for (query, part) in [
            (vec![], "expected IDs of jobs"),
            (vec![("ids", ""), ("set", "")], "expected IDs of jobs"),
            (vec![("ids", "1,x")], "but found `x`"),
            (vec![("group", "3,4")], "expected a name"),
            (
                vec![("group", "a:3"), ("group", "b:3,3")],
                "of the group `b` are in earlier groups",
            ),
            (
                vec![("group", "before:")],
                "expected IDs of jobs for `before`",
            ),
        ] {
            let Err(Problem::Bad(sentence)) = choice(&query) else {
                panic!("{query:?}")
            };
            assert!(sentence.contains(part), "{sentence}");
        }
    }
}
