//! What receivers share of the network: the HTTP client, what answers mean, the look-up of addresses, and why a connection
//! failed.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response};
use rustls::CertificateError;
use tokio::net::lookup_host;

use super::Failure;

/// After that, the last known addresses are used.
const RESOLVER_PATIENCE: Duration = Duration::from_millis(500);
/// A receiver may ask to be left alone for this long.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Bytes that are read of an error's text, and the time for it.
const LONGEST_TEXT: usize = 1_000;
const TEXT_TIMEOUT: Duration = Duration::from_secs(1);

/// A host without certificates can use `http` addresses.
pub fn client(url: &str) -> Result<Client, String> {
    let builder = || {
        Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Resolver::of(url))
    };
    let without_certificates = || builder().tls_certs_only([]).build();
    let client = if url.starts_with("https:") {
        builder().build().or_else(|_| without_certificates())
    } else {
        without_certificates()
    };
    client.map_err(|error| format!("cannot create an HTTP client: {error}"))
}

/// A failed request. An error can name the URL, which may be a secret; the reason at its end does not.
pub fn broken(error: &reqwest::Error) -> Failure {
    let why = reason(error);
    if error.is_connect() {
        Failure::refused(format!("cannot connect: {why}"))
    } else {
        Failure::unsure(format!("the connection broke: {why}"))
    }
}

/// What an answer other than success says. Redirects are failures: they could send a secret to another host.
pub async fn refusal(answer: Response) -> String {
    let status = answer.status();
    if status.is_redirection() {
        return format!(
            "it answers {status}, and redirects are not followed: set its final address"
        );
    }
    let text = tokio::time::timeout(TEXT_TIMEOUT, text(answer))
        .await
        .unwrap_or_default();
    format!(
        "it answers {status}{}{text}",
        if text.is_empty() { "" } else { ": " }
    )
}

/// For how long the receiver wants to be left alone, five minutes at most.
pub fn pause(answer: &Response) -> Option<Duration> {
    let pause = retry_after(
        answer.headers().get(RETRY_AFTER)?.to_str().ok()?,
        Timestamp::now(),
    )?;
    Some(pause.min(LONGEST_PAUSE))
}

/// A number of seconds, or a date.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(value).ok()?.timestamp();
    Duration::try_from(at.duration_since(now)).ok()
}

/// The beginning of an answer's text.
async fn text(mut answer: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST_TEXT
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        bytes.extend(chunk);
    }
    bytes.truncate(LONGEST_TEXT);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Looks up a receiver's addresses, and remembers them: a look-up reads files, which may be on a disk that hangs.
pub struct Resolver {
    known: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Resolver {
    /// Looks the host of the URL up at once, in the background.
    pub fn of(url: &str) -> Arc<Self> {
        let resolver = Arc::new(Self {
            known: Arc::default(),
        });
        let host = url
            .parse::<reqwest::Url>()
            .ok()
            .and_then(|url| url.host_str().map(String::from));
        if let Some(host) = host
            && tokio::runtime::Handle::try_current().is_ok()
        {
            tokio::spawn(look_up(host, Arc::clone(&resolver.known)));
        }
        resolver
    }

    /// The addresses of the receiver's host, without port.
    pub fn find(
        &self,
        host: &str,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + use<> {
        let (known, host) = (Arc::clone(&self.known), host.to_string());
        async move {
            // It goes on in the background, for the next time.
            let looking = tokio::spawn(look_up(host, Arc::clone(&known)));
            let remembered = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if remembered.is_empty() {
                return looking.await?;
            }
            match tokio::time::timeout(RESOLVER_PATIENCE, looking).await {
                Ok(Ok(Ok(found))) => Ok(found),
                _ => Ok(remembered),
            }
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.find(name.as_str());
        Box::pin(async move { Ok(Box::new(found.await?.into_iter()) as Addrs) })
    }
}

async fn look_up(host: String, known: Arc<Mutex<Vec<SocketAddr>>>) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = lookup_host((host, 0)).await?.collect();
    *known.lock().unwrap_or_else(PoisonError::into_inner) = found.clone();
    Ok(found)
}

/// The reason at the end of a chain of errors; libraries put general introductions before it.
pub fn reason(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    loop {
        if let Some(sentence) = certificate(last) {
            return sentence;
        }
        match inner(last) {
            Some(inner) => last = inner,
            None => return last.to_string(),
        }
    }
}

/// The error that caused it. An I/O error's own source skips the error that it holds.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let held = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    held.map(|held| held as &(dyn Error + 'static))
        .or_else(|| error.source())
}

fn certificate(error: &(dyn Error + 'static)) -> Option<String> {
    let rustls::Error::InvalidCertificate(why) = error.downcast_ref::<rustls::Error>()? else {
        return None;
    };
    Some(match why {
        CertificateError::UnknownIssuer => {
            "its certificate is not from an authority that this host trusts: add that authority's certificate to \
             /usr/local/share/ca-certificates, run update-ca-certificates and restart cowbell"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name: use the name that the certificate has".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it".into()
        }
        // webpki's own kind is not public.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority: use one that the authority has issued".into()
        }
        other => format!("its certificate is not valid: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_may_ask_for_a_pause_in_seconds_or_until_a_date() {
        let now: Timestamp = "2026-11-23T07:00:00Z".parse().unwrap();
        for (value, expected) in [
            ("120", Some(120)),
            ("Mon, 23 Nov 2026 07:01:30 GMT", Some(90)),
            ("Mon, 23 Nov 2026 06:00:00 GMT", None),
            ("soon", None),
        ] {
            assert_eq!(
                retry_after(value, now),
                expected.map(Duration::from_secs),
                "{value}"
            );
        }
    }

    #[test]
    fn the_reason_is_the_innermost_error() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let outer = io::Error::other(io::Error::other(refused));
        assert_eq!(reason(&outer), "connection refused");
        let error = rustls::Error::InvalidCertificate(CertificateError::Expired);
        assert_eq!(
            reason(&io::Error::other(error)),
            "its certificate has expired: renew it"
        );
    }
}
