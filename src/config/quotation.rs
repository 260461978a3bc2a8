//! What an error quotes of the configuration file: the offending line, without values that may be secrets.

/// A line with one of these may hold a secret.
const SECRETS: [&str; 7] = ["url", "command", "secret", "password", "token ", "token=", "://"];
const HIDDEN: &str = "…";

/// The line, or its key alone.
pub fn line(line: &str) -> String {
    let is_key =
        |key: &&str| key.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let key = line.split_once('=').map(|(key, _)| key).filter(is_key);
    let lower = line.to_lowercase();
    // A string without a key is the rest of a longer value.
    let is_harmless = key.is_some() || !line.contains(['"', '\'']);
    match key {
        _ if is_harmless && !SECRETS.iter().any(|word| lower.contains(word)) => line.into(),
        Some(key) => format!("{key}= {HIDDEN}"),
        None => HIDDEN.into(),
    }
}

/// The parser's message, without the string that it quotes.
pub fn message(message: &str) -> String {
    let hidden = message.split_once("string \"").and_then(|(before, rest)| {
        rest.rsplit_once('"').map(|(_, after)| format!("{before}string \"{HIDDEN}\"{after}"))
    });
    hidden.unwrap_or_else(|| message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_quoted_without_secrets() {
        for (text, expected) in [
            ("ticks = \"30\"", "ticks = \"30\""),
            ("token_file = \"token\"", "token_file = \"token\""),
            ("[[notify]]", "[[notify]]"),
            ("listen", "listen"),
            ("url = \"htps://hooks.example/hunter2\"", "url = …"),
            ("Webhook_URL = \"hunter2\"", "Webhook_URL = …"),
            ("token = \"hunter2\"", "token = …"),
            ("hook = https://hooks.example/hunter2", "hook = …"),
            ("\"--key=hunter2\", 5]", "…"),
            ("\"hunter2\"", "…"),
            ("notify = [{ kind = \"webhook\", url = \"hunter2\" }]", "notify = …"),
        ] {
            assert_eq!(line(text), expected);
        }
    }

    #[test]
    fn a_message_quotes_no_string() {
        let found = message("invalid type: string \"curl \"hunter2\"\", expected a sequence");
        assert_eq!(found, "invalid type: string \"…\", expected a sequence");
        assert_eq!(message("expected a number"), "expected a number");
    }
}
