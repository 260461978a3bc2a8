//! `[[notify]]`: the receivers of alerts. The module `notify` delivers to them.

mod entry;
mod heartbeat;
mod remote_write;
mod times;
mod value;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ConfigError, Pattern};
pub use heartbeat::Heartbeat;
pub use remote_write::RemoteWriteSettings;
pub use times::QuietHours;
use value::{HIDDEN, hide, hide_header};

/// An open critical alert is repeated after this time, unless configured.
const REPEAT: Duration = Duration::from_secs(3600);
/// Characters of a name.
const LONGEST_NAME: usize = 100;
/// Bytes of a template's file.
const LONGEST_TEMPLATE: u64 = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Warning,
    Critical,
}

impl Severity {
    pub fn text(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A receiver of alerts.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "entry::Entry")]
pub struct Receiver {
    /// Unique in the file; holds no secret.
    pub name: String,
    place: Place,
    /// The least severity that it gets.
    pub severity: Severity,
    /// The volumes whose alerts it gets; all if `None`.
    pub volumes: Option<Pattern>,
    /// Warnings wait for their end.
    pub quiet_hours: Option<QuietHours>,
    /// Open critical alerts are repeated after this time; `None` for never.
    pub repeat: Option<Duration>,
    pub channel: Channel,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Channel {
    Webhook(Box<Webhook>),
    /// A program and its arguments. It gets the message as JSON on its standard input.
    Command(Vec<String>),
    Email(Email),
}

/// A POST request. URL, headers and values may be secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// Its path and query may be a template.
    pub url: String,
    pub headers: BTreeMap<String, String>,
    /// Values for the template.
    pub values: BTreeMap<String, String>,
    pub content_type: String,
    /// The body, with the message's fields; JSON of the message if `None`.
    pub template: Option<String>,
    template_file: Option<PathBuf>,
    /// Whether each alert has a request of its own.
    pub is_split: bool,
}

/// A message by SMTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Email {
    /// Addresses, separated by commas.
    pub to: String,
    /// `cowbell@HOST` if `None`.
    pub from: Option<String>,
    pub server: String,
    /// User and password.
    pub login: Option<(String, String)>,
}

/// File and line of an entry. All are equal, since a receiver that moves in the file remains the same.
#[derive(Clone, Debug, Default)]
struct Place(String);

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Channel {
    /// Whether each alert is a message of its own.
    pub fn is_split(&self) -> bool {
        matches!(self, Self::Webhook(webhook) if webhook.is_split)
    }

    /// Holds no secret.
    fn usual_name(&self) -> String {
        let name = match self {
            Self::Webhook(webhook) => format!("webhook {}", value::name(&webhook.url)),
            Self::Command(command) => format!("command {}", command[0]),
            Self::Email(email) => format!("email to {}", email.to),
        };
        shortened(&name).into()
    }
}

impl Webhook {
    /// The part of the URL before the first template: scheme, host, and perhaps more.
    pub fn fixed_url(&self) -> &str {
        value::fixed(&self.url)
    }

    fn resolve(&mut self) -> Result<(), String> {
        value::resolve_url("url", &mut self.url)?;
        self.headers
            .iter_mut()
            .try_for_each(|(header, value)| value::resolve_header(header, value))?;
        self.values
            .iter_mut()
            .try_for_each(|(name, value)| value::resolve(name, value))?;
        if let Some(path) = &self.template_file {
            self.template = Some(template(path)?);
        }
        Ok(())
    }
}

impl Receiver {
    /// An error of its settings, with file, line and name.
    pub fn error(&self, why: &str) -> ConfigError {
        ConfigError(format!("{} receiver \"{}\": {why}", self.place, self.name))
    }

    /// The receiver with all values that are in credentials and files.
    pub fn with_credentials(mut self) -> Result<Self, ConfigError> {
        let resolved = match &mut self.channel {
            Channel::Webhook(webhook) => webhook.resolve(),
            Channel::Email(Email {
                login: Some((_, password)),
                ..
            }) => value::resolve("password", password),
            Channel::Email(_) | Channel::Command(_) => Ok(()),
        };
        match resolved {
            Ok(()) => Ok(self),
            Err(why) => Err(self.error(&why)),
        }
    }

    /// A copy to show: of a URL its host, of a command its program, no header's value, no password.
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        match &mut shown.channel {
            Channel::Webhook(webhook) => {
                webhook.url = value::shown_url(&webhook.url);
                webhook.headers.values_mut().for_each(hide_header);
                webhook.values.values_mut().for_each(hide);
                webhook.template = webhook.template.as_ref().map(|_| HIDDEN.into());
            }
            Channel::Command(command) => command.iter_mut().skip(1).for_each(hide),
            Channel::Email(email) => email
                .login
                .iter_mut()
                .for_each(|(_, password)| hide(password)),
        }
        shown
    }
}

/// Gives each receiver its place in the file and a name of its own.
pub fn settle(receivers: &mut [Receiver], path: &Path, text: &str) -> Result<(), ConfigError> {
    for (receiver, line) in receivers.iter_mut().zip(lines(text)) {
        receiver.place = Place(format!(
            "in the configuration {}, line {line},",
            path.display()
        ));
    }
    make_names_unique(receivers)
}

/// The lines on which the entries begin.
fn lines(text: &str) -> Vec<usize> {
    let starts = entries(text).into_iter().map(|entry| entry.span().start);
    starts
        .map(|start| text[..start].matches('\n').count() + 1)
        .collect()
}

/// Where the invalid entry begins, if an error is about a whole entry: the parser places all of them at the first one.
pub fn wrong_entry(text: &str, start: usize) -> Option<usize> {
    let entries = entries(text);
    let is_wrong = |entry: &&Entry| entry.get_ref().clone().try_into::<Receiver>().is_err();
    entries
        .first()
        .filter(|first| first.span().start == start)?;
    entries
        .iter()
        .find(is_wrong)
        .map(|entry| entry.span().start)
}

type Entry = toml::Spanned<toml::Table>;

fn entries(text: &str) -> Vec<Entry> {
    #[derive(Deserialize)]
    struct File {
        notify: Vec<Entry>,
    }
    toml::from_str(text).map_or_else(|_| Vec::new(), |file: File| file.notify)
}

/// Refuses equal names, and numbers equal usual names.
fn make_names_unique(receivers: &mut [Receiver]) -> Result<(), ConfigError> {
    let mut names = HashSet::new();
    for receiver in receivers {
        if !names.insert(receiver.name.clone()) {
            if receiver.name != receiver.channel.usual_name() {
                return Err(receiver.error("another receiver in [[notify]] has this name"));
            }
            let numbered = (2..).map(|number| format!("{} ({number})", receiver.name));
            receiver.name = numbered
                .into_iter()
                .find(|name| !names.contains(name))
                .unwrap_or_default();
            names.insert(receiver.name.clone());
        }
    }
    Ok(())
}

fn shortened(name: &str) -> &str {
    name.char_indices()
        .nth(LONGEST_NAME)
        .map_or(name, |(end, _)| &name[..end])
}

/// The text of a template's file.
fn template(path: &Path) -> Result<String, String> {
    let refuse = |why: String| format!("`template_file`: {} {why}", path.display());
    let mut text = String::new();
    let file =
        std::fs::File::open(path).map_err(|error| refuse(format!("cannot be opened: {error}")))?;
    let is_regular = file.metadata().is_ok_and(|about| about.is_file());
    if !is_regular {
        return Err(refuse("is not a regular file".into()));
    }
    let read = file.take(LONGEST_TEMPLATE + 1).read_to_string(&mut text);
    read.map_err(|error| refuse(format!("cannot be read: {error}")))?;
    match text.len() as u64 {
        0..=LONGEST_TEMPLATE => Ok(text),
        _ => Err(refuse(format!(
            "has more than {} KiB",
            LONGEST_TEMPLATE / 1024
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(text: &str) -> Receiver {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_receiver_is_shown_without_its_secrets() {
        for (text, expected) in [
            (
                "kind = \"webhook\"\nurl = \"https://me:hunter2@hooks.example:8443/a/hunter2?key=hunter2#hunter2\"",
                "https://hooks.example:8443/…",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://[::1]/hunter2\"",
                "http://[::1]/…",
            ),
            (
                "kind = \"webhook\"\nurl = \"https://x/hunter2{{ key }}\"",
                "https://x/…",
            ),
            (
                "kind = \"webhook\"\nurl = \"credential:webhook\"",
                "credential:webhook",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\nheaders = { X-Key = \"Bearer hunter2\" }",
                "{\"X-Key\": \"…\"}",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\nheaders = { X-Key = \"Bearer credential:key\" }",
                "Bearer credential:key",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\nvalues = { key = \"hunter2\" }",
                "{\"key\": \"…\"}",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\ntemplate = '{\"key\": \"hunter2\"}'",
                "Some(\"…\")",
            ),
            (
                "kind = \"command\"\ncommand = [\"/bin/tell\", \"--key\", \"hunter2\"]",
                "[\"/bin/tell\", \"…\", \"…\"]",
            ),
            (
                "kind = \"email\"\nto = \"a@example.com\"\nuser = \"me\"\npassword = \"hunter2\"",
                "\"me\", \"…\"",
            ),
        ] {
            let shown = format!("{:?}", receiver(text).without_secrets());
            assert!(
                shown.contains(expected) && !shown.contains("hunter2"),
                "expected {expected} in {shown}"
            );
        }
    }

    #[test]
    fn a_receiver_has_a_name_without_secrets_and_no_two_have_the_same() {
        let hook = "kind = \"webhook\"\nurl = \"http://hooks.example/hunter2\"";
        let named = |names: &[&str]| {
            let receivers = names.iter().map(|name| match *name {
                "" => receiver(hook),
                name => receiver(&format!("{hook}\nname = \"{name}\"")),
            });
            let mut receivers: Vec<Receiver> = receivers.collect();
            make_names_unique(&mut receivers).map_err(|error| error.to_string())?;
            Ok(receivers
                .into_iter()
                .map(|receiver| receiver.name)
                .collect::<Vec<_>>())
        };
        let usual = "webhook at hooks.example";
        assert_eq!(
            named(&["", "", ""]).unwrap(),
            [usual, &format!("{usual} (2)"), &format!("{usual} (3)")]
        );
        let error: Result<_, String> = named(&["pager", "pager"]);
        assert!(error.unwrap_err().contains("\"pager\": another receiver"));
        assert_eq!(
            receiver("kind = \"email\"\nto = \"a@example.com\"").name,
            "email to a@example.com"
        );
        let many = ["a@example.com"; 20].join(", ");
        assert_eq!(
            receiver(&format!("kind = \"email\"\nto = \"{many}\""))
                .name
                .len(),
            LONGEST_NAME
        );
    }

    #[test]
    fn an_error_names_the_line_of_the_entry() {
        let text = "[[notify]]\nkind = \"email\"\nto = \"a@b.c\"\n\n[[notify]]\nkind = \"email\"\nto = \"d@b.c\"\n";
        assert_eq!(lines(text), [1, 5]);
        assert_eq!(lines("listen = \"[::1]:2692\""), [0; 0]);
    }
}
