//! A comparison in the API.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Outcome;
use crate::report::compare::Comparison;
use crate::report::text::sentence;
use crate::source::Label;
use crate::web::compare::ComparisonData;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CompareBody {
    /// Set by set, in the order of repeats.
    pub jobs: Vec<ComparedJob>,
    /// Sets, figures, remarks, and other differences.
    pub comparison: Comparison,
    /// Sentences on the whole comparison, then the remarks.
    pub sentences: Vec<String>,
}

/// One job of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ComparedJob {
    pub id: i64,
    pub name: String,
    /// The index of its set, from 0.
    pub set: usize,
    pub label: Option<Label>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
}

impl CompareBody {
    pub fn new(compared: &ComparisonData) -> Self {
        let runs = compared.columns.iter().enumerate();
        let runs = runs.flat_map(|(set, column)| column.runs.iter().map(move |(job, _)| (set, job)));
        let jobs = runs.map(|(set, job)| ComparedJob {
            id: job.id,
            name: job.name.clone(),
            set,
            label: job.label.clone(),
            started_at: job.started_at,
            ended_at: job.ended_at,
            outcome: job.outcome,
        });
        let comparison = compared.comparison.clone();
        let sentences =
            compared.of_all.iter().cloned().chain(comparison.remarks.iter().map(sentence)).collect();
        Self { jobs: jobs.collect(), comparison, sentences }
    }
}
