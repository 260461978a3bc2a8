//! Jobs that somebody wants to see side by side: which they are, and what they cost, one after another.

use std::sync::Arc;

use jiff::Timestamp;

use super::Site;
use super::answer::Problem;
use super::costs::Cost;
use super::pages::{job_list, job_numbered};
use crate::job::Job;
use crate::report::compare::{Comparison, Run, Set, compare};
use crate::report::facts::facts;
use crate::report::group::{Group, grouped, run_name};
use crate::report::phases::shared;
use crate::series::Range;
use crate::source::Label;
use crate::store::{JobPlace, JobQuery, on_a_thread};

/// Jobs of one comparison at most: an experiment has up to some sixty runs, and each is summed up from all its ticks.
pub const MOST_COMPARED: usize = 64;
/// Runs of a set that are counted, and the latest jobs whose sets are offered.
const MOST_JOBS: usize = 1_000;
/// Runs of the same origin or name among which the one before is looked for: some may have failed, or be another host's.
const MOST_BEFORE: usize = 50;
const EVER: Range = Range { from: Timestamp::UNIX_EPOCH, to: Timestamp::MAX };

/// Which jobs somebody asked for, in the order in which they were named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    ids: Vec<i64>,
    set: Option<String>,
    /// Jobs that are taken as the repeats of one variant, whatever set they belong to.
    groups: Vec<(String, Vec<i64>)>,
}

/// Where nothing but that is known of two of them.
const DURATIONS_ALONE: &str = "These jobs have their duration in common, and no other figure.";

/// Jobs in columns, each with what it cost.
pub struct ComparisonData {
    pub columns: Vec<Column>,
    pub comparison: Comparison,
    /// Sentences on all of it: that a set has more runs than are compared, that there is little to compare.
    pub of_all: Vec<String>,
}

/// The jobs that a choice comes to.
pub struct Selection {
    pub jobs: Vec<Job>,
    pub left_out: Option<String>,
}

pub struct Column {
    pub name: String,
    pub runs: Vec<(Job, Arc<Cost>)>,
}

impl Choice {
    /// `ids` as often as one likes, each with numbers between commas; `group`, which has a name and a colon before them;
    /// and `set`. Each `id` comes from a page that lists the
    /// latest first: those are taken in the order in which they ran.
    pub fn of(query: &[(String, String)]) -> Result<Self, Problem> {
        let choice = Self::or_nothing(query)?;
        if choice.is_empty() {
            return Err(Problem::Bad(
                "expected jobs' numbers, such as `ids=3,4`, or the name of a set, such as `set=chunks`"
                    .into(),
            ));
        }
        Ok(choice)
    }

    /// The same, which may name none.
    pub fn or_nothing(query: &[(String, String)]) -> Result<Self, Problem> {
        let (mut ids, mut chosen, mut set) = (Vec::new(), Vec::new(), None);
        let mut groups: Vec<(String, Vec<i64>)> = Vec::new();
        for (key, value) in query {
            match &**key {
                "id" => chosen.insert(0, number(value)?),
                "ids" => ids.append(&mut numbers(value)?),
                "group" => groups.push(group(value)?),
                "set" if !value.is_empty() => set = Some(value.clone()),
                _ => {}
            }
        }
        chosen.append(&mut ids);
        let mut seen = std::collections::HashSet::new();
        for (name, ids) in &mut groups {
            ids.retain(|id| seen.insert(*id));
            if ids.is_empty() {
                return Err(Problem::Bad(format!("all jobs of the group `{name}` are in groups before it")));
            }
        }
        let mut seen = std::collections::HashSet::new();
        chosen.retain(|id| seen.insert(*id));
        Ok(Self { ids: chosen, set, groups })
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.set.is_none() && self.groups.is_empty()
    }

    pub fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }

    /// The words of `cowbell job compare` that ask for the same; quoted, since names may hold anything.
    pub fn words(&self) -> String {
        let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
        let listed =
            |ids: &[i64], between: &str| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(between);
        let group = |(name, ids): &(String, Vec<i64>)| {
            format!("--group {}", quoted(&format!("{name}:{}", listed(ids, ","))))
        };
        let ids = (!self.ids.is_empty()).then(|| listed(&self.ids, " "));
        let set = self.set.as_ref().map(|set| format!("--set {}", quoted(set)));
        self.groups.iter().map(group).chain(ids).chain(set).collect::<Vec<_>>().join(" ")
    }

    /// The query that asks for the same again.
    pub fn query(&self) -> String {
        let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
        let ids = (!ids.is_empty()).then(|| format!("ids={}", ids.join(",")));
        let set = self.set.as_ref().map(|set| format!("set={}", super::pages::escaped(set)));
        let groups = self.groups.iter().map(|(name, ids)| {
            let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
            format!("group={}", super::pages::escaped(&format!("{name}:{}", ids.join(","))))
        });
        groups.chain(ids).chain(set).collect::<Vec<_>>().join("&")
    }

    /// The jobs, those that were named by their numbers first; of a set with more runs than are compared the latest.
    pub async fn jobs(&self, site: &Site) -> Result<Selection, Problem> {
        let grouped: Vec<i64> = self.groups.iter().flat_map(|(_, ids)| ids).copied().collect();
        check_number(self.ids.len() + grouped.len())?;
        let (mut jobs, mut left_out) = (Vec::new(), None);
        for (name, ids) in &self.groups {
            for id in ids {
                let label = Some(Label { set: name.clone(), variant: None, repeat: None });
                jobs.push(Job { label, ..existing(site, *id).await? });
            }
        }
        for id in self.ids.iter().filter(|id| !grouped.contains(id)) {
            jobs.push(existing(site, *id).await?);
        }
        if let Some(set) = &self.set {
            let mut of_set = jobs_of_set(site, set).await?;
            of_set.retain(|job| !self.ids.contains(&job.id) && !grouped.contains(&job.id));
            let (found, room) = (of_set.len(), MOST_COMPARED.saturating_sub(jobs.len()));
            jobs.extend(of_set.into_iter().skip(found.saturating_sub(room)));
            left_out = (found > room).then(|| {
                format!("Of the {found} runs of the set {set} the latest {room} are compared; the others are left out.")
            });
        }
        check_number(jobs.len())?;
        Ok(Selection { jobs, left_out })
    }
}

impl Site {
    /// What the jobs cost, side by side.
    pub async fn compared(&self, choice: &Choice) -> Result<ComparisonData, Problem> {
        let Selection { jobs, left_out } = choice.jobs(self).await?;
        if let [_] | [] = &jobs[..] {
            return Err(Problem::Bad("expected two jobs or more to compare, but found one".into()));
        }
        let mut columns = Vec::new();
        for Group { name, jobs } in grouped(jobs) {
            let mut runs = Vec::new();
            for job in jobs {
                let cost = self.cost(&job).await?;
                runs.push((job, cost));
            }
            columns.push(Column { name, runs });
        }
        let summing_up = on_a_thread(move || {
            let runs = columns.iter().flat_map(|column| &column.runs);
            let phases = shared(runs.map(|(_, cost)| &cost.report.figures.phases[..]));
            let sets: Vec<Set> = columns.iter().map(|column| column.set(&phases)).collect();
            let comparison = compare(&sets);
            let little = comparison.has_durations_alone().then(|| DURATIONS_ALONE.to_string());
            ComparisonData { comparison, columns, of_all: left_out.into_iter().chain(little).collect() }
        });
        let compared = summing_up.await?;
        if !compared.comparison.has_common_figures() {
            return Err(Problem::Conflict(
                "these jobs have no figure in common: of some or all of them nothing is kept any more; compare others"
                    .into(),
            ));
        }
        Ok(compared)
    }
}

impl Column {
    /// Its runs, with what they did in these phases.
    fn set(&self, phases: &[String]) -> Set {
        let run = |(place, (job, cost)): (usize, &(Job, Arc<Cost>))| {
            let figures = &cost.report.figures;
            Run::new(&run_name(place, job), figures, facts(job, &cost.setup)).with_phases(figures, phases)
        };
        Set { name: self.name.clone(), runs: self.runs.iter().enumerate().map(run).collect() }
    }
}

/// Sets that the latest jobs belong to, each with its number of runs.
pub async fn sets(site: &Site) -> Result<Vec<(String, usize)>, Problem> {
    let mut sets: Vec<(String, usize)> = Vec::new();
    for set in latest(site).await?.into_iter().filter_map(|job| Some(job.label?.set)) {
        match sets.iter_mut().find(|(name, _)| *name == set) {
            Some((_, runs)) => *runs += 1,
            None => sets.push((set, 1)),
        }
    }
    Ok(sets)
}

/// The earliest first.
async fn jobs_of_set(site: &Site, set: &str) -> Result<Vec<Job>, Problem> {
    let query = JobQuery { set: Some(set.into()), ..JobQuery::of(EVER) };
    let mut jobs = job_list(site, &*site.present()?, &query, MOST_JOBS).await?.found;
    jobs.reverse();
    if jobs.is_empty() {
        return Err(Problem::NotFound(format!(
            "no job belongs to a set `{set}`; /api/v1/jobs lists jobs with their `label`"
        )));
    }
    Ok(jobs)
}

/// The job before it of the same origin, or, where it has none, of the same name.
pub async fn run_before(site: &Site, job: &Job) -> Result<Option<Job>, Problem> {
    let origin = job.vg.clone().zip(job.origin.clone());
    let name = origin.is_none().then(|| job.name.clone());
    let before = Some(JobPlace::of(job));
    let query = JobQuery { before, kind: Some(job.kind), name, origin, ..JobQuery::of(EVER) };
    let before = job_list(site, &*site.present()?, &query, MOST_BEFORE).await?.found;
    let host = |job: &Job| (job.is_imported(), job.imported_from().map(String::from));
    let is_alike = |other: &Job| host(other) == host(job) && !other.made_no_snapshot();
    Ok(before.into_iter().find(is_alike))
}

async fn latest(site: &Site) -> Result<Vec<Job>, Problem> {
    Ok(job_list(site, &*site.present()?, &JobQuery::of(EVER), MOST_JOBS).await?.found)
}

async fn existing(site: &Site, id: i64) -> Result<Job, Problem> {
    let missing = || {
        Problem::NotFound(format!(
            "there is no job {id}; `cowbell job list` and /api/v1/jobs list those that there are"
        ))
    };
    job_numbered(site, id).await?.ok_or_else(missing)
}

fn group(value: &str) -> Result<(String, Vec<i64>), Problem> {
    let named = value.split_once(':').map(|(name, ids)| (name.trim(), ids));
    let (name, ids) = named.filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
        Problem::Bad(format!(
            "expected a name and jobs' numbers, such as `group=before:3,4`, but found `{value}`"
        ))
    })?;
    let ids = numbers(ids)?;
    if ids.is_empty() {
        return Err(Problem::Bad(format!("expected jobs' numbers for `{name}`, such as `group={name}:3,4`")));
    }
    Ok((name.into(), ids))
}

fn numbers(words: &str) -> Result<Vec<i64>, Problem> {
    words.split(',').filter(|word| !word.trim().is_empty()).map(number).collect()
}

fn number(word: &str) -> Result<i64, Problem> {
    let wrong = |_| {
        Problem::Bad(format!(
            "expected jobs' numbers with commas between them, such as `ids=3,4`, but found `{word}`"
        ))
    };
    word.trim().parse().map_err(wrong)
}

fn check_number(found: usize) -> Result<(), Problem> {
    (found <= MOST_COMPARED).then_some(()).ok_or_else(|| {
        Problem::Bad(format!(
            "expected {MOST_COMPARED} jobs at most to compare, but found {found}; leave some out"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(query: &[(&str, &str)]) -> Result<Choice, Problem> {
        let owned = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        Choice::of(&query.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn jobs_are_named_by_numbers_in_one_word_or_many() {
        let found =
            choice(&[("id", "3"), ("id", "5"), ("ids", "4,3"), ("set", "a b"), ("width", "9")]).unwrap();
        assert_eq!(found, Choice { ids: vec![5, 3, 4], set: Some("a b".into()), groups: Vec::new() });
        assert_eq!(found.query(), "ids=5,3,4&set=a%20b");
    }

    #[test]
    fn jobs_can_be_grouped_by_who_asks() {
        let found = choice(&[("group", "before:3,4"), ("group", "after, at night:5")]).unwrap();
        assert_eq!(found.query(), "group=before%3A3%2C4&group=after%2C%20at%20night%3A5");
    }

    #[test]
    fn a_job_is_in_one_group_once() {
        let found = choice(&[("group", "a:33,33,33"), ("group", "b:33,4")]).unwrap();
        assert_eq!(found.query(), "group=a%3A33&group=b%3A4");
    }

    #[test]
    fn what_names_no_job_is_refused() {
        for (query, part) in [
            (vec![], "expected jobs' numbers"),
            (vec![("ids", ""), ("set", "")], "expected jobs' numbers"),
            (vec![("ids", "1,x")], "but found `x`"),
            (vec![("group", "3,4")], "expected a name"),
            (vec![("group", "a:3"), ("group", "b:3,3")], "of the group `b` are in groups before it"),
            (vec![("group", "before:")], "expected jobs' numbers for `before`"),
        ] {
            let Err(Problem::Bad(sentence)) = choice(&query) else { panic!("{query:?}") };
            assert!(sentence.contains(part), "{sentence}");
        }
    }
}
