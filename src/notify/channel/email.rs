//! Sends messages by SMTP.

use std::error::Error as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use jiff::Timestamp;
use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};
use lettre::message::{Mailbox, Mailboxes, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

use super::super::message::Message;
use super::resolver::Resolver;
use super::{Failed, TIME_LIMIT, reason};
use crate::config::Email as Settings;

/// A server that is ready to connect to. Its certificates and addresses are in memory, since the disk may hang.
pub struct Email {
    server: Server,
    from: Mailbox,
    to: Mailboxes,
}

struct Server {
    host: String,
    port: u16,
    tls: Tls,
    hello: ClientId,
    login: Option<Credentials>,
    resolver: Arc<Resolver>,
}

impl Email {
    pub fn new(settings: &Settings, host: &str) -> Result<Self, String> {
        let to = settings
            .to
            .parse()
            .map_err(|error| format!("`to` is no address: {error}"))?;
        Ok(Self {
            server: Server::new(settings, host)?,
            from: sender(settings.from.as_deref(), host)?,
            to,
        })
    }

    pub async fn send(&self, message: &Message) -> Result<String, Failed> {
        let letter = self.letter(message, Timestamp::now());
        let letter = letter
            .map_err(|error| Failed::refused(format!("cannot write the message: {error}")))?;
        let (envelope, letter) = (letter.envelope(), letter.formatted());
        match self.server.send(envelope, &letter).await {
            Err(Refused {
                is_of_mailbox: true,
                ..
            }) if envelope.to().len() > 1 => self.send_to_each(envelope, &letter).await,
            result => result.map_err(|refused| refused.failed),
        }
    }

    /// One mailbox that is refused does not keep the letter from the others.
    async fn send_to_each(&self, all: &Envelope, letter: &[u8]) -> Result<String, Failed> {
        let (mut answers, mut refused) = (Vec::new(), Vec::new());
        for mailbox in all.to() {
            let envelope = Envelope::new(all.from().cloned(), vec![mailbox.clone()]);
            let envelope = envelope.map_err(|error| Failed::refused(error.to_string()))?;
            match self.server.send(&envelope, letter).await {
                Ok(answer) => answers.push(format!("{mailbox}: {answer}")),
                Err(Refused { failed, .. }) => refused.push((mailbox, failed)),
            }
        }
        let is_refusal = answers.is_empty() && refused.iter().all(|(_, failed)| failed.is_refusal);
        let is_taken = !answers.is_empty();
        answers.extend(
            refused
                .iter()
                .map(|(mailbox, failed)| format!("{mailbox}: {}", failed.sentence)),
        );
        let sentence = answers.join("; ");
        if is_taken {
            Ok(sentence)
        } else {
            Err(Failed {
                is_refusal,
                sentence,
            })
        }
    }

    /// All messages about one alert are one thread: each refers to the same ID.
    fn letter(
        &self,
        message: &Message,
        now: Timestamp,
    ) -> Result<lettre::Message, lettre::error::Error> {
        let (key, domain) = (name(&message.key(&message.first)), self.from.email.domain());
        let thread = format!("<{key}@{domain}>");
        // The ID of this one differs from that of every repeat.
        let id = format!("<{key}-{}@{domain}>", now.as_nanosecond());
        let subject = message
            .title()
            .replace(|letter: char| letter.is_control(), " ");
        let letter = lettre::Message::builder()
            .from(self.from.clone())
            .subject(subject)
            .message_id(Some(id));
        let letter = self.to.iter().cloned().fold(letter, MessageBuilder::to);
        letter
            .in_reply_to(thread.clone())
            .references(thread)
            // Other programs send no notice of absence.
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".into(),
            ))
            .header(MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN)
            .body(message.text())
    }
}

/// The configured sender, or cowbell on this host, if its name can be in an address.
fn sender(from: Option<&str>, host: &str) -> Result<Mailbox, String> {
    if let Some(from) = from {
        return from
            .parse()
            .map_err(|error| format!("`from` {from:?} is no address: {error}"));
    }
    let usual = format!("cowbell <cowbell@{host}>").parse();
    usual
        .or_else(|_| "cowbell <cowbell@localhost>".parse())
        .map_err(|error| format!("`from`: {error}"))
}

impl Server {
    fn new(settings: &Settings, host: &str) -> Result<Self, String> {
        let url: reqwest::Url = settings
            .server
            .parse()
            .map_err(|error| format!("`server`: {error}"))?;
        let server = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here =
            server == "localhost" || server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let tls = || {
            TlsParameters::new(server.into())
                .map_err(|error| format!("`server`: {}", reason::of(&error)))
        };
        let (tls, port) = match url.scheme() {
            "smtps" => (Tls::Wrapper(tls()?), 465),
            // What stays on this host need not be encrypted, and its certificate is seldom for localhost.
            _ if is_here => (Tls::None, 25),
            _ => (Tls::Required(tls()?), 587),
        };
        let credentials =
            |(user, password): &(String, String)| Credentials::new(user.clone(), password.clone());
        Ok(Self {
            host: server.into(),
            port: url.port().unwrap_or(port),
            tls,
            hello: hello(host),
            login: settings.login.as_ref().map(credentials),
            resolver: Resolver::of(&settings.server),
        })
    }

    /// Returns its answer.
    async fn send(&self, envelope: &Envelope, letter: &[u8]) -> Result<String, Refused> {
        let found = self.resolver.find(&self.host).await;
        let mut result = Err(Refused::without_contact(match &found {
            Ok(_) => format!("{} has no address", self.host),
            Err(error) => format!("cannot find the address of {}: {error}", self.host),
        }));
        for address in found.into_iter().flatten() {
            result = self.send_at(address.ip(), envelope, letter).await;
            if !matches!(
                result,
                Err(Refused {
                    is_unreachable: true,
                    ..
                })
            ) {
                break;
            }
        }
        result
    }

    async fn send_at(
        &self,
        ip: IpAddr,
        envelope: &Envelope,
        letter: &[u8],
    ) -> Result<String, Refused> {
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(ip.to_string())
            .port(self.port)
            .tls(self.tls.clone())
            .hello_name(self.hello.clone())
            .timeout(Some(TIME_LIMIT));
        if let Some(login) = &self.login {
            builder = builder.credentials(login.clone());
        }
        let answer = builder
            .build()
            .send_raw(envelope, letter)
            .await
            .map_err(|error| Refused::by(&error))?;
        let text = answer.message().collect::<Vec<_>>().join(" ");
        Ok(format!("{} {text}", answer.code()))
    }
}

/// The greeting: servers require a name with a domain, or an address.
fn hello(host: &str) -> ClientId {
    let name = name(host);
    match name.trim_matches('.').contains('.') {
        true => ClientId::Domain(name),
        false => ClientId::Ipv4(Ipv4Addr::LOCALHOST),
    }
}

/// The letters that may be in an ID and in a greeting.
fn name(text: &str) -> String {
    let is_allowed = |letter: &char| letter.is_ascii_alphanumeric() || "-.".contains(*letter);
    text.chars().filter(is_allowed).collect()
}

/// Why a server did not take a letter.
struct Refused {
    failed: Failed,
    /// Whether another mailbox may be accepted.
    is_of_mailbox: bool,
    /// Whether another address of the server may be reached.
    is_unreachable: bool,
}

impl Refused {
    fn without_contact(sentence: String) -> Self {
        Self {
            failed: Failed::refused(sentence),
            is_of_mailbox: false,
            is_unreachable: true,
        }
    }

    fn by(error: &lettre::transport::smtp::Error) -> Self {
        if let Some(code) = error.status() {
            let text = error
                .source()
                .map_or_else(String::new, |text| format!(": {text}"));
            let failed = Failed::refused(format!("it answers {code}{text}"));
            let is_of_mailbox = matches!(u16::from(code), 450..=452 | 550..=554);
            return Self {
                failed,
                is_of_mailbox,
                is_unreachable: false,
            };
        }
        // Its kind is not public, but its text begins with that.
        if error.to_string().starts_with("Connection error") {
            return Self::without_contact(format!("cannot connect: {}", reason::of(error)));
        }
        let is_refusal = error.is_tls() || error.is_client();
        let failed = Failed {
            is_refusal,
            sentence: reason::of(error),
        };
        Self {
            failed,
            is_of_mailbox: false,
            is_unreachable: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_message;
    use super::*;
    use crate::alert::AlertText;

    fn letter(message: &Message) -> String {
        let settings = Settings {
            to: "dba@example.com, Night Shift <night@example.com>".into(),
            from: None,
            server: "smtp://localhost:25".into(),
            login: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let email = Email::new(&settings, &message.host).unwrap();
        String::from_utf8(email.letter(message, Timestamp::now()).unwrap().formatted()).unwrap()
    }

    /// The names of all headers.
    fn headers(letter: &str) -> Vec<&str> {
        let (head, _) = letter.split_once("\r\n\r\n").unwrap();
        let lines = head
            .split("\r\n")
            .filter(|line| !line.starts_with([' ', '\t']));
        lines.map(|line| line.split_once(": ").unwrap().0).collect()
    }

    const HEADERS: [&str; 11] = [
        "From",
        "Subject",
        "Message-ID",
        "To",
        "In-Reply-To",
        "References",
        "Auto-Submitted",
        "Content-Type",
        "Content-Transfer-Encoding",
        "Date",
        "MIME-Version",
    ];

    fn has_usual_headers(letter: &str) {
        let mut found = headers(letter);
        let mut expected = HEADERS.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{letter}");
    }

    #[test]
    fn a_letter_says_where_what_and_since_when() {
        let letter = letter(&test_message("db1"));
        for part in [
            "From: cowbell <cowbell@db1>\r\n",
            "To: dba@example.com, \"Night Shift\" <night@example.com>\r\n",
            "Subject: db1: TEST: warning: snapshot fill of vg0/test\r\n",
            "This is a test of cowbell on db1",
        ] {
            assert!(letter.contains(part), "expected {part:?} in {letter}");
        }
        has_usual_headers(&letter);
    }

    #[test]
    fn hostile_names_add_no_header_and_no_line_to_the_dialogue() {
        for name in [
            "x\r\nBcc: thief@example.com\r\n\r\nhello",
            "x\n.\nMAIL FROM:<a@b.c>",
            "\u{2028}ä\u{0}é\u{85}",
            "a<b>c@d",
        ] {
            let mut message = test_message(name);
            message.first.alert.lv = name.into();
            message.first.alert.text = AlertText::new(format!("{name}\r\n.\r\nQUIT\r\n"), "");
            let letter = letter(&message);
            has_usual_headers(&letter);
            let (head, _) = letter.split_once("\r\n\r\n").unwrap();
            assert!(
                head.lines().all(|line| !line.is_empty() && line.is_ascii()),
                "{letter}"
            );
        }
    }

    #[test]
    fn a_greeting_is_a_name_with_a_domain_or_an_address() {
        for (host, expected) in [
            ("db1.example.com", "db1.example.com"),
            ("db1", "[127.0.0.1]"),
            ("", "[127.0.0.1]"),
            ("ä.", "[127.0.0.1]"),
        ] {
            assert_eq!(hello(host).to_string(), expected, "{host:?}");
        }
    }

    #[test]
    fn messages_about_one_alert_are_one_thread() {
        let mut message = test_message("db1");
        let line = |letter: &str, name: &str| {
            letter
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap()
                .to_string()
        };
        let first = letter(&message);
        message.first.alert.severity = crate::alert::Severity::Critical;
        let second = letter(&message);
        assert_eq!(line(&first, "References"), line(&second, "References"));
        assert_ne!(line(&first, "Message-ID"), line(&second, "Message-ID"));
    }
}
