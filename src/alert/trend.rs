//! How the usage of each snapshot and pool grows, and when it will be full. A running backup has a better forecast, which
//! is asked for here, so that it is computed once for all rules: the sooner a volume is full, the more often.

use std::collections::HashMap;
use std::sync::Arc;

use crate::advice::{PoolPart, most_bytes};
use crate::forecast::{Eta, Outlook, OutlookVerdict, ReadPoint, ReadProgress, Risk};
use crate::interval::Interval;
use crate::topology::{Topology, Volume};
use crate::units::Fill;

/// A forecast from less is chance.
const LEAST_SEEN_S: f64 = 10.0;
/// After so long without growth, earlier growth says nothing, and nothing is to be expected.
const IDLE_S: f64 = 300.0;
/// The speed is first estimated over up to twice this time.
const WINDOW_S: f64 = 10.0;
/// A real forecast is not needed while that estimate is so many times what would matter.
const FAR: f64 = 4.0;
/// A forecast costs 0.1 to 0.5 ms. It is computed again after a hundredth of the time until full, within these limits.
const REFRESHES: f64 = 100.0;
const REFRESH_S: [f64; 2] = [1.0, 10.0];

/// When a volume will be full.
#[derive(Clone, Debug, Default)]
pub(super) struct VolumeForecast {
    pub full: Expected,
    /// The running backup that reads it, and its forecast.
    pub backup: Option<(i64, Outlook)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Expected {
    /// Not enough was observed.
    #[default]
    TooEarly,
    /// It does not grow, or only so slowly that it does not matter.
    Far,
    /// It grew until a short time ago.
    Stopped,
    /// Its size is enough for everything that can be written to it.
    Never,
    In(Eta),
    /// It is full.
    Now,
}

impl VolumeForecast {
    /// Whether the backup will certainly be done before the volume is full.
    pub fn is_done_first(&self) -> bool {
        self.verdict() == Some(OutlookVerdict::DoneFirst)
    }

    pub fn is_full_within(&self, seconds: f64) -> bool {
        matches!(self.full, Expected::In(eta) if eta.likely_s.is_some_and(|likely_s| likely_s <= seconds))
    }

    pub fn verdict(&self) -> Option<OutlookVerdict> {
        self.backup.as_ref().map(|(_, outlook)| outlook.verdict)
    }
}

/// How fast a snapshot or pool fills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The mean until it is full as forecast. Without a forecast, that of the last 10 to 20 seconds.
    pub bytes_per_s: f64,
    pub full: Option<Eta>,
    /// Why there is no forecast: `too early`.
    pub why_not: &'static str,
}

/// The running backup that reads a volume, against the time until the volume is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Race {
    pub verdict: OutlookVerdict,
    pub risk: Risk,
}

/// What a forecast is for.
#[derive(Clone, Copy)]
pub(super) struct Need {
    /// Whether an alert of the volume is open or about to be raised.
    pub is_urgent: bool,
    /// Longer times until full do not matter.
    pub horizon_s: f64,
}

/// The growth of all snapshots and pools, by UUID.
#[derive(Default)]
pub(super) struct Trends(HashMap<Arc<str>, FillTrend>);

/// A time in seconds since the first observation, and the used bytes then.
type UsageMark = (f64, f64);

/// Of one volume.
struct FillTrend {
    now: UsageMark,
    first: UsageMark,
    /// The last two marks, [`WINDOW_S`] apart.
    marks: [UsageMark; 2],
    grew_s: Option<f64>,
    /// Empty until it grows.
    curve: ReadProgress,
    forecast: Option<CachedForecast>,
    /// Whether alerts are not sure enough of the forecast.
    is_unsure: bool,
}

/// A forecast, when it was computed, and for which size.
struct CachedForecast {
    at_s: f64,
    total: u64,
    forecast: Arc<VolumeForecast>,
}

impl Trends {
    /// Forgets volumes that are gone.
    pub fn retain(&mut self, topology: &Topology) {
        self.0.retain(|uuid, _| topology.volume(uuid).is_some());
    }

    /// Whether an alert will follow from the forecast that is not yet raised.
    pub fn set_unsure(&mut self, uuid: &str, is_unsure: bool) {
        if let Some(trend) = self.0.get_mut(uuid) {
            trend.is_unsure = is_unsure;
        }
    }

    /// Forgets a volume that fills no more: what was foreseen of it has come or never will.
    pub fn end(&mut self, uuid: &str) {
        self.0.remove(uuid);
    }

    /// Those that grow, by UUID.
    pub fn paces(&self) -> HashMap<Arc<str>, Pace> {
        let growing = self.0.iter().filter(|(_, trend)| trend.is_growing());
        growing
            .map(|(uuid, trend)| (Arc::clone(uuid), trend.pace()))
            .collect()
    }

    /// Those that a running backup reads, by UUID.
    pub fn races(&self) -> HashMap<Arc<str>, Race> {
        let race = |trend: &FillTrend| {
            let (_, outlook) = trend.forecast.as_ref()?.forecast.backup.as_ref()?;
            Some(Race {
                verdict: outlook.verdict,
                risk: outlook.risk,
            })
        };
        self.0
            .iter()
            .filter_map(|(uuid, trend)| Some((Arc::clone(uuid), race(trend)?)))
            .collect()
    }

    /// Adds a tick; returns the newest forecast.
    pub fn advance(
        &mut self,
        volume: &Volume,
        fill: Fill,
        interval: &Interval,
        need: Need,
        outlook: &dyn Fn(&Volume) -> Option<(i64, Outlook)>,
    ) -> Arc<VolumeForecast> {
        let used = fill.used_bytes() as f64;
        let trend = self.0.entry(Arc::clone(&volume.uuid));
        let trend = trend.or_insert_with(|| FillTrend::new(used));
        trend.push(used, interval.elapsed_us as f64 / 1e6);
        let free = fill.total_bytes().saturating_sub(fill.used_bytes()) as f64;
        let roughly_s = trend.roughly_s(free);
        let refresh_s = (roughly_s / REFRESHES).clamp(REFRESH_S[0], REFRESH_S[1]);
        let is_full = free <= 0.0;
        if let Some(known) = &trend.forecast
            && known.total == fill.total_bytes()
            && (is_full == (known.forecast.full == Expected::Now)
                || known.forecast.full == Expected::Never)
            && trend.now.0 - known.at_s < refresh_s
        {
            return Arc::clone(&known.forecast);
        }
        let is_near = need.is_urgent || roughly_s < need.horizon_s * FAR;
        let backup = if need.is_urgent || trend.is_growing() {
            outlook(volume)
        } else {
            None
        };
        let outlook = backup.as_ref().map(|(_, outlook)| outlook);
        let most = most_bytes(volume, PoolPart::Data, &interval.topology);
        let full = match outlook.and_then(|outlook| outlook.full) {
            _ if outlook.is_some_and(|outlook| outlook.cannot_overflow) => Expected::Never,
            _ if most.is_some_and(|most| most <= fill.total_bytes()) => Expected::Never,
            _ if is_full => Expected::Now,
            _ if trend.has_stopped() => Expected::Stopped,
            Some(full) if full.seen_s >= LEAST_SEEN_S => Expected::In(full),
            _ => trend.expected(free, is_near),
        };
        let forecast = Arc::new(VolumeForecast { full, backup });
        trend.forecast = Some(CachedForecast {
            at_s: trend.now.0,
            total: fill.total_bytes(),
            forecast: Arc::clone(&forecast),
        });
        forecast
    }
}

impl FillTrend {
    fn new(used: f64) -> Self {
        let now = (0.0, used);
        Self {
            now,
            first: now,
            marks: [now; 2],
            grew_s: None,
            curve: ReadProgress::default(),
            forecast: None,
            is_unsure: false,
        }
    }

    fn push(&mut self, used: f64, elapsed_s: f64) {
        let before = self.now;
        self.now = (before.0 + elapsed_s, used);
        let is_idle = self
            .grew_s
            .is_some_and(|grew_s| self.now.0 - grew_s > IDLE_S);
        if used < before.1 || is_idle {
            // Space was freed, or growth ended: what comes is new.
            self.first = self.now;
            self.marks = [self.now; 2];
            self.grew_s = None;
            self.curve = ReadProgress::default();
        }
        if used > before.1 {
            if self.grew_s.is_none() {
                self.first = before;
                self.marks = [before; 2];
                self.curve.push(ReadPoint {
                    at_s: before.0,
                    read: 0.0,
                    used: Some(before.1),
                });
            }
            self.grew_s = Some(self.now.0);
        }
        if self.grew_s.is_some() {
            self.curve.push(ReadPoint {
                at_s: self.now.0,
                read: 0.0,
                used: Some(used),
            });
        }
        if self.now.0 - self.marks[1].0 >= WINDOW_S {
            self.marks = [self.marks[1], self.now];
        }
    }

    fn is_growing(&self) -> bool {
        self.grew_s.is_some()
    }

    fn has_stopped(&self) -> bool {
        let usage = self.curve.usage();
        usage.is_some_and(|usage| usage.stopped_for_s().is_some())
    }

    fn pace(&self) -> Pace {
        let mut pace = Pace {
            bytes_per_s: self.speed_since(self.marks[0]).max(0.0),
            full: None,
            why_not: "too early",
        };
        let Some(known) = &self.forecast else {
            return pace;
        };
        pace.why_not = match known.forecast.full {
            Expected::TooEarly => return pace,
            Expected::In(_) if self.is_unsure => return pace,
            Expected::In(eta) => match eta.likely_s {
                // Through pauses too, as the forecast has it.
                Some(likely_s) => {
                    pace.full = Some(eta);
                    let free = known.total as f64 - self.now.1;
                    if likely_s >= 1.0 {
                        pace.bytes_per_s = free.max(0.0) / likely_s;
                    }
                    ""
                }
                None => "not soon",
            },
            Expected::Far => "not soon",
            Expected::Stopped => "growth stopped",
            Expected::Never => "never",
            Expected::Now => "full now",
        };
        if known.forecast.full == Expected::Stopped {
            pace.bytes_per_s = 0.0;
        }
        pace
    }

    fn speed_since(&self, (at_s, used): UsageMark) -> f64 {
        if self.now.0 > at_s {
            (self.now.1 - used) / (self.now.0 - at_s)
        } else {
            0.0
        }
    }

    /// The seconds until full at the greatest of its recent speeds.
    fn roughly_s(&self, free: f64) -> f64 {
        let fastest = self
            .speed_since(self.marks[0])
            .max(self.speed_since(self.first));
        if fastest > 0.0 && self.is_growing() {
            free / fastest
        } else {
            f64::INFINITY
        }
    }

    fn expected(&self, free: f64, is_near: bool) -> Expected {
        // After a start it is unknown whether it grows in bursts.
        if !self.is_growing() && self.now.0 < WINDOW_S {
            return Expected::TooEarly;
        }
        if !self.is_growing() || !is_near {
            return Expected::Far;
        }
        let usage = self.curve.usage();
        match usage.and_then(|usage| Eta::full(&usage, free, None)) {
            Some(eta) if eta.seen_s >= LEAST_SEEN_S => Expected::In(eta),
            _ => Expected::TooEarly,
        }
    }
}
