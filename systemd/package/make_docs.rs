//! Writes man pages and shell completions, from the definition of the command line.
//!
//! `cargo run --example make-docs -- DIR` writes `DIR/man/*.1`, and for bash, zsh and fish `DIR/completions/*`.
//! `DIR/man/cowbell.toml.5` is made from the configuration file of the packages, which explains every key.
//! `SOURCE_DATE_EPOCH` is the date of the pages.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use jiff::Timestamp;

/// The end of the page of the program itself.
const ABOUT_ALL: &str = r#".SH EXIT STATUS
.TP
0
Success. For
.BR "cowbell check" :
the service works here.
.TP
1
What was asked for failed.
.TP
2
The command line or the configuration is wrong.
.PP
.B cowbell status
exits with 0 (OK), 1 (warning), 2 (critical) or 3 (unknown), like a Nagios plugin.
.B cowbell verify\-archive
exits with 0 (sound), 1 (damaged) or 2 (unknown).
.B cowbell run
exits with the status of its command.
.SH FILES
.TP
.I /etc/cowbell/cowbell.toml
The configuration, see
.BR cowbell.toml (5).
.TP
.I /etc/cowbell/conf.d/*.toml
Files that add to it.
.TP
.I /etc/default/cowbell
Variables of the service.
.TP
.I /var/lib/cowbell/cowbell.db
The database.
.TP
.I /run/cowbell/control
The socket for commands.
.TP
.I /run/cowbell/hooks
The socket for messages from mylvmbackup's hooks.
.TP
.I /usr/share/doc/cowbell
The whole documentation.
.TP
.I /usr/share/cowbell
Receivers of alerts, boards for Grafana, rules for Prometheus, and hooks for mylvmbackup.
.SH ENVIRONMENT
.TP
.BR COWBELL_CONFIG ", " COWBELL_LISTEN ", " COWBELL_INTERVAL ", " COWBELL_DB ", " COWBELL_ROOT
The values of
.BR \-\-config ", " \-\-listen ", " \-\-interval ", " \-\-db " and " \-\-root ,
if these are not given.
.TP
.B COWBELL_LOG
The least level of the log:
.BR error ", " warn ", " info " or " debug .
.SH EXAMPLES
.nf
sudo cowbell check                       # what can be read here, and what cannot
cowbell status                           # usage, running jobs and alerts
sudo cowbell size vg0/mysql              # how large a snapshot has to be
cowbell run \-\-name nightly \-\- backup.sh   # record a command as a job
cowbell export \-\-from \-1d > day.csv      # what was stored in the last day
.fi
.SH SEE ALSO
.BR cowbell.toml (5),
.BR lvs (8),
.BR lvmthin (7),
.BR dmeventd (8),
.BR mylvmbackup (1)
"#;

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
    if name == "cowbell" {
        file.write_all(ABOUT_ALL.as_bytes())?;
    } else {
        file.write_all(b".SH SEE ALSO\n.BR cowbell (1)\n")?;
    }
    command
        .get_subcommands()
        .try_for_each(|subcommand| write_pages(subcommand, date, folder))
}
