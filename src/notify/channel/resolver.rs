//! Looks up a receiver's addresses, and remembers them: a look-up reads files, which may be on a disk that hangs.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

/// After that, the last known addresses are used.
const PATIENCE: Duration = Duration::from_millis(500);

/// Resolves the name of one receiver.
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
            match tokio::time::timeout(PATIENCE, looking).await {
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
