//! Jobs side by side: what differs, by how much, and how surely; as text for people and for spreadsheets.
//!
//! Everything here is a function of figures that are known already. One job alone is a set of one run.

pub mod account;
pub mod compare;
pub mod course;
pub mod facts;
pub mod figure;
pub mod file;
pub mod group;
pub mod job;
pub mod outlier;
pub mod outline;
pub mod phases;
pub mod text;
