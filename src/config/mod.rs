//! The configuration file: types, defaults, and checks that name file, line and key.
//!
//! Each value is checked while it is parsed, so every `Config` is valid.

mod alerts;
mod guard;
mod receiver;
mod rule;
mod sections;
mod shown;
mod token;
mod values;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use crate::channel::Heartbeat;
pub use alerts::{Alerts, RuleSettings};
pub use guard::{
    GUARD_PATH, GroupLimits, GuardMode, GuardSettings, LongestTime, SlowWriters, SlowingUser,
    VolumeLimits,
};
pub use receiver::{Receiver, Severity};
pub use rule::{Gravity, Measure, Rule, RuleSubject, Thresholds};
pub use sections::{
    Changes, FleetSettings, Hooks, Lvm, LvmSource, Proxy, RemoteWriteSettings, Store, TlsSettings,
};
use shown::Written;
pub use token::{Token, is_equal};
pub use values::{
    Age, Board, Bytes, LONGEST_INTERVAL, Listen, Pattern, SHORTEST_INTERVAL, Size, TickInterval,
    check_address,
};

/// The configuration file if `--config` names none; it may be missing.
pub const DEFAULT_PATH: &str = "/etc/cowbell/cowbell.toml";

/// The folder beside the configuration whose `*.toml` add to it.
const FRAGMENTS: &str = "conf.d";

/// All settings; every key has a default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port of the web pages and the API.
    pub listen: Listen,
    /// Names of this site, besides its addresses and `localhost`.
    pub hosts: Vec<String>,
    pub interval: TickInterval,
    /// The board of this host in Grafana.
    pub grafana: Option<Board>,
    pub lvm: Lvm,
    #[serde(deserialize_with = "Store::checked")]
    pub store: Store,
    pub alerts: Alerts,
    pub notify: Vec<Receiver>,
    pub heartbeat: Option<Heartbeat>,
    pub remote_write: Option<RemoteWriteSettings>,
    pub fleet: Option<FleetSettings>,
    pub hooks: Hooks,
    pub changes: Changes,
    pub proxy: Proxy,
    pub tls: Option<TlsSettings>,
    #[serde(skip)]
    written: Written,
}

impl Config {
    /// The keys whose new values take effect after a restart only.
    pub fn needs_restart(&self, before: &Self) -> Vec<&'static str> {
        let keys = [
            ("listen", self.listen != before.listen),
            ("interval", self.interval != before.interval),
            ("grafana", self.grafana != before.grafana),
            ("[lvm]", self.lvm != before.lvm),
            ("[store]", self.store != before.store),
            ("[hooks]", self.hooks != before.hooks),
            ("[proxy]", self.proxy != before.proxy),
            ("[tls]", self.tls != before.tls),
            ("[heartbeat]", self.heartbeat != before.heartbeat),
            ("[remote_write]", self.remote_write != before.remote_write),
            ("[fleet]", self.fleet != before.fleet),
        ];
        keys.into_iter()
            .filter(|(_, is_changed)| *is_changed)
            .map(|(key, _)| key)
            .collect()
    }

    /// Reads all values that are in credentials and files.
    pub fn load_secrets(&mut self) -> Result<(), ConfigError> {
        for receiver in &mut self.notify {
            receiver.load()?;
        }
        let heartbeat = self.heartbeat.as_mut().map_or(Ok(()), Heartbeat::load);
        heartbeat.map_err(|why| ConfigError::table("heartbeat", &why))?;
        let remote_write = self.remote_write.as_mut();
        let remote_write = remote_write.map_or(Ok(()), RemoteWriteSettings::load);
        remote_write.map_err(|why| ConfigError::table("remote_write", &why))?;
        let fleet = self.fleet.as_mut().map_or(Ok(()), FleetSettings::load);
        fleet.map_err(|why| ConfigError::table("fleet", &why))
    }
}

/// An invalid configuration: one sentence with file, line and key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// An invalid value of a command-line option or its environment variable.
    pub fn option(name: &str, error: &str) -> Self {
        Self(format!("in the option {name}: {error}"))
    }

    /// Something wrong with a table whose place in the file is not known any more.
    pub fn table(name: &str, why: &str) -> Self {
        Self(format!("in [{name}]: {why}"))
    }
}

/// Reads the named file, or the one at [`DEFAULT_PATH`], which may be missing; then the files of the folder `conf.d`
/// beside it, in the order of their names.
pub fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
    let path = named.map_or_else(|| PathBuf::from(DEFAULT_PATH), Path::to_path_buf);
    let mut files = Vec::new();
    match std::fs::read_to_string(&path) {
        Ok(text) => files.push((path.clone(), text)),
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(&path, &error, named.is_some())),
    }
    let fragments = fragments(&path).map_err(|error| unreadable(&path, &error, false))?;
    for fragment in fragments {
        let text = std::fs::read_to_string(&fragment);
        let text = text.map_err(|error| unreadable(&fragment, &error, false))?;
        files.push((fragment, text));
    }
    let mut config = parse_all(&files)?;
    config.written = Written(merged(&files));
    Ok(config)
}

fn fragments(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(path.with_file_name(FRAGMENTS)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let fragment = entry?.path();
        let is_hidden = fragment
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && fragment.extension().is_some_and(|kind| kind == "toml") {
            found.push(fragment);
        }
    }
    found.sort();
    Ok(found)
}

/// Parses several files into one configuration: a later value replaces an earlier one, and lists add up.
fn parse_all(files: &[(PathBuf, String)]) -> Result<Config, ConfigError> {
    if let [(path, text)] = files {
        return parse(path, text);
    }
    let mut places = Vec::new();
    for (path, text) in files {
        let parsed = DeTable::parse(text).map_err(|error| invalid(path, text, &error));
        places.extend(places_of(
            path,
            text,
            receiver::nest_kinds(parsed?.get_mut()),
        ));
    }
    let (mut config, _) = deserialized(&merged(files).to_string()).map_err(|error| {
        // Alone, the file with the error has its line.
        let alone = |(path, text): &(PathBuf, String)| {
            let error = deserialized(text).err()?;
            Some(invalid(path, text, &error))
        };
        files.iter().find_map(alone).unwrap_or_else(|| {
            let why = shown::quoted_message(error.message());
            ConfigError(format!(
                "the files of the configuration do not fit together: {why}"
            ))
        })
    })?;
    receiver::settle(&mut config.notify, places)?;
    Ok(config)
}

/// The tables of all files, each of which can be parsed.
fn merged(files: &[(PathBuf, String)]) -> toml::Table {
    let mut merged = toml::Table::new();
    for (_, text) in files {
        merge(&mut merged, text.parse().unwrap_or_default());
    }
    merged
}

fn merge(into: &mut toml::Table, from: toml::Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(table)), toml::Value::Table(more)) => merge(table, more),
            (Some(toml::Value::Array(list)), toml::Value::Array(more)) => list.extend(more),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn places_of(path: &Path, text: &str, starts: Vec<usize>) -> Vec<String> {
    let places = starts.into_iter().map(|start| {
        let (path, number) = (path.display(), line_number(text, start));
        format!("in the configuration {path}, line {number},")
    });
    places.collect()
}

fn unreadable(path: &Path, error: &std::io::Error, is_named: bool) -> ConfigError {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => "use sudo, or name another file with --config",
        _ if is_named => "name an existing file or omit --config",
        _ => "mend it, or name another file with --config",
    };
    let path = path.display();
    ConfigError(format!(
        "cannot read the configuration {path}: {error}; {remedy}"
    ))
}

/// Whether this user may not read the file at [`DEFAULT_PATH`]: packages install it for root and the group cowbell only.
pub fn default_is_hidden() -> bool {
    std::fs::File::open(DEFAULT_PATH)
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Parses a configuration file; `path` appears in the error, and no secret.
pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let (mut config, starts) = deserialized(text).map_err(|error| invalid(path, text, &error))?;
    receiver::settle(&mut config.notify, places_of(path, text, starts))?;
    Ok(config)
}

/// The configuration, and where the entries of `[[notify]]` begin.
fn deserialized(text: &str) -> Result<(Config, Vec<usize>), toml::de::Error> {
    let mut file = DeTable::parse(text)?;
    let starts = receiver::nest_kinds(file.get_mut());
    let config = Config::deserialize(toml::Deserializer::from(file))?;
    Ok((config, starts))
}

/// What the parser or serde found, with its line.
fn invalid(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let number = line_number(text, error.span().map_or(0, |span| span.start));
    let quoted = shown::quoted_line(text, number);
    let mut message = shown::quoted_message(&error.message().trim().replace('\n', ", "));
    if quoted.table == Some("[[notify]]") && message.starts_with("unknown field") {
        let common = receiver::COMMON_KEYS.join("`, `");
        message += &format!(", or for every kind `{common}`");
    }
    ConfigError(format!(
        "in the configuration {}, line {number}, `{}`: {message}",
        path.display(),
        quoted.line
    ))
}

/// From 1 on.
fn line_number(text: &str, start: usize) -> usize {
    1 + text[..start.min(text.len())].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::shown::PACKAGED;
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse(Path::new("c.toml"), text) {
            Ok(config) => format!("{config:?}"),
            Err(error) => error.to_string(),
        };
        assert!(
            found.contains(expected),
            "expected {expected:?} in {found:?}"
        );
    }

    #[test]
    fn files_beside_it_add_to_the_configuration_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cowbell.toml");
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        // 40 days of ticks are allowed beside 60 of minutes only.
        write(
            "cowbell.toml",
            "interval = \"2s\"\nhosts = [\"a\"]\n[store]\nminutes = \"60d\"\n[[notify]]\nname = \"one\"\nkind = \"command\"\ncommand = [\"/bin/true\"]\n",
        );
        write("conf.d/20-b.toml", "interval = \"5s\"\n");
        write(
            "conf.d/10-a.toml",
            "interval = \"3s\"\nhosts = [\"b\"]\n[store]\nticks = \"40d\"\n[[notify]]\nname = \"two\"\nkind = \"command\"\ncommand = [\"/bin/true\"]\n",
        );
        write("conf.d/30-c.toml.dpkg-old", "no configuration");
        write("conf.d/.40-d.toml", "no configuration");
        let config = load(Some(&path)).unwrap();
        assert_eq!(config.interval.0.as_secs(), 5);
        assert_eq!(config.hosts, ["a", "b"]);
        assert_ne!(config.store, Store::default());
        let names: Vec<&str> = config.notify.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["one", "two"]);

        // Errors name file and line: of a key, and of a receiver whose name is taken.
        write("conf.d/20-b.toml", "\nlisten = 5\n");
        let error = load(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("conf.d/20-b.toml, line 2,"), "{error}");
        let again = "[[notify]]\nname = \"one\"\nkind = \"command\"\ncommand = [\"/bin/true\"]\n";
        write("conf.d/20-b.toml", again);
        let error = load(Some(&path)).unwrap_err().to_string();
        assert!(
            error.contains("20-b.toml, line 1,") && error.contains("has this name"),
            "{error}"
        );
    }

    #[test]
    fn an_option_is_to_be_omitted_only_if_it_was_given() {
        for (kind, is_named, expected) in [
            (ErrorKind::NotFound, true, "omit --config"),
            (ErrorKind::IsADirectory, false, "mend it"),
            (ErrorKind::PermissionDenied, true, "use sudo"),
            (ErrorKind::PermissionDenied, false, "use sudo"),
        ] {
            let sentence = unreadable(Path::new("c.toml"), &kind.into(), is_named).to_string();
            assert!(sentence.contains(expected), "{sentence}");
        }
    }

    #[test]
    fn the_example_of_the_readme_is_read() {
        check(
            r#"
            listen = "127.0.0.1:2692"
            interval = "1s"
            [alerts]
            snapshot_fill = { warning = 70, critical = 85 }
            [[notify]]
            kind = "webhook"
            url = "http://127.0.0.1:9000/hook"
            "#,
            "Webhook(Webhook { url: http://127.0.0.1:9000/…, ",
        );
    }

    #[test]
    fn an_unknown_key_is_reported_with_its_line_and_the_known_keys() {
        check(
            "\nlisten_on = 1\n",
            "c.toml, line 2, `listen_on = 1`: unknown field `listen_on`, expected",
        );
    }

    #[test]
    fn values_out_of_range_are_reported_with_the_range() {
        for (text, expected) in [
            (
                r#"interval = "50ms""#,
                "line 1, `interval = \"50ms\"`: expected a duration from \"100ms\" to \"60s\"",
            ),
            (r#"interval = "2m""#, "expected a duration from"),
            (r#"interval = "-1s""#, "expected a duration from"),
            (r#"interval = 1"#, "line 1, `interval = 1`"),
            (
                r#"listen = "2692""#,
                "expected an address and a port such as",
            ),
            (
                "[alerts]\npool_data = { warning = 90, critical = 85 }",
                "line 2",
            ),
            (
                "[alerts]\npool_data = { warning = 90, critical = 850 }",
                "0 < clear < warning < critical <= 100",
            ),
            (
                "[alerts]\n[[alerts.for]]\nlv = \"vg0/*\"\nsnapshot_age = \"3 days\"",
                "line 4, `snapshot_age = \"3 days\"`: expected a duration such as",
            ),
            (
                "[[notify]]\nkind = \"webhook\"\nurl = \"credential:../token\"",
                "or \"credential:NAME\" with",
            ),
            (
                "[[notify]]\nkind = \"email\"\nto = \"a@b.c\"\n\n[[notify]]\nkind = \"webhook\"\nto = \"a@b.c\"\n",
                "c.toml, line 7, `to = …`: unknown field `to`, expected one of `url`",
            ),
            (
                "[remote_write]\ninstance = \"\"",
                "line 2, `instance = …`: expected 1 to 255 letters",
            ),
            (
                "[remote_write]\nheaders = { \"a b\" = \"x\" }",
                "expected names of letters, digits",
            ),
            (
                "[remote_write]\ninstance = \"x\"",
                "line 1, `[remote_write]`: missing field `url`",
            ),
            (
                "[remote_write]\nurl = \"ftp://x\"",
                "expected an http:// or https:// address",
            ),
            (
                "[lvm]\nsource = \"lvm\"",
                "line 2, `source = \"lvm\"`: unknown variant `lvm`, expected one of `auto`, `dm`, `lvs`",
            ),
            (
                "[store]\nticks = \"30\"",
                "line 2, `ticks = \"30\"`: expected a number of days",
            ),
            (
                "[store]\nsize = \"1\"",
                "line 2, `size = \"1\"`: expected a whole number of MiB",
            ),
            (
                "[store]\nsize = \"1MiB\"",
                "line 2, `size = \"1MiB\"`: expected at least \"32MiB\"",
            ),
            ("[store]\nticks = \"3y\"", "expected ticks <= minutes"),
            (
                "[store]\nseconds = \"1y\"",
                "line 2, `seconds = \"1y\"`: unknown field `seconds`, expected one of `ticks`",
            ),
            (
                "[changes]\ntoken_file = \"token\"",
                "line 2, `token_file = …`: expected an absolute path of at most 4095 bytes",
            ),
            (
                "[changes]\ntoken = \"secret\"",
                "unknown field `token`, expected `token_file`",
            ),
            (
                "[hooks]\nsocket = \"hooks\"",
                "line 2, `socket = \"hooks\"`: expected an absolute path",
            ),
            (
                "[proxy]\nsocket = \"http\"",
                "line 2, `socket = \"http\"`: expected an absolute path",
            ),
            (
                "[proxy]\nprefix = \"/a/\"",
                "line 2, `prefix = \"/a/\"`: expected a path such as \"/cowbell\"",
            ),
            ("listen = ", "line 1"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn ages_and_sizes_have_units() {
        check(
            "[store]\nticks = \"2w\"\nminutes = \"5y\"\nsize = \"500MB\"",
            "Store { ticks: Age(1209600s), minutes: Age(157680000s), jobs: Age(31536000s), size: Size(500000000) }",
        );
    }

    /// The keys that may stand where `unknown = 1` stands, as the error lists them.
    fn known_keys(text: &str) -> Vec<String> {
        let error = deserialized(text).unwrap_err();
        let error = error.message();
        let (_, expected) = error
            .split_once("expected")
            .unwrap_or_else(|| panic!("{error}"));
        let keys = expected.split('`').skip(1).step_by(2);
        keys.map(String::from).collect()
    }

    /// Each heading, and none for the keys above all of them.
    const TABLES: [&str; 10] = [
        "",
        "[lvm]",
        "[store]",
        "[alerts]",
        "[hooks]",
        "[changes]",
        "[proxy]",
        "[tls]",
        "[heartbeat]",
        "[remote_write]",
    ];

    #[test]
    fn the_packaged_file_has_every_key() {
        parse(Path::new("cowbell.toml"), PACKAGED).unwrap();
        let file = shown::packaged();
        parse(Path::new("cowbell.toml"), &file.to_string()).unwrap();
        for table in TABLES {
            let name = table.trim_matches(['[', ']']);
            let place = file.get(name).map_or(&file, |it| it.as_table().unwrap());
            for key in known_keys(&format!("{table}\nunknown = 1\n")) {
                assert!(
                    place.contains_key(&key),
                    "systemd/package/cowbell.toml lacks `{key}` in {table}"
                );
            }
        }
        for key in receiver_keys() {
            let is_shown = file["notify"]
                .as_array()
                .unwrap()
                .iter()
                .any(|entry| entry.get(&key).is_some());
            assert!(
                is_shown || PACKAGED.contains(&format!("{key} = ")),
                "systemd/package/cowbell.toml lacks `{key}` in [[notify]]"
            );
        }
    }

    /// The keys of all kinds of receivers.
    fn receiver_keys() -> Vec<String> {
        let kinds = known_keys("[[notify]]\nkind = \"unknown\"\n");
        assert!(kinds.len() >= 3, "{kinds:?}");
        let mut keys: Vec<String> = receiver::COMMON_KEYS.map(String::from).into();
        for kind in kinds {
            keys.extend(known_keys(&format!(
                "[[notify]]\nkind = \"{kind}\"\nunknown = 1\n"
            )));
        }
        keys
    }

    /// The rules, which are the keys of `[alerts]`, are in docs/metrics.md.
    #[test]
    fn the_documentation_has_every_key() {
        let text = include_str!("../../docs/configuration.md");
        let (_, example) = text.split_once("```toml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        parse(Path::new("docs/configuration.md"), example).unwrap();
        let example: toml::Table = example.parse().unwrap();
        for table in TABLES.iter().filter(|table| **table != "[alerts]") {
            let name = table.trim_matches(['[', ']']);
            let place = example
                .get(name)
                .map_or(&example, |it| it.as_table().unwrap());
            for key in known_keys(&format!("{table}\nunknown = 1\n")) {
                assert!(
                    place.contains_key(&key),
                    "docs/configuration.md lacks `{key}` in {table}"
                );
            }
        }
        for key in receiver_keys() {
            let is_shown = text
                .lines()
                .any(|line| line.starts_with(&format!("{key} =")));
            // `command`, or `template_file = "/PATH"`
            let is_named = [' ', '`']
                .iter()
                .any(|end| text.contains(&format!("`{key}{end}")));
            assert!(is_shown || is_named, "docs/configuration.md lacks `{key}`");
        }
    }

    #[test]
    fn only_the_default_file_may_be_missing() {
        let error = load(Some(Path::new("/does/not/exist.toml")))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/does/not/exist.toml") && error.contains("--config"),
            "{error}"
        );
    }
}
