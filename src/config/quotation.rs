//! What an error quotes of the configuration file: the offending line, without values that may be secrets.

/// A line with one of these may hold a secret, whatever table it is in.
const SECRETS: [&str; 6] = ["url", "command", "secret", "password", "token", "://"];
/// Every value in these tables may be a secret, also under a misspelled key.
const SECRET_TABLES: [&str; 2] = ["notify", "changes"];
const HIDDEN: &str = "…";

/// The line with this index, or its key alone.
pub fn line(text: &str, index: usize) -> String {
    let lines: Vec<&str> = text.lines().take(index + 1).map(str::trim).collect();
    let line = lines.get(index).copied().unwrap_or_default();
    let is_of_header = |byte: u8| byte.is_ascii_alphanumeric() || b"[]_-. ".contains(&byte);
    // A template may have lines in brackets, too.
    let is_header = |line: &&&str| {
        line.starts_with('[') && line.ends_with(']') && line.len() > 4 && line.bytes().all(is_of_header)
    };
    let header = lines.iter().rev().find(is_header).filter(|header| **header != line);
    let is_secret = header.is_some_and(|header| SECRET_TABLES.iter().any(|table| header.contains(table)));
    let is_key =
        |key: &&str| key.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let key = line.split_once('=').map(|(key, _)| key).filter(is_key);
    let lower = line.to_lowercase();
    // A string without a key is the rest of a longer value.
    let is_harmless = key.is_some() || !line.contains(['"', '\'']);
    match key {
        _ if is_harmless && !is_secret && !SECRETS.iter().any(|word| lower.contains(word)) => line.into(),
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
            ("[store]\nticks = \"30\"", "ticks = \"30\""),
            ("[changes]\ntoken_file = \"hunter2\"", "token_file = …"),
            ("[changes]\nfile = \"hunter2\"", "file = …"),
            ("[[notify]]\nkind = \"command\"\ncomand = [\"curl\", \"hunter2\"]", "comand = …"),
            ("[[notify]]\ncommand = [\n[\"curl\"],\n5]", "…"),
            ("[[notify]]", "[[notify]]"),
            ("listen", "listen"),
            ("url = \"htps://hooks.example/hunter2\"", "url = …"),
            ("Webhook_URL = \"hunter2\"", "Webhook_URL = …"),
            ("token = \"hunter2\"", "token = …"),
            ("hook = https://hooks.example/hunter2", "hook = …"),
            ("[notify.headers]\nX-Key = hunter2", "X-Key = …"),
            (
                "[[notify]]\nkind = \"webhook\"\ntemplate = \'\'\'\n[{{ key }}]\n\'\'\'\nvalues = 5",
                "values = …",
            ),
            ("\"--key=hunter2\", 5]", "…"),
            ("\"hunter2\"", "…"),
            ("notify = [{ kind = \"webhook\", url = \"hunter2\" }]", "notify = …"),
        ] {
            assert_eq!(line(text, text.lines().count() - 1), expected);
        }
    }

    #[test]
    fn a_message_quotes_no_string() {
        let found = message("invalid type: string \"curl \"hunter2\"\", expected a sequence");
        assert_eq!(found, "invalid type: string \"…\", expected a sequence");
        assert_eq!(message("expected a number"), "expected a number");
    }
}
