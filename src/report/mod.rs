//! Reports of jobs, and comparisons with ratios and their confidence; as text and as tables.

pub mod compare;
pub mod figure;
pub mod file;
pub mod job;
pub mod sets;
pub mod text;
pub mod time_series;
