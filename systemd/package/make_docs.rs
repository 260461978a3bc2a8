//! Writes man pages and shell completions, from the definition of the command line.
//!
//! `cargo run --example make-docs -- DIR` writes `DIR/man/*.1`, and for bash, zsh and fish `DIR/completions/*`.
//! `DIR/man/cowbell.toml.5` is made from the configuration file of the packages, which explains every key.
//! `SOURCE_DATE_EPOCH` is the date of the pages.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use jiff::Timestamp;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(
        env::args()
            .nth(1)
            .expect("expected a directory to write to"),
    );
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    let mut command = cowbell::cli::documented();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "cowbell", &completions)?;
    }
    command.build();
    fs::write(man.join("cowbell.toml.5"), configuration_page(&date()))?;
    write_pages(&command, &date(), &man)
}

/// The file verbatim. roff reads `\` as an escape and `-` as a hyphen.
fn configuration_page(date: &str) -> String {
    let file = include_str!("cowbell.toml")
        .replace('\\', "\\e")
        .replace('-', "\\-");
    let version = env!("CARGO_PKG_VERSION");
    format!(
        r#".TH COWBELL.TOML 5 {date} "cowbell {version}"
.SH NAME
cowbell.toml \- the configuration of cowbell
.SH DESCRIPTION
.BR cowbell (1)
reads
.IR /etc/cowbell/cowbell.toml ,
or the file that
.B \-\-config
names. All keys are optional. The packages install this file:
.PP
.nf
{file}.fi
.SH SEE ALSO
.BR cowbell (1)
"#
    )
}

fn date() -> String {
    let epoch = env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|text| text.parse().ok());
    let at = epoch.map_or(Timestamp::now(), |second| {
        Timestamp::from_second(second).expect("a date")
    });
    at.strftime("%Y-%m-%d").to_string()
}

/// A page for the command, and one for each of its subcommands.
fn write_pages(command: &Command, date: &str, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut file = fs::File::create(folder.join(format!("{name}.1")))?;
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .date(date);
    man.source(concat!("cowbell ", env!("CARGO_PKG_VERSION")))
        .render(&mut file)?;
    command
        .get_subcommands()
        .try_for_each(|subcommand| write_pages(subcommand, date, folder))
}
