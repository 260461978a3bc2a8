//! Why a connection failed, in a sentence.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// The reason at the end of a chain of errors; libraries put general introductions before it.
pub fn of(error: &(dyn Error + 'static)) -> String {
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
    fn the_reason_is_the_innermost_error() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let outer = io::Error::other(io::Error::other(refused));
        assert_eq!(of(&outer), "connection refused");
        let error = rustls::Error::InvalidCertificate(CertificateError::Expired);
        assert_eq!(
            of(&io::Error::other(error)),
            "its certificate has expired: renew it"
        );
    }
}
