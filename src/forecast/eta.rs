//! When a backup is done or its snapshot full, with a 90 % range, and how far the snapshot grows until then.
//!
//! The range is a factor on either side. Its logarithm is a sum of two parts: how uncertain the speed is, and how much
//! sooner or later other trends have it. The weights of these parts are rounded quantile regressions on the tuning half
//! of `tests/fixtures/courses`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::reads::{RemainingReads, Sums};
use super::trend::Prediction;

/// A time in seconds from now, with the 5th and 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Eta {
    /// `null` if it is not expected: it goes on too slowly for that.
    pub likely_s: Option<f64>,
    pub soonest_s: f64,
    /// `null` if it may never happen.
    pub latest_s: Option<f64>,
    pub basis: EtaBasis,
    /// The seconds that it is from.
    pub seen_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EtaBasis {
    /// Forecasts of this run over a similar time were compared with what came.
    Tested,
    /// It looks too far ahead for what was seen: the recent speed, with a wide range.
    RecentSpeed,
}

/// The bytes that the snapshot or pool will grow until the backup is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GrowthForecast {
    pub likely_bytes: u64,
    /// In 19 of 20 cases it grows less; `null` if unknown.
    pub upper_bytes: Option<u64>,
    /// What must be added for that; 0 if it is large enough.
    pub add_bytes: Option<u64>,
}

/// With less, or looking further ahead than so many times what was seen, the forecast is the recent speed.
const LEAST_SEEN_S: f64 = 20.0;
const FAR_AHEAD: f64 = 4.0;
/// Further ahead than so many times what was seen, it is not expected.
const NEVER: f64 = 1000.0;
/// The used space of a file system is what a backup reads within this share.
const SIZE_ERROR: f64 = 0.003;
/// A tick may end this much before the event.
const TICK_S: f64 = 1.0;
/// From the last read to the end of a backup: its processes pass on what was read ahead, and end. The median of the
/// tuning half.
const END_S: f64 = 0.45;

/// A reader whose speed scatters by more than this from second to second may become slower, and the less is left, the
/// less that evens out. Such a backup may be later by this factor's logarithm for each unit of further scatter.
const STEADY: f64 = 0.08;
const SLOWER: f64 = 2.6;
const EVENS_OUT_S: f64 = 20.0;

/// The weights of the parts of a range: of the speed's uncertainty, and of the trends on that side.
struct Widths {
    down: [f64; 2],
    up: [f64; 2],
}
const DONE: Widths = Widths {
    down: [0.2, 0.15],
    up: [0.8, 0.0],
};
const FULL: Widths = Widths {
    down: [1.3, 2.5],
    up: [1.6, 0.5],
};

/// The logarithms of the factors on either side.
#[derive(Clone, Copy)]
struct Factors {
    down: f64,
    up: f64,
}

impl Factors {
    fn of(prediction: &Prediction, bytes: f64, likely_s: f64, widths: &Widths) -> Self {
        let uncertainty = prediction.uncertainty(likely_s);
        let [sooner, later] = prediction.disagreement(bytes, likely_s);
        let side = |[speed, trends]: [f64; 2], apart: f64| speed * uncertainty + trends * apart;
        Self {
            down: side(widths.down, sooner),
            up: side(widths.up, later),
        }
    }
}

impl Eta {
    pub fn done(reads: &Sums, left: &RemainingReads, usual_speed: Option<f64>) -> Option<Self> {
        let bytes = left.left_bytes? as f64;
        let prediction = Prediction::of(reads, bytes, usual_speed)?;
        let mut eta = Self::of(&prediction, bytes, &DONE);
        let unsteady = SLOWER * (prediction.scatter - STEADY).max(0.0);
        // The amount is uncertain as well.
        let error = left.expected_bytes? as f64 * SIZE_ERROR;
        let (least, most) = left.range?;
        let factor = |amount: f64| prediction.time(amount.max(0.0)) / prediction.time(bytes);
        let wider = |edge_s: f64, amount: f64| match (eta.likely_s, factor(amount)) {
            (Some(likely_s), factor) if likely_s > 0.0 && factor > 0.0 => {
                (edge_s / likely_s).ln().hypot(factor.ln())
            }
            _ => 0.0,
        };
        if let Some(likely_s) = eta.likely_s {
            let slower = unsteady * (1.0 + EVENS_OUT_S / likely_s.max(1.0)).sqrt();
            eta.latest_s = eta.latest_s.map(|latest_s| latest_s * slower.exp());
            eta.soonest_s = likely_s * (-wider(eta.soonest_s, least - error)).exp();
            let later = |latest_s| likely_s * wider(latest_s, most + error).exp() + END_S;
            let limit_s = NEVER * prediction.seen_s;
            eta.latest_s = eta
                .latest_s
                .map(later)
                .filter(|latest_s| *latest_s < limit_s);
            eta.likely_s = Some(likely_s + END_S);
        }
        Some(eta)
    }

    pub fn full(usage: &Sums, free: f64, usual_speed: Option<f64>) -> Option<Self> {
        let prediction = Prediction::of(usage, free, usual_speed)?;
        Some(Self::of(&prediction, free, &FULL))
    }

    fn of(prediction: &Prediction, bytes: f64, widths: &Widths) -> Self {
        let (seen_s, likely_s) = (prediction.seen_s, prediction.time(bytes));
        let is_expected = likely_s < NEVER * seen_s;
        let reached_s = if is_expected {
            likely_s
        } else {
            NEVER * seen_s
        };
        let range = Factors::of(prediction, bytes, reached_s, widths);
        let latest_s = reached_s * range.up.exp();
        let is_tested = seen_s >= LEAST_SEEN_S && reached_s <= FAR_AHEAD * seen_s;
        Self {
            likely_s: is_expected.then_some(likely_s),
            soonest_s: (reached_s * (-range.down).exp() - TICK_S / 2.0).max(0.0),
            latest_s: (is_expected && latest_s < NEVER * seen_s).then_some(latest_s + TICK_S / 2.0),
            basis: if is_tested {
                EtaBasis::Tested
            } else {
                EtaBasis::RecentSpeed
            },
            seen_s,
        }
    }
}

impl GrowthForecast {
    /// If it cannot grow by more than `most`.
    pub fn at_most(self, most: Option<u64>, free: f64) -> Self {
        let Some(most) = most else {
            return self;
        };
        let upper = self.upper_bytes.map_or(most, |upper| upper.min(most));
        let add = (upper as f64 - free).max(0.0) as u64;
        Self {
            likely_bytes: self.likely_bytes.min(most),
            upper_bytes: Some(upper),
            add_bytes: Some(add),
        }
    }

    /// Until the backup is done.
    pub fn until(done: Eta, usage: &Sums, free: f64, usual_speed: Option<f64>) -> Option<Self> {
        let seconds = done.likely_s?;
        let Some(prediction) = Prediction::of(usage, free, usual_speed) else {
            let stays_empty = done
                .latest_s
                .is_some_and(|latest_s| latest_s < usage.quiet_s);
            let upper_bytes = stays_empty.then_some(0);
            return Some(Self {
                likely_bytes: 0,
                upper_bytes,
                add_bytes: upper_bytes,
            });
        };
        let likely = prediction.gain(seconds);
        let range = Factors::of(&prediction, likely, seconds, &FULL);
        // Both are late and fast at once only by chance.
        let upper = done.latest_s.map(|latest_s| {
            let later = (prediction.gain(latest_s) / likely).max(1.0).ln();
            likely * later.hypot(range.down).exp()
        });
        let upper = upper.filter(|upper| upper.is_finite());
        Some(Self {
            likely_bytes: likely as u64,
            upper_bytes: upper.map(|upper| upper as u64),
            add_bytes: upper.map(|upper| (upper - free).max(0.0).ceil() as u64),
        })
    }
}
