//! All servers, as a Prometheus or VictoriaMetrics knows them: a few queries, and a row for each host. cowbell itself keeps
//! nothing of other hosts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Client, Url};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::try_join;

use crate::channel::secret::{External, Secrets};
use crate::channel::{http, shortened};
use crate::config::{FleetSettings, Gravity, Rule};
use crate::job::history::seconds_between;
use crate::units::{capital, count_text, duration_text, natural_key};
use crate::verdict::Grade;

/// A usual interval of scrapes: more often there is nothing new.
const LIFETIME: Duration = Duration::from_secs(15);
/// The time limit of a query. All run at the same time.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Bytes of an answer. 500 hosts with ten alerts each have 1 MiB.
const LONGEST_ANSWER: usize = 32 << 20;
/// After this time without a tick a host is silent, as in the rule `cowbell_silent`.
const SILENT_S: f64 = 120.0;

/// The last tick and the name of each host that was seen within a day.
const TICKS: &str = "last_over_time(cowbell_last_tick_timestamp_seconds[1d])";
const HOSTS: &str = "last_over_time(cowbell_host_info[1d])";
const FILLS: &str = "topk by (instance, machine_id, kind) (1, cowbell_volume_fill_ratio{kind=~\"snapshot|thin_pool\"})";
const ALERTS: &str = "cowbell_alert";
/// Of the volume whose last good backup is the oldest.
const BACKUPS: &str = "bottomk by (instance) (1, cowbell_backup_last_good_timestamp_seconds)";

/// Hosts whose samples arrive by remote write, now and before.
const RECEIVED: &str = "cowbell_host_user_ratio";
const RECEIVED_BEFORE: &str = "cowbell_host_user_ratio offset 15m or cowbell_host_user_ratio offset 2h \
    or cowbell_host_user_ratio offset 1d";

/// The engine that is asked, and its last answers.
pub struct Fleet {
    client: Client,
    base: Url,
    headers: HeaderMap,
    secrets: Secrets,
    /// How the engine is called in sentences.
    name: String,
    link: Option<String>,
    last: Mutex<Option<(Instant, FleetResult)>>,
}

/// The worst first, or why they are unknown: a sentence without its end.
pub type FleetResult = Result<Vec<FleetHost>, String>;

/// A host that cowbell runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetHost {
    /// Its host name, or the label `instance` if that is all there is.
    pub name: String,
    /// Of its pages.
    pub href: Option<String>,
    pub grade: Grade,
    pub is_silent: bool,
    pub sentence: String,
    /// Name and percent of the fullest.
    pub snapshot: Option<(String, f64)>,
    pub pool: Option<(String, f64)>,
    /// The volume whose last good backup is the oldest, and when that ended.
    pub backup: Option<(String, Timestamp)>,
}

/// A value of an instant query.
#[derive(Debug, Deserialize)]
struct FleetSample {
    #[serde(rename = "metric")]
    labels: BTreeMap<String, String>,
    /// The time, and the value as text.
    value: (f64, String),
}

#[derive(Deserialize)]
struct QueryAnswer {
    data: Vector,
}

#[derive(Deserialize)]
struct Vector {
    result: Vec<FleetSample>,
}

/// The answers to all queries.
#[derive(Default)]
struct FleetAnswers {
    ticks: Vec<FleetSample>,
    hosts: Vec<FleetSample>,
    fills: Vec<FleetSample>,
    alerts: Vec<FleetSample>,
    backups: Vec<FleetSample>,
    received: Vec<FleetSample>,
    received_before: Vec<FleetSample>,
}

/// What tells hosts apart: two of the same name that send their samples differ by `machine_id`.
type HostKey<'a> = (&'a str, &'a str);

impl Fleet {
    pub fn new(settings: &FleetSettings) -> Result<Self, String> {
        let url = settings.prometheus.as_str();
        let mut secrets = settings.prometheus.secrets();
        secrets.extend(settings.headers.secrets());
        Ok(Self {
            client: http::client(url)?,
            base: url.parse().map_err(|_| "`prometheus` is no address")?,
            headers: settings.headers.map()?,
            secrets: Secrets::new(secrets),
            name: settings.prometheus.name(),
            link: settings.link.clone(),
            last: Mutex::default(),
        })
    }

    /// Those that are silent come before all. An engine that does not answer is left alone for as long as an answer holds.
    pub async fn servers(&self, now: Timestamp) -> FleetResult {
        let mut last = self.last.lock().await;
        if let Some((asked, servers)) = &*last
            && asked.elapsed() < LIFETIME
        {
            return servers.clone();
        }
        let answers = match tokio::time::timeout(TIME_LIMIT, self.ask_all()).await {
            Ok(answers) => answers,
            Err(_) => Err(format!("it did not answer within {TIME_LIMIT:?}")),
        };
        let servers = match answers {
            Ok(answers) => Ok(servers(&answers, self.link.as_deref(), now)),
            Err(why) => Err(format!(
                "cannot ask the Prometheus {} for all servers: {}",
                self.name,
                shortened(&self.secrets.hide(&why))
            )),
        };
        *last = Some((Instant::now(), servers.clone()));
        servers
    }

    async fn ask_all(&self) -> Result<FleetAnswers, String> {
        let (ticks, hosts, fills, alerts, backups, received, received_before) = try_join!(
            self.ask(TICKS),
            self.ask(HOSTS),
            self.ask(FILLS),
            self.ask(ALERTS),
            self.ask(BACKUPS),
            self.ask(RECEIVED),
            self.ask(RECEIVED_BEFORE),
        )?;
        Ok(FleetAnswers {
            ticks,
            hosts,
            fills,
            alerts,
            backups,
            received,
            received_before,
        })
    }

    async fn ask(&self, query: &str) -> Result<Vec<FleetSample>, String> {
        let mut url = self.base.clone();
        let path = format!("{}/api/v1/query", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url.query_pairs_mut().append_pair("query", query);
        let request = self.client.get(url).headers(self.headers.clone());
        let broken = |error: reqwest::Error| http::broken(&error).sentence;
        let mut answer = request.send().await.map_err(broken)?;
        if !answer.status().is_success() {
            return Err(http::refusal(answer).await);
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(broken)? {
            body.extend(chunk);
            if body.len() > LONGEST_ANSWER {
                return Err(format!("its answer is longer than {LONGEST_ANSWER} bytes"));
            }
        }
        let answer: QueryAnswer = serde_json::from_slice(&body)
            .map_err(|error| format!("expected the answer to a query, but found: {error}"))?;
        Ok(answer.data.result)
    }
}

impl FleetSample {
    fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    fn host(&self) -> HostKey<'_> {
        (self.label("instance"), self.label("machine_id"))
    }

    fn number(&self) -> Option<f64> {
        self.value
            .1
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
    }

    /// Of a value in seconds since 1970.
    fn time(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond((self.number()? * 1000.0) as i64).ok()
    }

    fn volume(&self) -> String {
        match (self.label("vg"), self.label("lv")) {
            ("", lv) => lv.into(),
            (vg, lv) => format!("{vg}/{lv}"),
        }
    }
}

/// What is known of one host.
#[derive(Default)]
struct HostSamples<'a> {
    last_tick: Option<&'a FleetSample>,
    info: Option<&'a FleetSample>,
    snapshot: Option<&'a FleetSample>,
    pool: Option<&'a FleetSample>,
    alerts: Vec<&'a FleetSample>,
    backup: Option<&'a FleetSample>,
    /// Whether samples arrive by remote write, if they did within a day.
    is_received: Option<bool>,
}

fn servers(answers: &FleetAnswers, link: Option<&str>, now: Timestamp) -> Vec<FleetHost> {
    let mut hosts: BTreeMap<HostKey, HostSamples> = BTreeMap::new();
    for sample in &answers.ticks {
        hosts.entry(sample.host()).or_default().last_tick = Some(sample);
    }
    for sample in &answers.hosts {
        hosts.entry(sample.host()).or_default().info = Some(sample);
    }
    for sample in &answers.fills {
        let host = hosts.entry(sample.host()).or_default();
        if sample.label("kind") == "snapshot" {
            host.snapshot = Some(sample);
        } else {
            host.pool = Some(sample);
        }
    }
    for sample in &answers.alerts {
        hosts.entry(sample.host()).or_default().alerts.push(sample);
    }
    for sample in &answers.backups {
        hosts.entry(sample.host()).or_default().backup = Some(sample);
    }
    for sample in &answers.received_before {
        hosts.entry(sample.host()).or_default().is_received = Some(false);
    }
    for sample in &answers.received {
        hosts.entry(sample.host()).or_default().is_received = Some(true);
    }
    // A host may be scraped and send its samples too.
    let scraped: Vec<&str> = answers
        .hosts
        .iter()
        .map(|info| info.label("host"))
        .collect();
    hosts.retain(|(instance, _), samples| {
        samples.last_tick.is_some() || !scraped.contains(instance)
    });
    let mut servers = Vec::new();
    for ((instance, _), mut samples) in hosts {
        samples.alerts.sort_by_key(|alert| Reverse(urgency(alert)));
        let worst = samples.alerts.first().map(|alert| urgency(alert));
        servers.push((worst, samples.server(instance, link, now)));
    }
    servers.sort_by_key(|(worst, server)| {
        let order = (server.is_silent, server.grade, *worst, server.fullest());
        (Reverse(order), natural_key(&server.name))
    });
    servers.into_iter().map(|(_, server)| server).collect()
}

/// Its severity, and what it means for backups. A newer cowbell may have rules that are not known here.
fn urgency(alert: &FleetSample) -> (Grade, Option<Gravity>) {
    let grade = match alert.label("severity") {
        "critical" => Grade::Critical,
        _ => Grade::Warning,
    };
    let rule = Rule::named(alert.label("rule"));
    (grade, rule.map(Rule::gravity))
}

impl HostSamples<'_> {
    fn server(&self, instance: &str, link: Option<&str>, now: Timestamp) -> FleetHost {
        let host = self.info.map_or("", |info| info.label("host"));
        let name = if host.is_empty() { instance } else { host };
        let last_tick = self.last_tick.and_then(FleetSample::time);
        let silent_s = last_tick.map(|at| seconds_between(at, now));
        let silent_s = silent_s.filter(|silent_s| *silent_s > SILENT_S);
        let is_lost = last_tick.is_none() && self.is_received == Some(false);
        let (grade, sentence) = match (silent_s, self.alerts.first()) {
            (Some(silent_s), _) => {
                let silent = duration_text(silent_s);
                (Grade::Unknown, format!("No tick arrived for {silent}."))
            }
            _ if is_lost => (Grade::Unknown, "No samples arrive any more.".into()),
            (None, Some(alert)) => (urgency(alert).0, self.alert_sentence(alert)),
            (None, None) if last_tick.is_some() => (Grade::Ok, "No alert is open.".into()),
            (None, None) => (
                Grade::Unknown,
                "Its alerts are unknown, since its /metrics are not scraped.".into(),
            ),
        };
        let fullest = |sample: &FleetSample| Some((sample.volume(), sample.number()? * 100.0));
        FleetHost {
            name: name.into(),
            href: href(instance, host, link),
            grade,
            is_silent: silent_s.is_some() || is_lost,
            sentence,
            snapshot: self.snapshot.and_then(fullest),
            pool: self.pool.and_then(fullest),
            backup: self
                .backup
                .and_then(|backup| Some((backup.volume(), backup.time()?))),
        }
    }

    /// `Snapshot invalid: vg0/snap; 2 more alerts.`
    fn alert_sentence(&self, alert: &FleetSample) -> String {
        let mut sentence = capital(&alert.label("rule").replace('_', " "));
        if !alert.label("volume").is_empty() {
            sentence += &format!(": {}", alert.label("volume"));
        }
        let others = self.alerts.len() - 1;
        if others > 0 {
            sentence += &format!("; {}", count_text(others, "more alert", "more alerts"));
        }
        sentence + "."
    }
}

/// The page of a host: as configured, or the address that is scraped, which has a port.
fn href(instance: &str, host: &str, link: Option<&str>) -> Option<String> {
    match link {
        Some(link) => Some(link.replace("{instance}", instance).replace("{host}", host)),
        None if instance.contains(':') => Some(format!("http://{instance}/")),
        None => None,
    }
}

impl FleetHost {
    /// In tenths of a percent.
    fn fullest(&self) -> u64 {
        let fills = [&self.snapshot, &self.pool].into_iter().flatten();
        fills.fold(0, |fullest, (_, percent)| {
            fullest.max((percent * 10.0) as u64)
        })
    }
}

/// The short answer: which servers need someone.
pub fn headline(servers: &[FleetHost]) -> String {
    let count =
        |of: &dyn Fn(&FleetHost) -> bool| servers.iter().filter(|server| of(server)).count();
    let silent = count(&|server| server.is_silent);
    let mut texts = Vec::new();
    if silent > 0 {
        texts.push(count_text(silent, "server is silent", "servers are silent"));
    }
    for (grade, one, several) in [
        (Grade::Critical, "is critical", "are critical"),
        (Grade::Warning, "has a warning", "have a warning"),
    ] {
        let of_grade = |server: &FleetHost| server.grade == grade;
        match count(&of_grade) {
            0 => {}
            1 => {
                let only = servers.iter().find(|server| of_grade(server));
                texts.extend(only.map(|server| format!("{} {one}", server.name)));
            }
            number => texts.push(format!("{number} servers {several}")),
        }
    }
    match (&*texts, servers.len()) {
        ([], 0) => "No server was seen within a day".into(),
        ([], _) if servers.iter().any(|server| server.grade == Grade::Unknown) => {
            "No alert is open, but not all servers are known".into()
        }
        ([], number) => format!(
            "No alert is open on {}",
            count_text(number, "server", "servers")
        ),
        _ => texts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn samples(samples: serde_json::Value) -> Vec<FleetSample> {
        serde_json::from_value(samples).unwrap()
    }

    #[test]
    fn silent_hosts_come_first_then_the_most_urgent() {
        let now = at("2026-11-27T12:00:00Z");
        let second = now.as_second();
        let tick = |instance: &str, ago: i64| json!({"metric": {"instance": instance}, "value": [0.0, (second - ago).to_string()]});
        let alert = |instance: &str, rule: &str, severity: &str| json!({"metric": {"instance": instance, "rule": rule, "severity": severity, "volume": "vg0/s"}, "value": [0.0, "1"]});
        let fill = |instance: &str, kind: &str, ratio: &str| json!({"metric": {"instance": instance, "kind": kind, "vg": "vg0", "lv": kind}, "value": [0.0, ratio]});
        let answers = FleetAnswers {
            ticks: samples(json!([
                tick("db1:2692", 2),
                tick("db2:2692", 5),
                tick("db3:2692", 3600),
                tick("db10:2692", 1),
                tick("db4:2692", 1),
            ])),
            hosts: samples(json!([
                {"metric": {"instance": "db2:2692", "host": "orders"}, "value": [0.0, "1"]},
            ])),
            fills: samples(json!([
                fill("db1:2692", "snapshot", "0.25"),
                fill("db1:2692", "thin_pool", "0.5"),
                fill("db4:2692", "snapshot", "NaN"),
                fill("remote", "snapshot", "0.1"),
            ])),
            alerts: samples(json!([
                alert("db2:2692", "snapshot_fill", "critical"),
                alert("db2:2692", "snapshot_invalid", "critical"),
                alert("db10:2692", "of_a_newer_cowbell", "warning"),
                alert("db3:2692", "snapshot_fill", "critical"),
            ])),
            backups: samples(json!([
                {"metric": {"instance": "db1:2692", "vg": "vg0", "lv": "data"}, "value": [0.0, (second - 7200).to_string()]},
            ])),
            received: samples(
                json!([{"metric": {"instance": "orders", "machine_id": "1"}, "value": [0.0, "0.1"]}]),
            ),
            received_before: samples(
                json!([{"metric": {"instance": "gone", "machine_id": "2"}, "value": [0.0, "0.1"]}]),
            ),
        };
        let servers = servers(&answers, None, now);
        let seen: Vec<_> = servers
            .iter()
            .map(|server| (&*server.name, server.grade, &*server.sentence))
            .collect();
        assert_eq!(
            seen,
            [
                (
                    "db3:2692",
                    Grade::Unknown,
                    "No tick arrived for 1 h 00 min."
                ),
                ("gone", Grade::Unknown, "No samples arrive any more."),
                (
                    "orders",
                    Grade::Critical,
                    "Snapshot invalid: vg0/s; 1 more alert."
                ),
                ("db10:2692", Grade::Warning, "Of a newer cowbell: vg0/s."),
                (
                    "remote",
                    Grade::Unknown,
                    "Its alerts are unknown, since its /metrics are not scraped."
                ),
                ("db1:2692", Grade::Ok, "No alert is open."),
                ("db4:2692", Grade::Ok, "No alert is open."),
            ]
        );
        assert_eq!(
            headline(&servers),
            "2 servers are silent, orders is critical, db10:2692 has a warning"
        );
        let db1 = servers
            .iter()
            .find(|server| server.name == "db1:2692")
            .unwrap();
        assert_eq!(db1.snapshot, Some(("vg0/snapshot".into(), 25.0)));
        assert_eq!(db1.pool, Some(("vg0/thin_pool".into(), 50.0)));
        assert_eq!(
            db1.backup,
            Some(("vg0/data".into(), at("2026-11-27T10:00:00Z")))
        );
        assert_eq!(servers[6].snapshot, None, "NaN is unknown");
        assert_eq!(servers[2].href.as_deref(), Some("http://db2:2692/"));
        assert_eq!(servers[4].href, None);
        assert_eq!(headline(&servers[5..]), "No alert is open on 2 servers");
        assert_eq!(
            headline(&servers[4..]),
            "No alert is open, but not all servers are known"
        );
    }

    #[test]
    fn a_link_is_as_configured() {
        let link = Some("https://{host}.example/cowbell/?of={instance}");
        let href = href("db1:1", "db1", link);
        assert_eq!(
            href.as_deref(),
            Some("https://db1.example/cowbell/?of=db1:1")
        );
    }
}
