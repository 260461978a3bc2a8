//! `cowbell run`: its words on the command line. The running is done by `client::run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use crate::client::run::{Caches, Plan};
use crate::source::{LONGEST_NAME, check_letters};

/// Runs in a row at most.
const MOST_RUNS: i64 = 10_000;
/// Nobody waits longer for a machine to come to rest.
const LONGEST_SETTLE: Duration = Duration::from_secs(24 * 3600);

#[derive(Args)]
pub struct Run {
    /// The job's name [default: the command's]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// The set of runs that it belongs to, to be compared [default: with --variant or --repeat, the name]
    #[arg(long, value_parser = name)]
    set: Option<String>,
    /// What is different in this run from others of the set
    #[arg(long, value_parser = name)]
    variant: Option<String>,
    /// Run it so often, each time as a job of its own; the first that fails ends it
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=MOST_RUNS))]
    repeat: u32,
    /// Wait so long before each run, such as 10s
    #[arg(long, value_name = "LENGTH", value_parser = settle)]
    settle: Option<Duration>,
    /// Write what is dirty and drop the kernel's caches before each run; refused where a database server runs
    #[arg(long)]
    drop_caches: bool,
    /// Drop them also beside a database server
    #[arg(long)]
    force_drop_caches: bool,
    /// The command, after `--`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

impl From<Run> for Plan {
    fn from(run: Run) -> Self {
        let caches = match (run.drop_caches, run.force_drop_caches) {
            (_, true) => Caches::DroppedByForce,
            (true, false) => Caches::Dropped,
            (false, false) => Caches::Kept,
        };
        let settle = run.settle.unwrap_or_default();
        let Run { name, set, variant, repeat, command, .. } = run;
        Self { name, set, variant, repeat, settle, caches, command }
    }
}

/// The name of a job, a phase, a set or a variant.
pub fn name(text: &str) -> Result<String, String> {
    check_letters("a name", text, LONGEST_NAME).map(|()| text.to_string())
}

fn settle(text: &str) -> Result<Duration, String> {
    let length = text.parse::<SignedDuration>().ok().and_then(|length| Duration::try_from(length).ok());
    length
        .filter(|length| *length <= LONGEST_SETTLE)
        .ok_or_else(|| "expected a length from 0s to 24h such as 10s".into())
}
