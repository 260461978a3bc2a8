//! An entry of `[[notify]]` as in the file, and its checks.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::times::Repeat;
use super::value::Address;
use super::{Channel, Email, Place, QuietHours, REPEAT, Receiver, Severity, Webhook, shortened};
use crate::config::Pattern;
use crate::config::paths::{AbsolutePath, LONGEST_PATH};

const CONTENT_TYPE: &str = "application/json";
/// The mail server of this host.
const LOCAL_SERVER: &str = "smtp://localhost:25";

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Webhook,
    Command,
    Email,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Command => "command",
            Self::Email => "email",
        }
    }

    /// The keys of this kind, besides those of all kinds.
    fn keys(self) -> &'static str {
        match self {
            Self::Webhook => {
                "`url`, `headers`, `values`, `content_type`, `template`, `template_file` and `split`"
            }
            Self::Command => "`command`",
            Self::Email => "`to`, `from`, `server`, `user` and `password`",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    kind: Kind,
    name: Option<String>,
    severity: Option<Severity>,
    volumes: Option<Pattern>,
    quiet_hours: Option<QuietHours>,
    repeat: Option<Repeat>,
    url: Option<Address>,
    headers: Option<BTreeMap<String, String>>,
    values: Option<BTreeMap<String, String>>,
    content_type: Option<String>,
    template: Option<String>,
    template_file: Option<AbsolutePath<LONGEST_PATH>>,
    split: Option<bool>,
    command: Option<Vec<String>>,
    to: Option<String>,
    from: Option<String>,
    server: Option<Server>,
    user: Option<String>,
    password: Option<String>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Server(String);

impl TryFrom<Entry> for Receiver {
    type Error = String;

    fn try_from(mut entry: Entry) -> Result<Self, String> {
        entry.check_keys()?;
        let channel = match entry.kind {
            Kind::Webhook => Channel::Webhook(Box::new(entry.webhook()?)),
            Kind::Command => Channel::Command(entry.command()?),
            Kind::Email => Channel::Email(entry.email()?),
        };
        let name = entry.name.unwrap_or_else(|| channel.usual_name());
        if name.is_empty() || shortened(&name) != name || name.chars().any(char::is_control) {
            return Err("`name`: expected 1 to 100 letters".into());
        }
        Ok(Self {
            name,
            place: Place::default(),
            severity: entry.severity.unwrap_or(Severity::Warning),
            volumes: entry.volumes,
            quiet_hours: entry.quiet_hours,
            repeat: entry.repeat.map_or(Some(REPEAT), |repeat| repeat.0),
            channel,
        })
    }
}

impl Entry {
    /// Refuses the keys of another kind.
    fn check_keys(&self) -> Result<(), String> {
        let keys = [
            (Kind::Webhook, "url", self.url.is_some()),
            (Kind::Webhook, "headers", self.headers.is_some()),
            (Kind::Webhook, "values", self.values.is_some()),
            (Kind::Webhook, "content_type", self.content_type.is_some()),
            (Kind::Webhook, "template", self.template.is_some()),
            (Kind::Webhook, "template_file", self.template_file.is_some()),
            (Kind::Webhook, "split", self.split.is_some()),
            (Kind::Command, "command", self.command.is_some()),
            (Kind::Email, "to", self.to.is_some()),
            (Kind::Email, "from", self.from.is_some()),
            (Kind::Email, "server", self.server.is_some()),
            (Kind::Email, "user", self.user.is_some()),
            (Kind::Email, "password", self.password.is_some()),
        ];
        match keys
            .iter()
            .find(|(kind, _, is_there)| *is_there && *kind != self.kind)
        {
            None => Ok(()),
            Some((_, key, _)) => {
                let (kind, keys) = (self.kind.text(), self.kind.keys());
                Err(format!(
                    "`{key}` does not belong to kind = \"{kind}\": expected {keys}"
                ))
            }
        }
    }

    fn webhook(&mut self) -> Result<Webhook, String> {
        let url = self.url.take().ok_or("kind = \"webhook\" needs a `url`")?.0;
        if self.template.is_some() && self.template_file.is_some() {
            return Err("`template` and `template_file`: expected one of them".into());
        }
        let headers = self.headers.take().unwrap_or_default();
        headers
            .iter()
            .try_for_each(|(name, value)| check_header(name, value))?;
        Ok(Webhook {
            url,
            headers,
            values: self.values.take().unwrap_or_default(),
            content_type: self
                .content_type
                .take()
                .unwrap_or_else(|| CONTENT_TYPE.into()),
            template: self.template.take(),
            template_file: self.template_file.take().map(|path| path.0),
            is_split: self.split.unwrap_or(false),
        })
    }

    fn command(&mut self) -> Result<Vec<String>, String> {
        let command = self
            .command
            .take()
            .filter(|command| command.first().is_some_and(|it| !it.is_empty()));
        let expected =
            "`command`: expected a program and its arguments such as [\"/path\", \"argument\"]";
        command.ok_or_else(|| expected.into())
    }

    fn email(&mut self) -> Result<Email, String> {
        let to = self.to.take().ok_or("kind = \"email\" needs `to`")?;
        let from = self.from.take();
        let expected =
            || format!("`to`: expected addresses such as \"dba@example.com\", but found {to:?}");
        let mailboxes = to.parse::<lettre::message::Mailboxes>();
        let mailboxes = mailboxes.map_err(|error| format!("{}: {error}", expected()))?;
        if mailboxes.iter().next().is_none() {
            return Err(expected());
        }
        if let Some(from) = &from {
            from.parse::<lettre::message::Mailbox>().map_err(|error| {
                format!(
                    "`from`: expected an address such as \"dba@example.com\", but found {from:?}: {error}"
                )
            })?;
        }
        let login = match (self.user.take(), self.password.take()) {
            (None, None) => None,
            (Some(user), Some(password)) => Some((user, password)),
            _ => return Err("`user` and `password`: expected both or neither".into()),
        };
        let server = self
            .server
            .take()
            .map_or_else(|| LOCAL_SERVER.into(), |server| server.0);
        Ok(Email {
            to,
            from,
            server,
            login,
        })
    }
}

pub fn check_header(name: &str, value: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_allowed) {
        return Err(format!(
            "`headers`: expected names of letters, digits, - and _, but found {name:?}"
        ));
    }
    match value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        true => Ok(()),
        false => Err(format!(
            "`headers`: expected printable ASCII as the value of {name}"
        )),
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
        is_server
            .then_some(Self(server))
            .ok_or_else(|| expected.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, part: &str) {
        let error = toml::from_str::<Receiver>(text).unwrap_err().to_string();
        assert!(error.contains(part), "expected {part:?} in {error}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_is_allowed() {
        for (text, part) in [
            ("kind = \"webhook\"", "needs a `url`"),
            ("kind = \"command\"", "expected a program and its arguments"),
            (
                "kind = \"command\"\ncommand = [\"\"]",
                "expected a program and its arguments",
            ),
            ("kind = \"email\"", "needs `to`"),
            (
                "kind = \"email\"\nto = \"\"",
                "expected addresses such as \"dba@example.com\", but found \"\"",
            ),
            (
                "kind = \"email\"\nto = \"nobody\"",
                "expected addresses such as \"dba@example.com\"",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nfrom = \"a@b.c, d@b.c\"",
                "`from`: expected an address",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nurl = \"http://x\"",
                "`url` does not belong to kind = \"email\": expected `to`",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nuser = \"me\"",
                "expected both or neither",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nserver = \"mail.example\"",
                "expected smtp://HOST:PORT",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nseverity = \"error\"",
                "expected `warning` or `critical`",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nvolumes = \"mysql\"",
                "expected a pattern of volumes such as",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nquiet_hours = \"at night\"",
                "such as \"22:00-07:00\"",
            ),
            (
                "kind = \"email\"\nto = \"a@b.c\"\nrepeat = \"1s\"",
                "\"never\" or at least 1min",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\nheaders = { \"a b\" = \"\" }",
                "expected names of letters",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://{{ host }}/\"",
                "expected an http:// or https://",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\ntemplate_file = \"x\"",
                "expected an absolute path",
            ),
            (
                "kind = \"webhook\"\nurl = \"http://x\"\ntemplate = \"x\"\ntemplate_file = \"/x\"",
                "expected one of them",
            ),
        ] {
            refused(text, part);
        }
    }
}
