//! `[[notify]]`: the receivers of alerts. The module `notify` delivers to them.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::Time;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ConfigError, Pattern, secret};

/// Begins a value that is in a credential; the credential's name follows.
const CREDENTIAL: &str = "credential:";
/// Stands for a secret.
const HIDDEN: &str = "…";
/// An open critical alert is repeated after this time, unless configured.
const REPEAT: Duration = Duration::from_secs(3600);
const CONTENT_TYPE: &str = "application/json";

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
#[serde(try_from = "Entry")]
pub struct Receiver {
    /// Unique in the file; holds no secret.
    pub name: String,
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
    Webhook(Webhook),
    /// A program and its arguments. It gets the message as JSON on its standard input.
    Command(Vec<String>),
    Email(Email),
}

/// A POST request. URL and headers may be secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    pub url: String,
    pub headers: BTreeMap<String, String>,
    pub content_type: String,
    /// The body, with the message's fields; JSON of the message if `None`.
    pub template: Option<String>,
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

/// A time of the day, which may include midnight, in the local time zone.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct QuietHours {
    from: Time,
    to: Time,
}

/// `[heartbeat]`: an address that is called each minute while all is well.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    url: Option<Address>,
}

impl Heartbeat {
    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().map(|url| &*url.0)
    }

    pub fn with_credential(mut self) -> Result<Self, ConfigError> {
        if let Some(url) = &mut self.url {
            resolve("url", "[heartbeat]", &mut url.0)?;
        }
        Ok(self)
    }

    pub fn without_secrets(&self) -> Self {
        Self { url: self.url.as_ref().map(|url| Address(shown_url(&url.0))) }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Webhook,
    Command,
    Email,
}

/// An entry as in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kind: Kind,
    name: Option<String>,
    severity: Option<Severity>,
    volumes: Option<Pattern>,
    quiet_hours: Option<QuietHours>,
    repeat: Option<Repeat>,
    url: Option<Address>,
    headers: Option<BTreeMap<String, String>>,
    content_type: Option<String>,
    template: Option<String>,
    command: Option<Vec<String>>,
    to: Option<String>,
    from: Option<String>,
    server: Option<Server>,
    user: Option<String>,
    password: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
struct Address(String);

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Server(String);

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Repeat(Option<Duration>);

impl TryFrom<Entry> for Receiver {
    type Error = String;

    fn try_from(mut entry: Entry) -> Result<Self, String> {
        entry.check_keys()?;
        let channel = match entry.kind {
            Kind::Webhook => Channel::Webhook(entry.webhook()?),
            Kind::Command => match entry.command.take() {
                Some(command) if !command.is_empty() => Channel::Command(command),
                _ => {
                    return Err(
                        "`command`: expected a program and its arguments such as [\"/path\", \"argument\"]"
                            .into(),
                    );
                }
            },
            Kind::Email => Channel::Email(entry.email()?),
        };
        let name = entry.name.unwrap_or_else(|| channel.usual_name());
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!("`name`: expected 1 to {LONGEST_NAME} letters, but found {name:?}"));
        }
        Ok(Self {
            name,
            severity: entry.severity.unwrap_or(Severity::Warning),
            volumes: entry.volumes,
            quiet_hours: entry.quiet_hours,
            repeat: entry.repeat.map_or(Some(REPEAT), |repeat| repeat.0),
            channel,
        })
    }
}

/// Maximum bytes of a name.
const LONGEST_NAME: usize = 100;

impl Entry {
    /// Refuses the keys of another kind.
    fn check_keys(&self) -> Result<(), String> {
        let is_some =
            |kind, key: &'static str, is_there: bool| (is_there && self.kind != kind).then_some(key);
        let foreign = [
            is_some(Kind::Webhook, "url", self.url.is_some()),
            is_some(Kind::Webhook, "headers", self.headers.is_some()),
            is_some(Kind::Webhook, "content_type", self.content_type.is_some()),
            is_some(Kind::Webhook, "template", self.template.is_some()),
            is_some(Kind::Command, "command", self.command.is_some()),
            is_some(Kind::Email, "to", self.to.is_some()),
            is_some(Kind::Email, "from", self.from.is_some()),
            is_some(Kind::Email, "server", self.server.is_some()),
            is_some(Kind::Email, "user", self.user.is_some()),
            is_some(Kind::Email, "password", self.password.is_some()),
        ];
        let kind = format!("{:?}", self.kind).to_lowercase();
        let expected = match self.kind {
            Kind::Webhook => "`url`, `headers`, `content_type` and `template`",
            Kind::Command => "`command`",
            Kind::Email => "`to`, `from`, `server`, `user` and `password`",
        };
        let foreign = foreign.into_iter().flatten().next();
        foreign.map_or(Ok(()), |key| {
            Err(format!("`{key}` does not belong to kind = \"{kind}\": expected {expected}"))
        })
    }

    fn webhook(&mut self) -> Result<Webhook, String> {
        let url = self.url.take().ok_or("kind = \"webhook\" needs a `url`")?.0;
        let content_type = self.content_type.take().unwrap_or_else(|| CONTENT_TYPE.into());
        let template = self.template.take();
        if let Some(template) = &template {
            let environment = minijinja::Environment::new();
            environment.template_from_str(template).map_err(|error| format!("`template`: {error}"))?;
        }
        let headers = self.headers.take().unwrap_or_default();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        for (name, value) in &headers {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(format!(
                    "`headers`: expected names of letters, digits, - and _, but found {name:?}"
                ));
            }
            if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(format!("`headers`: expected printable ASCII as the value of {name}"));
            }
        }
        Ok(Webhook { url, headers, content_type, template })
    }

    fn email(&mut self) -> Result<Email, String> {
        let to = self.to.take().ok_or("kind = \"email\" needs `to`")?;
        let from = self.from.take();
        for (key, addresses) in [("to", Some(&to)), ("from", from.as_ref())] {
            let Some(addresses) = addresses else { continue };
            addresses.parse::<lettre::message::Mailboxes>().map_err(|error| {
                format!("`{key}`: expected addresses such as \"dba@example.com\", but found {addresses:?}: {error}")
            })?;
        }
        let login = match (self.user.take(), self.password.take()) {
            (None, None) => None,
            (Some(user), Some(password)) => Some((user, password)),
            _ => return Err("`user` and `password`: expected both or neither".into()),
        };
        let server = self.server.take().map_or_else(|| "smtp://localhost:25".into(), |server| server.0);
        Ok(Email { to, from, server, login })
    }
}

impl Channel {
    fn usual_name(&self) -> String {
        match self {
            Self::Webhook(Webhook { url, .. }) => match url.strip_prefix(CREDENTIAL) {
                Some(name) => format!("webhook {name}"),
                None => {
                    let host =
                        url.parse::<reqwest::Url>().ok().and_then(|url| url.host_str().map(String::from));
                    format!("webhook at {}", host.unwrap_or_default())
                }
            },
            Self::Command(command) => format!("command {}", command[0]),
            Self::Email(email) => format!("email to {}", email.to),
        }
    }
}

impl Receiver {
    /// The receiver with all values that are in credentials.
    pub fn with_credentials(mut self) -> Result<Self, ConfigError> {
        let place = format!("\"{}\" in [[notify]]", self.name);
        let resolve = |key: &str, value: &mut String| resolve(key, &place, value);
        match &mut self.channel {
            Channel::Webhook(webhook) => {
                resolve("url", &mut webhook.url)?;
                webhook.headers.iter_mut().try_for_each(|(header, value)| resolve(header, value))?;
            }
            Channel::Email(Email { login: Some((_, password)), .. }) => resolve("password", password)?,
            Channel::Email(_) | Channel::Command(_) => {}
        }
        Ok(self)
    }

    /// A copy to show: of a URL its host, of a command its program, no header's value, no password.
    pub fn without_secrets(&self) -> Self {
        let hide = |value: &mut String| {
            if !value.starts_with(CREDENTIAL) {
                *value = HIDDEN.into();
            }
        };
        let mut shown = self.clone();
        match &mut shown.channel {
            Channel::Webhook(webhook) => {
                webhook.url = shown_url(&webhook.url);
                webhook.headers.values_mut().for_each(hide);
                webhook.template.iter_mut().for_each(hide);
            }
            Channel::Command(command) => command.iter_mut().skip(1).for_each(hide),
            Channel::Email(email) => email.login.iter_mut().for_each(|(_, password)| hide(password)),
        }
        shown
    }
}

/// All receivers, each with a name of its own.
pub fn all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Receiver>, D::Error> {
    with_unique_names(Vec::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Refuses equal names, and numbers equal usual names.
fn with_unique_names(receivers: Vec<Receiver>) -> Result<Vec<Receiver>, String> {
    let mut names = HashSet::new();
    let mut unique = Vec::with_capacity(receivers.len());
    for mut receiver in receivers {
        if !names.insert(receiver.name.clone()) {
            if receiver.name != receiver.channel.usual_name() {
                return Err(format!("two receivers in [[notify]] have the name {:?}", receiver.name));
            }
            let numbered = (2..).map(|number| format!("{} ({number})", receiver.name));
            receiver.name = numbered.into_iter().find(|name| !names.contains(name)).unwrap_or_default();
            names.insert(receiver.name.clone());
        }
        unique.push(receiver);
    }
    Ok(unique)
}

/// Replaces the name of a credential by its content.
fn resolve(key: &str, place: &str, value: &mut String) -> Result<(), ConfigError> {
    let refuse = |why: String| ConfigError(format!("in `{key}` of {place}: {why}"));
    let Some(credential) = value.strip_prefix(CREDENTIAL) else { return Ok(()) };
    if !is_name(credential) {
        return Err(refuse("expected \"credential:NAME\" with a name of letters, digits and -_.".into()));
    }
    let path = secret::credential(credential);
    let way_out = format_args!("set `LoadCredential={credential}:FILE` in cowbell.service");
    let text = secret::read(&path, way_out).map_err(refuse)?;
    if key == "url" && !is_address(&text) {
        return Err(refuse(format!("{} holds no http:// or https:// address", path.display())));
    }
    *value = text;
    Ok(())
}

/// The host of a URL.
fn shown_url(url: &str) -> String {
    if url.starts_with(CREDENTIAL) {
        return url.into();
    }
    let Ok(url) = url.parse::<reqwest::Url>() else { return HIDDEN.into() };
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    format!("{}://{}{port}/{HIDDEN}", url.scheme(), url.host_str().unwrap_or_default())
}

impl TryFrom<String> for Address {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        match is_address(&url) || url.strip_prefix(CREDENTIAL).is_some_and(is_name) {
            true => Ok(Self(url)),
            false => Err(
                "`url`: expected an http:// or https:// address, or \"credential:NAME\" with a name of letters, digits and -_.",
            ),
        }
    }
}

impl TryFrom<String> for Server {
    type Error = String;

    fn try_from(server: String) -> Result<Self, String> {
        let url = server.parse::<reqwest::Url>();
        let is_server = url.is_ok_and(|url| {
            matches!(url.scheme(), "smtp" | "smtps")
                && url.has_host()
                && url.username().is_empty()
                && matches!(url.path(), "" | "/")
        });
        let expected = "`server`: expected smtp://HOST:PORT (with STARTTLS) or smtps://HOST:PORT, without user and password";
        is_server.then_some(Self(server)).ok_or_else(|| expected.into())
    }
}

impl TryFrom<String> for Repeat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let length = text.parse::<SignedDuration>().ok().and_then(|length| Duration::try_from(length).ok());
        let length = length.filter(|length| *length >= Duration::from_secs(60));
        let expected =
            || format!("`repeat`: expected \"never\" or at least 1min, such as \"1h\", but found {text:?}");
        Ok(Self(Some(length.ok_or_else(expected)?)))
    }
}

impl TryFrom<String> for QuietHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
        let times = text.split_once('-').and_then(|(from, to)| Some((time(from)?, time(to)?)));
        match times {
            Some((from, to)) if from != to => Ok(Self { from, to }),
            _ => Err(format!("`quiet_hours`: expected times such as \"22:00-07:00\", but found {text:?}")),
        }
    }
}

impl QuietHours {
    pub fn contains(self, time: Time) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&time)
        } else {
            time >= self.from || time < self.to
        }
    }
}

fn is_address(text: &str) -> bool {
    let url = text.parse::<reqwest::Url>();
    url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Whether systemd may have a credential of this name, which becomes a file name.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(text: &str) -> Receiver {
        toml::from_str(text).unwrap()
    }

    fn refused(text: &str, part: &str) {
        let error = toml::from_str::<Receiver>(text).unwrap_err().to_string();
        assert!(error.contains(part), "expected {part:?} in {error}");
    }

    #[test]
    fn a_receiver_is_shown_without_its_secrets() {
        for (text, expected) in [
            (
                "kind = \"webhook\"\nurl = \"https://me:hunter2@hooks.example:8443/a/hunter2?key=hunter2#hunter2\"",
                "https://hooks.example:8443/…",
            ),
            ("kind = \"webhook\"\nurl = \"http://[::1]/hunter2\"", "http://[::1]/…"),
            ("kind = \"webhook\"\nurl = \"credential:webhook\"", "credential:webhook"),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\nheaders = { X-Key = \"hunter2\" }",
                "{\"X-Key\": \"…\"}",
            ),
            ("kind = \"webhook\"\nurl = \"http://x\"\ntemplate = '{\"key\": \"hunter2\"}'", "Some(\"…\")"),
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
            assert!(shown.contains(expected) && !shown.contains("hunter2"), "expected {expected} in {shown}");
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
            let unique = with_unique_names(receivers.collect());
            unique.map(|receivers| receivers.into_iter().map(|receiver| receiver.name).collect::<Vec<_>>())
        };
        let usual = "webhook at hooks.example";
        assert_eq!(named(&["", "", ""]).unwrap(), [usual, &format!("{usual} (2)"), &format!("{usual} (3)")]);
        assert!(named(&["pager", "pager"]).unwrap_err().contains("have the name \"pager\""));
        assert_eq!(receiver("kind = \"email\"\nto = \"a@example.com\"").name, "email to a@example.com");
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_is_allowed() {
        for (text, part) in [
            ("kind = \"webhook\"", "needs a `url`"),
            ("kind = \"command\"", "expected a program and its arguments"),
            ("kind = \"email\"", "needs `to`"),
            ("kind = \"email\"\nto = \"nobody\"", "expected addresses such as \"dba@example.com\""),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nurl = \"http://x\"",
                "`url` does not belong to kind = \"email\": expected `to`",
            ),
            ("kind = \"email\"\nto = \"a@b.c\"\nuser = \"me\"", "expected both or neither"),
            ("kind = \"email\"\nto = \"a@b.c\"\nserver = \"mail.example\"", "expected smtp://HOST:PORT"),
            ("kind = \"email\"\nto = \"a@b.c\"\nseverity = \"error\"", "expected `warning` or `critical`"),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nvolumes = \"mysql\"",
                "expected a pattern of volumes such as",
            ),
            ("kind = \"email\"\nto = \"a@b.c\"\nquiet_hours = \"at night\"", "such as \"22:00-07:00\""),
            ("kind = \"email\"\nto = \"a@b.c\"\nrepeat = \"1s\"", "\"never\" or at least 1min"),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\nheaders = { \"a b\" = \"\" }",
                "expected names of letters",
            ),
            ("kind = \"webhook\"\nurl = \"http://x\"\ntemplate = \"{{ host\"", "`template`: "),
        ] {
            refused(text, part);
        }
    }

    #[test]
    fn quiet_hours_may_include_midnight() {
        let hours = |text: &str| QuietHours::try_from(text.to_string()).unwrap();
        let at = |hour, minute| Time::constant(hour, minute, 0, 0);
        for (text, time, expected) in [
            ("22:00-07:00", at(23, 0), true),
            ("22:00-07:00", at(6, 59), true),
            ("22:00-07:00", at(7, 0), false),
            ("01:00-05:00", at(0, 59), false),
            ("01:00-05:00", at(1, 0), true),
        ] {
            assert_eq!(hours(text).contains(time), expected, "{text} {time}");
        }
    }

    #[test]
    fn a_name_of_a_credential_names_no_other_file() {
        for name in ["webhook", "on-call_2.url"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "../token", "a/b", "a b", "ä"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
