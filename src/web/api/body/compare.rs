//! A comparison in the API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::JobBody;
use crate::present::Present;
use crate::report::compare::Comparison;
use crate::report::text::sentence;
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
    /// The index of its set, from 0.
    pub set: usize,
    #[serde(flatten)]
    pub job: JobBody,
}

impl CompareBody {
    pub fn new(compared: &ComparisonData, present: &Present) -> Self {
        let runs = compared.columns.iter().enumerate();
        let runs =
            runs.flat_map(|(set, column)| column.runs.iter().map(move |(job, _)| (set, job)));
        let jobs = runs.map(|(set, job)| ComparedJob {
            set,
            job: JobBody::new(job, present),
        });
        let comparison = compared.comparison.clone();
        let sentences = compared
            .of_all
            .iter()
            .cloned()
            .chain(comparison.remarks.iter().map(sentence))
            .collect();
        Self {
            jobs: jobs.collect(),
            comparison,
            sentences,
        }
    }
}
