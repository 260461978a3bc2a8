//! Removes a receiver's secrets from what it answers: some quote the request.

use crate::config::Channel as Settings;

/// Shorter parts of addresses and arguments are words rather than secrets.
const SHORTEST: usize = 6;
/// Stands for a secret.
const HIDDEN: &str = "…";

/// The secrets of a receiver, the longest first.
pub struct Secrets(Vec<String>);

impl Secrets {
    pub fn of(settings: &Settings) -> Self {
        match settings {
            Settings::Webhook(webhook) => Self::of_request(
                &webhook.url,
                webhook.headers.values().chain(webhook.values.values()),
            ),
            Settings::Command(command) => Self::new(command.iter().skip(1).cloned().collect()),
            Settings::Email(email) => Self::new(
                email
                    .login
                    .iter()
                    .map(|(_, secret)| secret.clone())
                    .collect(),
            ),
        }
    }

    /// Of an address, and of values that may have a word such as `Bearer` before the secret.
    pub fn of_request<'a>(url: &str, values: impl Iterator<Item = &'a String>) -> Self {
        let words = values.flat_map(|value| [Some(&**value), value.rsplit(' ').next()]);
        Self::new(
            words
                .flatten()
                .map(String::from)
                .chain(parts(url))
                .collect(),
        )
    }

    fn new(mut secrets: Vec<String>) -> Self {
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    pub fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.into(), |text: String, secret| {
            text.replace(secret, HIDDEN)
        })
    }
}

/// What follows the host of an address, and what precedes it.
fn parts(url: &str) -> Vec<String> {
    let Ok(url) = url.parse::<reqwest::Url>() else {
        return Vec::new();
    };
    let query = url
        .query_pairs()
        .map(|(_, value)| value.into_owned())
        .collect::<Vec<_>>();
    let path = url.path().split('/').map(String::from);
    let whole = [
        url.path().into(),
        url.password().unwrap_or_default().into(),
        url.username().into(),
    ];
    path.chain(query).chain(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Receiver;

    #[test]
    fn an_answer_that_quotes_the_request_has_no_secret() {
        let receiver: Receiver = toml::from_str(
            "kind = \"webhook\"\nurl = \"https://me:password@x/T00/hunter2?key=hunter3\"\n\
             headers = { Authorization = \"Bearer hunter4\" }\nvalues = { key = \"hunter5\" }\n",
        )
        .unwrap();
        let secrets = Secrets::of(&receiver.channel);
        let quoted =
            "no /T00/hunter2 for hunter3 with Bearer hunter4 (hunter4) and hunter5 of me:password";
        assert_eq!(secrets.hide(quoted), "no … for … with … (…) and … of me:…");
    }
}
