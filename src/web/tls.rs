//! HTTPS on the addresses of the site, with a certificate that is read again when its files change.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls::{RootCertStore, version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::channel::secret;
use crate::config::{ConfigError, TlsSettings};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Bytes of one file. A chain of certificates has a few thousand.
const LONGEST_FILE: u64 = 1 << 20;

/// What connections are encrypted with.
pub struct Tls {
    settings: TlsSettings,
    current: watch::Sender<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.settings.fmt(formatter)
    }
}

impl Tls {
    /// Reads the files. Fails with a sentence that names the key and the file.
    pub fn open(settings: &TlsSettings) -> Result<Self, ConfigError> {
        let current = watch::Sender::new(Arc::new(read(settings)?));
        Ok(Self {
            settings: settings.clone(),
            current,
        })
    }

    /// Agrees with a client, within a time limit.
    pub async fn accept<Stream: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: Stream,
        limit: Duration,
    ) -> io::Result<TlsStream<Stream>> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.borrow()));
        timeout(limit, acceptor.accept(stream)).await?
    }

    /// Takes changed files, until the token is cancelled. Files that are wrong change nothing.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let mut seen = self.look().await;
        while shutdown
            .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
            .await
            .is_some()
        {
            let now = self.look().await;
            if now == seen {
                continue;
            }
            seen = now;
            let settings = self.settings.clone();
            match spawn_blocking(move || read(&settings)).await {
                Ok(Ok(config)) => {
                    self.current.send_replace(Arc::new(config));
                    tracing::info!("took the new certificate");
                }
                Ok(Err(why)) => tracing::error!("kept the old certificate: {why}"),
                // The program stops.
                Err(_) => return,
            }
        }
    }

    /// When which files changed. The disk may take its time.
    async fn look(&self) -> Vec<Option<(u64, i64, i64)>> {
        let paths: Vec<_> = self.settings.files().map(Path::to_path_buf).collect();
        let stamp = |path| {
            let about = std::fs::metadata(path).ok()?;
            Some((about.ino(), about.mtime(), about.mtime_nsec()))
        };
        let stamps = spawn_blocking(move || paths.into_iter().map(stamp).collect());
        stamps.await.unwrap_or_default()
    }
}

fn read(settings: &TlsSettings) -> Result<ServerConfig, ConfigError> {
    let refuse = |key: &str, path: &Path, why: String| {
        ConfigError::table("tls", &format!("`{key}`: {} {why}", path.display()))
    };
    let certificates = |key, path: &Path| {
        let cannot = |error| refuse(key, path, format!("cannot be read: {error}"));
        let mut pem = Vec::new();
        let file = secret::open_regular(path).map_err(cannot)?;
        file.take(LONGEST_FILE)
            .read_to_end(&mut pem)
            .map_err(cannot)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            _ => Err(refuse(
                key,
                path,
                "holds no certificate: expected PEM (BEGIN CERTIFICATE)".into(),
            )),
        }
    };
    let chain = certificates("certificate", &settings.certificate.0)?;
    let key = secret::read_file(&settings.key.0, "write the key to it", LONGEST_FILE);
    let key = key.map_err(|why| ConfigError::table("tls", &format!("`key`: {why}")))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
        let why = "holds no private key: expected PEM (BEGIN PRIVATE KEY) without a password";
        refuse("key", &settings.key.0, why.into())
    })?;
    let builder = ServerConfig::builder_with_protocol_versions(&[&version::TLS13, &version::TLS12]);
    let builder =
        match &settings.clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates("clients", &path.0)?);
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| {
                    refuse("clients", &path.0, format!("cannot be used: {error}"))
                })?)
            }
        };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let why = format!("does not fit `key`: {error}");
        refuse("certificate", &settings.certificate.0, why)
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn a_certificate_that_has_no_end_is_refused() {
        let config = parse(
            Path::new("cowbell.toml"),
            "[tls]\ncertificate = \"/dev/zero\"\nkey = \"/dev/zero\"\n",
        )
        .unwrap();
        let why = Tls::open(&config.tls.unwrap()).unwrap_err().to_string();
        assert_eq!(
            why,
            "in [tls]: `certificate`: /dev/zero cannot be read: it is not a regular file; name one"
        );
    }
}
