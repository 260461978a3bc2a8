//! Looks up a receiver's addresses, and remembers them: a look-up reads files, which may be on a disk that hangs.

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
        let resolver = Arc::new(Self { known: Arc::default() });
        let host = url.parse::<reqwest::Url>().ok().and_then(|url| url.host_str().map(String::from));
        if let Some(host) = host
            && tokio::runtime::Handle::try_current().is_ok()
        {
            tokio::spawn(look_up(host, Arc::clone(&resolver.known)));
        }
        resolver
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let known = Arc::clone(&self.known);
        let host = name.as_str().to_string();
        Box::pin(async move {
            // It goes on in the background, for the next time.
            let looking = tokio::spawn(look_up(host, Arc::clone(&known)));
            let remembered = || {
                let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                (!known.is_empty()).then(|| known.clone())
            };
            let found = match remembered() {
                None => looking.await?,
                Some(addresses) => match tokio::time::timeout(PATIENCE, looking).await {
                    Ok(Ok(Ok(found))) => Ok(found),
                    _ => Ok(addresses),
                },
            };
            Ok(Box::new(found?.into_iter()) as Addrs)
        })
    }
}

async fn look_up(host: String, known: Arc<Mutex<Vec<SocketAddr>>>) -> std::io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = lookup_host((host, 0)).await?.collect();
    *known.lock().unwrap_or_else(PoisonError::into_inner) = found.clone();
    Ok(found)
}
