//! E-mail: a message by SMTP.

use std::error::Error as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue, MIME_VERSION_1_0};
use lettre::message::{Mailbox, Mailboxes, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use reqwest::Url;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::http::{Resolver, reason};
use super::secret::{External, SecretText};
use super::{Delivers, Failure, Message, ReceiverKind, TIME_LIMIT};

/// A message by SMTP.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// One address or more, separated by commas.
    #[serde(deserialize_with = "recipients")]
    to: Mailboxes,
    /// `cowbell@HOST` if `None`.
    #[serde(default, deserialize_with = "sender")]
    from: Option<Mailbox>,
    /// By default the mail server of this host.
    #[serde(default = "local_server", deserialize_with = "server")]
    server: Url,
    user: Option<String>,
    password: Option<SecretText>,
}

fn recipients<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mailboxes, D::Error> {
    let text = String::deserialize(deserializer)?;
    let expected =
        format!("`to`: expected addresses such as \"dba@example.com\", but found {text:?}");
    match text.parse::<Mailboxes>() {
        Ok(mailboxes) if mailboxes.iter().next().is_some() => Ok(mailboxes),
        Ok(_) => Err(D::Error::custom(expected)),
        Err(error) => Err(D::Error::custom(format!("{expected}: {error}"))),
    }
}

fn sender<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mailbox>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let expected = "`from`: expected an address such as \"dba@example.com\"";
    let sender = text.parse().map(Some);
    sender.map_err(|error| D::Error::custom(format!("{expected}, but found {text:?}: {error}")))
}

fn server<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    if let Ok(url) = String::deserialize(deserializer)?.parse::<Url>()
        && matches!(url.scheme(), "smtp" | "smtps")
        && url.has_host()
        && url.username().is_empty()
        && matches!(url.path(), "" | "/")
    {
        return Ok(url);
    }
    Err(D::Error::custom(
        "`server`: expected smtp://HOST:PORT (with STARTTLS) or smtps://HOST:PORT, without user and password",
    ))
}

fn local_server() -> Url {
    Url::parse("smtp://localhost:25").expect("a constant URL")
}

impl ReceiverKind for Email {
    fn usual_name(&self) -> String {
        format!("email to {}", self.to)
    }

    fn check(&self) -> Result<(), String> {
        if self.user.is_some() != self.password.is_some() {
            return Err("`user` and `password`: expected both or neither".into());
        }
        Ok(())
    }

    fn external(&mut self) -> Vec<(&str, &mut dyn External)> {
        match &mut self.password {
            Some(password) => vec![("password", password)],
            None => Vec::new(),
        }
    }

    fn connect(&self, host: &str) -> Result<Box<dyn Delivers>, String> {
        Ok(Box::new(Mailer::new(self, host)?))
    }
}

/// A server that is ready to connect to. Its certificates and addresses are in memory, since the disk may hang.
struct Mailer {
    server: MailServer,
    from: Mailbox,
    to: Mailboxes,
}

struct MailServer {
    host: String,
    port: u16,
    tls: Tls,
    hello: ClientId,
    login: Option<Credentials>,
    resolver: Arc<Resolver>,
}

impl Delivers for Mailer {
    fn deliver<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(self.send(message))
    }
}

impl Mailer {
    fn new(keys: &Email, host: &str) -> Result<Self, String> {
        Ok(Self {
            server: MailServer::new(keys, host)?,
            from: match &keys.from {
                Some(sender) => sender.clone(),
                None => usual_sender(host)?,
            },
            to: keys.to.clone(),
        })
    }

    async fn send(&self, message: &Message) -> Result<String, Failure> {
        let letter = self
            .letter(message, Timestamp::now())
            .map_err(|error| Failure::refused(format!("cannot write the message: {error}")))?;
        let (envelope, letter) = (letter.envelope(), letter.formatted());
        match self.server.send(envelope, &letter).await {
            Err(refused) if refused.is_of_mailbox && envelope.to().len() > 1 => {
                self.send_to_each(envelope, &letter).await
            }
            result => result.map_err(|refused| refused.failure),
        }
    }

    /// One mailbox that is refused does not keep the letter from the others.
    async fn send_to_each(&self, all: &Envelope, letter: &[u8]) -> Result<String, Failure> {
        let (mut answers, mut refusals) = (Vec::new(), Vec::new());
        let mut is_refusal = true;
        for mailbox in all.to() {
            let envelope = Envelope::new(all.from().cloned(), vec![mailbox.clone()])
                .map_err(Failure::refused)?;
            match self.server.send(&envelope, letter).await {
                Ok(answer) => answers.push(format!("{mailbox}: {answer}")),
                Err(Refused { failure, .. }) => {
                    is_refusal &= failure.is_refusal;
                    refusals.push(format!("{mailbox}: {}", failure.sentence));
                }
            }
        }
        let is_taken = !answers.is_empty();
        answers.append(&mut refusals);
        let sentence = answers.join("; ");
        if is_taken {
            return Ok(sentence);
        }
        Err(Failure {
            is_refusal,
            sentence,
        })
    }

    /// All messages about one alert are one thread: each refers to the same ID.
    fn letter(
        &self,
        message: &Message,
        now: Timestamp,
    ) -> Result<lettre::Message, lettre::error::Error> {
        let (key, domain) = (name(&message.first.key), self.from.email.domain());
        let thread = format!("<{key}@{domain}>");
        // The ID of this one differs from that of every repeat.
        let id = format!("<{key}-{}@{domain}>", now.as_nanosecond());
        let subject = message
            .title
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
            .body(message.text.clone())
    }
}

/// cowbell on this host, if its name can be in an address.
fn usual_sender(host: &str) -> Result<Mailbox, String> {
    let usual = format!("cowbell <cowbell@{host}>").parse();
    usual
        .or_else(|_| "cowbell <cowbell@localhost>".parse())
        .map_err(|error| format!("`from`: {error}"))
}

impl MailServer {
    fn new(keys: &Email, host: &str) -> Result<Self, String> {
        let url = &keys.server;
        let server = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here =
            server == "localhost" || server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let tls = || {
            TlsParameters::new(server.into())
                .map_err(|error| format!("`server`: {}", reason(&error)))
        };
        let (tls, port) = match url.scheme() {
            "smtps" => (Tls::Wrapper(tls()?), 465),
            // What stays on this host need not be encrypted, and its certificate is seldom for localhost.
            _ if is_here => (Tls::None, 25),
            _ => (Tls::Required(tls()?), 587),
        };
        let login = keys.user.clone().zip(keys.password.clone());
        Ok(Self {
            host: server.into(),
            port: url.port().unwrap_or(port),
            tls,
            hello: hello(host),
            login: login.map(|(user, password)| Credentials::new(user, password.0)),
            resolver: Resolver::of(url.as_str()),
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
            if !result.as_ref().is_err_and(|refused| refused.is_unreachable) {
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
    if name.trim_matches('.').contains('.') {
        ClientId::Domain(name)
    } else {
        ClientId::Ipv4(Ipv4Addr::LOCALHOST)
    }
}

/// The letters that may be in an ID and in a greeting.
fn name(text: &str) -> String {
    let is_allowed = |letter: &char| letter.is_ascii_alphanumeric() || "-.".contains(*letter);
    text.chars().filter(is_allowed).collect()
}

/// Why a server did not take a letter.
struct Refused {
    failure: Failure,
    /// Whether another mailbox may be accepted.
    is_of_mailbox: bool,
    /// Whether another address of the server may be reached.
    is_unreachable: bool,
}

impl Refused {
    fn without_contact(sentence: String) -> Self {
        Self {
            failure: Failure::refused(sentence),
            is_of_mailbox: false,
            is_unreachable: true,
        }
    }

    fn by(error: &lettre::transport::smtp::Error) -> Self {
        // Its kind is not public, but its text begins with that.
        if error.to_string().starts_with("Connection error") {
            return Self::without_contact(format!("cannot connect: {}", reason(error)));
        }
        let (mut failure, mut is_of_mailbox) = (Failure::unsure(reason(error)), false);
        failure.is_refusal = error.is_tls() || error.is_client();
        if let Some(code) = error.status() {
            let text = error.source().map(|text| format!(": {text}"));
            let text = text.unwrap_or_default();
            failure = Failure::refused(format!("it answers {code}{text}"));
            is_of_mailbox = matches!(u16::from(code), 450..=452 | 550..=554);
        }
        Self {
            failure,
            is_of_mailbox,
            is_unreachable: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::message;
    use super::*;

    fn letter(message: &Message) -> String {
        let keys = "to = \"dba@example.com, Night Shift <night@example.com>\"";
        let keys: Email = toml::from_str(keys).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let email = Mailer::new(&keys, &message.host).unwrap();
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
        let letter = letter(&message("db1", "vg0/test"));
        for part in [
            "From: cowbell <cowbell@db1>\r\n",
            "To: dba@example.com, \"Night Shift\" <night@example.com>\r\n",
            "Subject: db1: warning: snapshot fill of vg0/test\r\n",
            "warning: snapshot fill of vg0/test\r\n",
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
            let mut message = message(name, name);
            message.text += "\r\n.\r\nQUIT\r\n";
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
        let mut message = message("db1", "vg0/test");
        let line = |letter: &str, name: &str| {
            letter
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap()
                .to_string()
        };
        let first = letter(&message);
        message.title = "critical".into();
        let second = letter(&message);
        assert_eq!(line(&first, "References"), line(&second, "References"));
        assert_ne!(line(&first, "Message-ID"), line(&second, "Message-ID"));
    }
}
