//! The configuration as people are shown it, without secrets: the one in force as TOML, and the line that an error quotes.

use std::fmt;

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use super::{Config, merge};
use crate::channel::secret;

/// Shows each key with its default, behind a `#`.
pub(super) const PACKAGED: &str = include_str!("../../systemd/package/cowbell.toml");
/// What has no default, and only an example there.
const EXAMPLES: [&str; 9] = [
    "grafana",
    "hooks",
    "changes",
    "proxy",
    "tls",
    "heartbeat",
    "remote_write",
    "fleet",
    "notify",
];
/// The tables whose texts may be secrets, but for those of these keys.
const MAYBE_SECRET: [&str; 4] = ["heartbeat", "remote_write", "fleet", "notify"];
const PUBLIC: [&str; 13] = [
    "name",
    "kind",
    "severity",
    "volumes",
    "quiet_hours",
    "repeat",
    "to",
    "from",
    "server",
    "user",
    "content_type",
    "template_file",
    "instance",
];

/// What the files say, merged; with secrets. All are equal: the values are elsewhere.
#[derive(Clone, Default)]
pub struct Written(pub(super) Table);

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("…")
    }
}

impl Config {
    /// Each key with its value, as written or by default. Of secrets it has only the place, or the host.
    pub fn shown(&self) -> String {
        let mut shown = defaults();
        let mut written = self.written.0.clone();
        for key in MAYBE_SECRET {
            let entries: &mut [Value] = match written.get_mut(key) {
                Some(Value::Array(entries)) => entries,
                Some(table) => std::slice::from_mut(table),
                None => continue,
            };
            for entry in entries.iter_mut().filter_map(Value::as_table_mut) {
                hide_in(entry);
            }
        }
        if let (Some(Value::Table(rules)), Some(Value::Table(set))) =
            (shown.get_mut("alerts"), written.get("alerts"))
        {
            // What a rule leaves out follows from what it has.
            rules.retain(|rule, _| !set.contains_key(rule));
        }
        merge(&mut shown, written);
        // The command line may have others.
        shown.insert("listen".into(), self.listen.0.to_string().into());
        let interval = format!("{:?}", self.interval.0);
        shown.insert("interval".into(), interval.into());
        shown.to_string()
    }

    /// The same for hosts with the same configuration, but for secrets.
    pub fn hash(&self) -> String {
        let hash = Sha256::digest(self.shown());
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The packaged file without its comment marks.
pub(super) fn packaged() -> Table {
    let lines = PACKAGED.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        _ => line,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    text.parse().unwrap_or_default()
}

fn defaults() -> Table {
    let mut defaults = packaged();
    defaults.retain(|key, _| !EXAMPLES.contains(&key));
    if let Some(Value::Table(alerts)) = defaults.get_mut("alerts") {
        alerts.remove("for");
    }
    defaults
}

fn hide_in(entry: &mut Table) {
    for (key, value) in entry.iter_mut() {
        match value {
            Value::String(text) if !PUBLIC.contains(&&**key) => *text = secret::shown(text),
            // The program, and its arguments.
            Value::Array(command) => command.iter_mut().skip(1).for_each(hide),
            Value::Table(values) => values.iter_mut().for_each(|(_, value)| hide(value)),
            _ => {}
        }
    }
}

fn hide(value: &mut Value) {
    if let Value::String(text) = value {
        *text = secret::shown(text);
    }
}

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
pub fn quoted_line(text: &str, number: usize) -> Quotation<'_> {
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
pub fn quoted_message(message: &str) -> String {
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
    use std::path::Path;

    use super::*;
    use crate::config::{load, parse};

    #[test]
    fn without_a_file_it_shows_the_defaults() {
        let shown = Config::default().shown();
        let read = parse(Path::new("shown.toml"), &shown).unwrap();
        assert_eq!(read, Config::default());
        assert!(shown.contains("listen = \"127.0.0.1:2692\"\n"), "{shown}");
    }

    #[test]
    fn it_shows_what_the_files_say_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cowbell.toml");
        let first = "interval = \"2s\"\n[alerts]\nsnapshot_fill = { warning = 40, critical = 60 }\npool_data = \"off\"\n\
             [heartbeat]\nurl = \"https://status.example/hunter2\"\n\
             [fleet]\nprometheus = \"http://me:hunter2@prometheus.example:9090\"\nlink = \"https://{host}/hunter2\"\n\
             [remote_write]\nurl = \"credential:tsdb\"\nheaders = { X-Key = \"hunter2\", Authorization = \"Bearer file:/etc/key\" }\n";
        let second = "[[notify]]\nname = \"dba\"\nkind = \"webhook\"\nurl = \"https://hooks.example/hunter2\"\n\
             values = { name = \"hunter2\" }\ntemplate = '{\"key\": \"hunter2\"}'\nsplit = true\n\
             [[notify]]\nkind = \"command\"\ncommand = [\"/bin/tell\", \"hunter2\"]\n\
             [[notify]]\nkind = \"email\"\nto = \"a@b.c\"\nserver = \"smtp://mail.example\"\nuser = \"dba\"\npassword = \"hunter2\"\n";
        std::fs::create_dir(folder.path().join("conf.d")).unwrap();
        std::fs::write(&path, first).unwrap();
        std::fs::write(folder.path().join("conf.d/a.toml"), second).unwrap();
        let config = load(Some(&path)).unwrap();
        let shown = config.shown();
        assert!(!shown.contains("hunter2"), "{shown}");
        for line in [
            "interval = \"2s\"",
            "pool_data = \"off\"",
            "url = \"https://status.example/…\"",
            "url = \"credential:tsdb\"",
            "Authorization = \"Bearer file:/etc/key\"",
            "X-Key = \"…\"",
            "prometheus = \"http://prometheus.example:9090/…\"",
            "url = \"https://hooks.example/…\"",
            "split = true",
            "command = [\"/bin/tell\", \"…\"]",
            "to = \"a@b.c\"",
            "password = \"…\"",
            "minutes = \"2y\"",
        ] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
        // What is shown has the same effect, but for secrets.
        let read: Table = shown.parse().unwrap();
        let expected: Table = "fill = { warning = 40, critical = 60 }".parse().unwrap();
        assert_eq!(read["alerts"]["snapshot_fill"], expected["fill"]);
    }

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
            assert_eq!(quoted_line(text, text.lines().count()).line, expected);
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
            assert_eq!(quoted_message(text), expected);
        }
    }
}
