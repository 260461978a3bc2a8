//! The cost of a job in the API.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::forecast::Outlook;
use crate::job::Job;
use crate::job::advice::Advice;
use crate::job::diagnosis::Explanation;
use crate::job::figures::Figures;
use crate::job::setup::Setup;
use crate::job::sizing::Sizing;
use crate::present::Present;
use crate::report::summary::JobSummary;
use crate::source::Note;
use crate::verdict::Verdict;
use crate::web::costs::Cost;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FiguresBody {
    pub id: i64,
    pub name: String,
    /// `null` while it runs; the figures are then those so far.
    pub ended_at: Option<Timestamp>,
    /// What the job was, how it ended, and whether its backup can be trusted.
    #[serde(rename = "account")]
    pub summary: JobSummary,
    pub notes: Vec<Note>,
    /// The snapshot, its origin and the machine.
    pub setup: Setup,
    pub figures: Figures,
    pub diagnosis: Vec<Explanation>,
    pub advice: Vec<Advice>,
    /// The size of the next COW area, from the last jobs of the origin; `null` if no peak is known.
    pub sizing: Option<Sizing>,
    /// Whether it will end before its snapshot overflows; `null` for other jobs.
    pub outlook: Option<Outlook>,
    pub verdict: Verdict,
}

impl FiguresBody {
    pub fn new(job: &Job, summary: JobSummary, cost: &Cost, present: &Present) -> Self {
        let report = cost.report.clone();
        Self {
            id: job.id,
            name: job.name.clone(),
            ended_at: job.ended_at,
            summary,
            notes: job.notes.clone(),
            setup: cost.setup.clone(),
            figures: report.figures,
            diagnosis: report.sentences,
            advice: report.advice,
            sizing: cost.sizing(job, present),
            outlook: present.outlook(job),
            verdict: Verdict::of_job(present, job),
        }
    }
}
