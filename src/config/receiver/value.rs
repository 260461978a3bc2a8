//! Values that may be secrets. Each is in the configuration itself, in a credential of systemd, or in a file.

use std::path::Path;

use super::super::secret;

/// Begins a value that is in a credential; the credential's name follows.
const CREDENTIAL: &str = "credential:";
/// Begins a value that is in a file; its absolute path follows.
const FILE: &str = "file:";
/// Stands for a secret.
pub const HIDDEN: &str = "…";

/// Whether it names the place of a value, and so is no secret.
fn is_reference(value: &str) -> bool {
    value.starts_with(CREDENTIAL) || value.starts_with(FILE)
}

/// What a default name says of a URL: its host, or the credential's name.
pub fn name(url: &str) -> String {
    match url
        .strip_prefix(CREDENTIAL)
        .or_else(|| url.strip_prefix(FILE))
    {
        Some(name) => name.into(),
        None => {
            let host = url
                .parse::<reqwest::Url>()
                .ok()
                .and_then(|url| url.host_str().map(String::from));
            format!("at {}", host.unwrap_or_default())
        }
    }
}

/// Replaces the name of a credential or file by its content.
pub fn resolve(key: &str, value: &mut String) -> Result<(), String> {
    let refuse = |why: String| format!("`{key}`: {why}");
    if let Some(name) = value.strip_prefix(CREDENTIAL) {
        if !is_name(name) {
            return Err(refuse(
                "expected \"credential:NAME\" with a name of letters, digits and -_.".into(),
            ));
        }
        let way_out = format!("set `LoadCredential={name}:FILE` in cowbell.service");
        *value = secret::read(&secret::credential(name), way_out).map_err(refuse)?;
    } else if let Some(path) = value.strip_prefix(FILE) {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(refuse(
                "expected \"file:/PATH\" with an absolute path".into(),
            ));
        }
        *value = secret::read(path, "write the secret to it").map_err(refuse)?;
    }
    Ok(())
}

/// The same for a URL.
pub fn resolve_url(key: &str, value: &mut String) -> Result<(), String> {
    let place = is_reference(value).then(|| value.clone());
    resolve(key, value)?;
    match place.filter(|_| !is_address(value)) {
        None => Ok(()),
        Some(place) => Err(format!(
            "`{key}`: {place} holds no http:// or https:// address"
        )),
    }
}

/// The same for a header, where a word may precede it: `Bearer credential:NAME`.
pub fn resolve_header(key: &str, value: &mut String) -> Result<(), String> {
    let Some((before, last)) = value
        .rsplit_once(' ')
        .filter(|(_, last)| is_reference(last))
    else {
        return resolve(key, value);
    };
    let mut last = last.to_string();
    resolve(key, &mut last)?;
    *value = format!("{before} {last}");
    Ok(())
}

/// Hides a secret.
pub fn hide(value: &mut String) {
    if !is_reference(value) {
        *value = HIDDEN.into();
    }
}

/// Hides a header's secret, not where it is.
pub fn hide_header(value: &mut String) {
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
    match value.split_once(' ') {
        Some((word, reference)) if is_word(word) && is_reference(reference) => {}
        _ => hide(value),
    }
}

/// The host of a URL.
pub fn shown_url(url: &str) -> String {
    if is_reference(url) {
        return url.into();
    }
    let Ok(url) = url.parse::<reqwest::Url>() else {
        return HIDDEN.into();
    };
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    format!(
        "{}://{}{port}/{HIDDEN}",
        url.scheme(),
        url.host_str().unwrap_or_default()
    )
}

/// A URL, or where it is.
#[derive(Clone, Debug, serde::Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Address(pub String);

impl TryFrom<String> for Address {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        // `file:///PATH` is an address of another scheme.
        let is_file = url
            .strip_prefix(FILE)
            .is_some_and(|path| path.starts_with('/') && !path.starts_with("//"));
        match is_address(&url) || is_file || url.strip_prefix(CREDENTIAL).is_some_and(is_name) {
            true => Ok(Self(url)),
            false => Err(
                "`url`: expected an http:// or https:// address, \"file:/PATH\", or \"credential:NAME\" with a name of letters, digits and -_.",
            ),
        }
    }
}

/// The part of a URL before the first template.
pub fn fixed(url: &str) -> &str {
    let begins = ["{{", "{%", "{#"]
        .into_iter()
        .filter_map(|sign| url.find(sign));
    begins.min().map_or(url, |begin| &url[..begin])
}

/// Whether it is an HTTP address. Its path and query may be a template, its host may not.
fn is_address(text: &str) -> bool {
    let fixed = fixed(text);
    let has_path = || fixed.splitn(4, '/').count() == 4;
    let url = fixed.parse::<reqwest::Url>();
    let is_http = url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    is_http && (fixed.len() == text.len() || has_path())
}

/// Whether systemd may have a credential of this name, which becomes a file name.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_credential_names_no_other_file() {
        for name in ["webhook", "on-call_2.url"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "../token", "a/b", "a b", "ä"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn the_host_of_an_address_is_fixed() {
        for (url, expected) in [
            ("https://hooks.example/a{{ key }}", true),
            (
                "https://hooks.example/{% if cleared_at %}b{% endif %}",
                true,
            ),
            ("https://{{ host }}/a", false),
            ("https://hooks{{ host }}.example/", false),
            ("https://hooks.example", true),
            ("https://hooks.example?a={b}", true),
            ("https://hooks.example?a={b}{{ key }}", false),
            ("https://hooks.example/{a}{# note #}", true),
            ("ftp://hooks.example/", false),
        ] {
            assert_eq!(is_address(url), expected, "{url}");
        }
    }

    #[test]
    fn a_value_is_read_from_its_file_also_after_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "hunter2\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let mut value = format!("Bearer file:{}", path.display());
        let mut shown = value.clone();
        hide_header(&mut shown);
        assert_eq!(shown, value);
        resolve_header("Authorization", &mut value).unwrap();
        assert_eq!(value, "Bearer hunter2");
        hide_header(&mut value);
        assert_eq!(value, "…");
        let mut value = "file:key".to_string();
        assert!(
            resolve("password", &mut value)
                .unwrap_err()
                .contains("an absolute path")
        );
    }
}
