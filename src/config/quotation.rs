//! What an error quotes of the configuration file: the offending line, without values that may be secrets.

/// A line with one of these may hold a secret, whatever table it is in.
const SECRETS: [&str; 6] = ["url", "command", "secret", "password", "token", "://"];
/// Every value in these tables may be a secret, also under a misspelled key.
const SECRET_TABLES: [&str; 4] = ["notify", "heartbeat", "remote_write", "changes"];
const HIDDEN: &str = "…";
/// A line, or its key alone, and the header of its table.
pub struct Quotation<'a> {
    pub table: Option<&'a str>,
    pub line: String,
}

/// The line with this number, from 1 on.
pub fn line(text: &str, number: usize) -> Quotation<'_> {
    let lines: Vec<&str> = text.lines().take(number).map(str::trim).collect();
    let line = lines.get(number - 1).copied().unwrap_or_default();
    let table = lines.into_iter().rfind(|line| is_header(line));
    let line = if table == Some(line) {
        line.into()
    } else {
        without_secret(table.unwrap_or_default(), line)
    };
    Quotation { table, line }
}

/// A line of a template may be in brackets, too.
fn is_header(line: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"[]_-. ".contains(&byte);
    line.len() > 4 && line.starts_with('[') && line.ends_with(']') && line.bytes().all(is_allowed)
}

fn without_secret(table: &str, line: &str) -> String {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let key = match line.split_once('=') {
        Some((key, _)) if key.trim().bytes().all(is_allowed) => key,
        // A string without a key is the rest of a longer value.
        _ if line.contains(['"', '\'']) => return HIDDEN.into(),
        _ => "",
    };
    let lower = line.to_lowercase();
    // A key may begin with its table, such as `heartbeat.url`.
    let is_secret = SECRETS.iter().any(|word| lower.contains(word))
        || SECRET_TABLES
            .iter()
            .any(|name| table.contains(name) || key.contains(name));
    match key {
        _ if !is_secret => line.into(),
        "" => HIDDEN.into(),
        key => format!("{key}= {HIDDEN}"),
    }
}

/// The parser's message without the value that it quotes: of "invalid type: integer `5`, expected a string", the 5.
pub fn message(message: &str) -> String {
    let is_quoting =
        message.starts_with("invalid type: ") || message.starts_with("invalid value: ");
    if is_quoting
        && let Some((found, expected)) = message.rsplit_once(", expected")
        && let Some(start) = found.find(['"', '`'])
    {
        let (kind, mark) = (&found[..start], &found[start..=start]);
        return format!("{kind}{mark}{HIDDEN}{mark}, expected{expected}");
    }
    message.into()
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
            ("[heartbeat]\nadress = 12345678", "adress = …"),
            ("heartbeat.adress = 12345678", "heartbeat.adress = …"),
            ("[heartbeat]", "[heartbeat]"),
            (
                "[[notify]]\nkind = \"command\"\ncomand = [\"curl\", \"hunter2\"]",
                "comand = …",
            ),
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
            (
                "notify = [{ kind = \"webhook\", url = \"hunter2\" }]",
                "notify = …",
            ),
        ] {
            assert_eq!(line(text, text.lines().count()).line, expected);
        }
    }

    #[test]
    fn a_message_quotes_no_value() {
        for (text, expected) in [
            (
                "invalid type: string \"curl \"hunter2\"\", expected a sequence",
                "invalid type: string \"…\", expected a sequence",
            ),
            (
                "invalid type: integer `12345678`, expected a string",
                "invalid type: integer `…`, expected a string",
            ),
            (
                "invalid type: integer `99` as i128, expected `a`",
                "invalid type: integer `…`, expected `a`",
            ),
            (
                "invalid type: floating point `1.5`, expected",
                "invalid type: floating point `…`, expected",
            ),
            (
                "invalid type: boolean `true`, expected",
                "invalid type: boolean `…`, expected",
            ),
            (
                "unknown field `urll`, expected `url`",
                "unknown field `urll`, expected `url`",
            ),
            ("expected a number", "expected a number"),
        ] {
            assert_eq!(message(text), expected);
        }
    }
}
