//! How large a snapshot has to be: the answer, and its table.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::table::{Cell, Column, Table};
use crate::units::{duration_text, size_text};

/// How large a snapshot has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SizeAdvice {
    /// `vg0/mysql`
    pub origin: String,
    pub is_thin: bool,
    /// The usual length of its backups, in seconds.
    pub usual_s: Option<f64>,
    /// By age, then by chunk size. Those of the usual age are for the hour of its backups if that matters, others for any.
    pub rows: Vec<SizeRow>,
    /// For the chunk size of its snapshots, and the hour of its backups if that matters.
    pub curve: Vec<CurvePoint>,
    pub planned: Option<Planned>,
    /// How this is known.
    pub basis: String,
    /// Its limits.
    pub limits: String,
    /// The free space of the volume group, or how much of its free space a pool loses.
    pub room: Option<String>,
    /// Of a snapshot of the usual length.
    pub suggested_bytes: Option<u64>,
    /// `null` if the hour of the day makes no difference, or if that is not known.
    pub hours: Option<Hours>,
    /// Lines for `mylvmbackup.conf`.
    pub setting: Option<String>,
}

/// The bytes that snapshots of this age and chunk size needed, or would have needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SizeRow {
    pub age_s: f64,
    pub chunk_bytes: u64,
    /// The windows or runs that it is known from.
    pub windows: usize,
    /// Windows that are left out, since a snapshot copies nothing for a discard, which the kernel counts as a write.
    pub windows_with_discards: usize,
    pub median_bytes: u64,
    pub largest_bytes: u64,
    pub suggested_bytes: u64,
    /// If the windows are estimated: the half of the interval that holds the truth in 95 % of cases, for the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_percent: Option<f64>,
}

/// What a snapshot of the usual age needs, by the hour in which it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hours {
    /// The hour in which backups begin, for which a size is suggested; `null` if that is not known.
    pub of_backups: Option<u8>,
    pub rows: Vec<HourRow>,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HourRow {
    /// In UTC, from 0 to 23.
    pub hour: u8,
    pub windows: usize,
    pub median_bytes: u64,
    pub largest_bytes: u64,
    pub suggested_bytes: u64,
}

/// The band of all windows at an age.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurvePoint {
    pub age_s: f64,
    pub least_bytes: f64,
    pub median_bytes: f64,
    pub largest_bytes: f64,
}

/// The next snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Planned {
    pub bytes: u64,
    pub age_s: f64,
    /// The windows and runs that it is compared with.
    pub cases: usize,
    pub risk: Risk,
    pub text: String,
}

/// Whether the next snapshot is large enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// No window needed more.
    Low,
    /// Some window needed more.
    Possible,
    /// Half of the windows needed more.
    Likely,
}

impl SizeAdvice {
    /// By age and chunk size.
    pub fn table(&self) -> Table {
        let columns = [
            Column::name("Age"),
            Column::number("Chunk"),
            Column::number("Median"),
            Column::number("Largest"),
            Column::number(if self.is_thin {
                "Pool grows by"
            } else {
                "Suggested"
            }),
            Column::number("Windows"),
        ];
        let row = |row: &SizeRow| {
            let age = duration_text(row.age_s);
            let is_usual = Some(row.age_s) == self.usual_s;
            vec![
                Cell::from(if is_usual {
                    format!("{age} (usual)")
                } else {
                    age
                }),
                size_text(row.chunk_bytes).into(),
                match row.error_percent {
                    Some(error) => format!("{} ±{error:.0} %", size_text(row.median_bytes)).into(),
                    None => size_text(row.median_bytes).into(),
                },
                size_text(row.largest_bytes).into(),
                size_text(row.suggested_bytes).into(),
                match row.windows_with_discards {
                    0 => row.windows.to_string().into(),
                    discards => format!("{} ({discards} left out)", row.windows).into(),
                },
            ]
        };
        Table::new(
            "The size that a snapshot needs",
            columns,
            self.rows.iter().map(row),
        )
    }
}
