//! Arguments that several commands share.

use clap::Args;

use crate::commands::{LONGEST_NAME, check_letters};

// The set of comparable runs that a job belongs to.
#[derive(Args, Clone, Debug, Default)]
pub struct SetArguments {
    /// The set of runs to compare [default: the name, if --variant or --repeat is given]
    #[arg(long, value_parser = name)]
    set: Option<String>,
    /// The variant of this run within its set
    #[arg(long, value_parser = name)]
    pub variant: Option<String>,
}

impl SetArguments {
    /// The set; with a variant or repeats, the name of the job by default.
    pub fn set(&self, name: &str, has_repeats: bool) -> Option<String> {
        let has_set = has_repeats || self.variant.is_some();
        self.set.clone().or_else(|| has_set.then(|| name.into()))
    }
}

/// Parses the name of a job, a phase, a set or a variant.
pub fn name(text: &str) -> Result<String, String> {
    check_letters("a name", text, LONGEST_NAME).map(|()| text.into())
}
