//! Sends messages by SMTP.

use anyhow::Context;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Mailboxes};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

use super::super::message::{AlertState, Message};
use super::TIME_LIMIT;
use crate::config::Email as Settings;

/// A prepared connection to a server.
pub struct Email {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    to: Mailboxes,
}

impl Email {
    pub fn new(settings: &Settings, host: &str) -> Result<Self, String> {
        let from = settings.from.clone().unwrap_or_else(|| format!("cowbell <cowbell@{host}>"));
        let from = from.parse().map_err(|error| format!("`from` {from:?} is no address: {error}"))?;
        let to = settings.to.parse().map_err(|error| format!("`to` is no address: {error}"))?;
        Ok(Self { transport: transport(settings, host)?, from, to })
    }

    pub async fn send(&self, message: &Message) -> anyhow::Result<String> {
        let letter = self.letter(message).context("cannot write the message")?;
        let answer = self.transport.send(letter).await?;
        let text = answer.message().collect::<Vec<_>>().join(" ");
        Ok(format!("{} {text}", answer.code()))
    }

    /// All messages about one alert are one thread: each refers to the same ID.
    fn letter(&self, message: &Message) -> Result<lettre::Message, lettre::error::Error> {
        let alert = &message.first.alert;
        let thread = format!("<{}.{}@cowbell>", alert.id, alert.raised_at.as_millisecond());
        let to = self.to.iter().cloned();
        let letter = lettre::Message::builder().from(self.from.clone()).subject(subject(message));
        let letter = to.fold(letter, lettre::message::MessageBuilder::to);
        letter
            .in_reply_to(thread.clone())
            .references(thread)
            .header(ContentType::TEXT_PLAIN)
            .body(body(message))
    }
}

fn transport(settings: &Settings, host: &str) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let url: reqwest::Url = settings.server.parse().map_err(|error| format!("`server`: {error}"))?;
    let server = url.host_str().unwrap_or_default();
    let bare = server.trim_matches(['[', ']']);
    let is_here = bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let tls = || TlsParameters::new(bare.into()).map_err(|error| format!("`server`: {error}"));
    let (tls, port) = match url.scheme() {
        "smtps" => (Tls::Wrapper(tls()?), 465),
        _ if is_here && settings.login.is_none() => (Tls::None, 25),
        _ => (Tls::Required(tls()?), 587),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(bare)
        .port(url.port().unwrap_or(port))
        .tls(tls)
        .hello_name(ClientId::Domain(host.into()))
        .timeout(Some(TIME_LIMIT));
    if let Some((user, password)) = &settings.login {
        builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
    }
    Ok(builder.build())
}

/// `db1: critical: snapshot fill of vg0/mysql_snapshot and 2 more`
fn subject(message: &Message) -> String {
    let of = title(&message.first);
    let more = match message.others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    // A name cannot add a header.
    format!("{}: {of}{more}", message.host).replace(|letter: char| letter.is_control(), " ")
}

fn title(state: &AlertState) -> String {
    let alert = &state.alert;
    let status = if state.is_over() { "cleared" } else { alert.severity.text() };
    format!("{status}: {} of {}/{}", alert.rule.text(), alert.vg, alert.lv)
}

fn body(message: &Message) -> String {
    let paragraph = |state: &AlertState| {
        let alert = &state.alert;
        let raised = alert.raised_at.strftime("%Y-%m-%d %H:%M:%S UTC");
        let cleared = alert.cleared_at.map(|at| at.strftime(", cleared %Y-%m-%d %H:%M:%S UTC").to_string());
        format!("{}\n{}\nRaised {raised}{}.\n", title(state), alert.sentence, cleared.unwrap_or_default())
    };
    message.alerts().map(paragraph).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::test_message;
    use super::*;

    fn letter(message: &Message) -> String {
        let settings = Settings {
            to: "dba@example.com, Night Shift <night@example.com>".into(),
            from: None,
            server: "smtp://localhost:25".into(),
            login: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        let email = Email::new(&settings, "db1").unwrap();
        String::from_utf8(email.letter(message).unwrap().formatted()).unwrap()
    }

    #[test]
    fn a_letter_says_where_what_and_since_when() {
        let letter = letter(&test_message("db1"));
        for part in [
            "From: cowbell <cowbell@db1>\r\n",
            "To: dba@example.com, \"Night Shift\" <night@example.com>\r\n",
            "Subject: db1: warning: snapshot fill of vg0/test\r\n",
            "This is a test of cowbell on db1",
        ] {
            assert!(letter.contains(part), "expected {part:?} in {letter}");
        }
    }

    #[test]
    fn a_hostile_name_adds_no_header() {
        let mut message = test_message("db1");
        message.first.alert.lv = "x\r\nBcc: thief@example.com\r\n\r\nhello".into();
        let letter = letter(&message);
        let (head, _) = letter.split_once("\r\n\r\n").unwrap();
        let names: Vec<&str> =
            head.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
        assert!(!names.contains(&"Bcc"), "{letter}");
    }
}
