//! Reports of jobs, and comparisons with ratios and their confidence; as text and as tables.

pub mod compare;
pub mod facts;
pub mod figure;
pub mod file;
pub mod group;
pub mod job;
pub mod outline;
pub mod phases;
pub mod summary;
pub mod text;
pub mod time_series;
