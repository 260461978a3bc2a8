//! Arguments of `cowbell run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use crate::client::run::{Caches, Plan};
use crate::source::{LONGEST_NAME, check_letters};

/// Maximum repeats.
const MOST_RUNS: i64 = 10_000;
/// The longest pause before a run.
const LONGEST_SETTLE: Duration = Duration::from_secs(24 * 3600);

#[derive(Args)]
pub struct Run {
    /// The name of the job [default: the command's name]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    #[command(flatten)]
    set: SetArguments,
    /// Run the command K times, each as a job of its own; stop at the first failure
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=MOST_RUNS))]
    repeat: u32,
    /// Wait before each run, such as 10s
    #[arg(long, value_name = "LENGTH", value_parser = settle)]
    settle: Option<Duration>,
    /// Write dirty pages and drop the kernel's caches before each run; refused beside a database server
    #[arg(long)]
    drop_caches: bool,
    /// Drop caches also beside a database server
    #[arg(long)]
    force_drop_caches: bool,
    /// The command, after `--`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// The set of comparable runs that a job belongs to.
#[derive(Args)]
pub struct SetArguments {
    /// The set of runs to compare [default: the name, if --variant or --repeat is given]
    #[arg(long, value_parser = name)]
    pub set: Option<String>,
    /// The variant of this run within its set
    #[arg(long, value_parser = name)]
    pub variant: Option<String>,
}

impl From<Run> for Plan {
    fn from(run: Run) -> Self {
        let caches = match (run.drop_caches, run.force_drop_caches) {
            (_, true) => Caches::DroppedByForce,
            (true, false) => Caches::Dropped,
            (false, false) => Caches::Kept,
        };
        let settle = run.settle.unwrap_or_default();
        let Run { name, set: SetArguments { set, variant }, repeat, command, .. } = run;
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
        .ok_or_else(|| "expected a duration from 0s to 24h such as 10s".into())
}
