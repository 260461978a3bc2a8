//! How good forecasts are: each is compared with what came.
//!
//! A poll is a forecast after a tick, until the first of both events. An error is that of the time left, over the time
//! left. Before a volume is extended, *full* is when the size that it had would be reached. The last two seconds are left out.

use cowbell::advice::{Extensible, PoolPart};
use cowbell::forecast::{
    Eta, GrowthForecast, OutlookVerdict, ReadPoint, ReadProgress, RemainingReads, Risk, Room,
    outlook,
};
use cowbell::topology::{Topology, Volume};

use super::course::{Course, Tick};

/// Where on the way to the event: from so much before to so much after it.
pub const SHARES: [f64; 4] = [0.1, 0.25, 0.5, 0.75];
const ABOUT: f64 = 0.05;
const LAST_S: f64 = 2.0;
/// It is a close race if the times left differ by less than this factor.
const CLOSE: f64 = 1.25;
/// Something must be said after so long.
const FIRST_S: f64 = 20.0;

#[derive(Clone, Copy, PartialEq)]
pub enum Event {
    Done,
    Full,
}

/// What a method says at a poll.
#[derive(Clone, Copy, Default)]
pub struct Said {
    pub done: Option<Guess>,
    pub full: Option<Guess>,
    pub verdict: Option<OutlookVerdict>,
    pub growth: Option<GrowthForecast>,
    pub risk: Option<Risk>,
}

#[derive(Clone, Copy)]
pub struct Guess {
    pub likely_s: Option<f64>,
    pub soonest_s: f64,
    pub latest_s: Option<f64>,
}

pub struct Poll<'a> {
    pub course: &'a Course,
    pub tick: usize,
    pub said: Said,
}

/// What a method says at every so many ticks.
pub fn polls<'a>(
    courses: &[&'a Course],
    every: usize,
    method: impl Fn(&Course) -> Box<dyn FnMut(usize) -> Said + '_>,
) -> Vec<Poll<'a>> {
    let mut polls = Vec::new();
    for course in courses {
        let mut say = method(course);
        for (tick, _) in course
            .ticks
            .iter()
            .enumerate()
            .take_while(|(_, tick)| tick.at_s < course.end_s())
        {
            let said = say(tick);
            if tick > 0 && tick.is_multiple_of(every) {
                polls.push(Poll { course, tick, said });
            }
        }
    }
    polls
}

/// The forecast of the program.
pub fn forecast(course: &Course, every: usize) -> Box<dyn FnMut(usize) -> Said + '_> {
    let mut curve = ReadProgress::default();
    Box::new(move |index| {
        let tick = course.ticks[index];
        curve.push(ReadPoint {
            at_s: tick.at_s,
            read: tick.read,
            used: Some(tick.used),
        });
        if !index.is_multiple_of(every) {
            return Said::default();
        }
        let left = RemainingReads::of(
            Some(tick.read as u64),
            Some(course.expected),
            &course.earlier,
        );
        let free_bytes = (tick.total - tick.used) as u64;
        let room = Room {
            is_pool: false,
            free_bytes,
            most_bytes: None,
            volume: Extensible::new(&Volume::default(), &Topology::default(), PoolPart::Data),
            guard: None,
        };
        let said = outlook(left, Some(room), &curve, &course.earlier);
        Said {
            done: said.done.map(Guess::from),
            full: said.full.map(Guess::from),
            verdict: Some(said.verdict),
            growth: said.growth,
            risk: Some(said.risk),
        }
    })
}

/// The speed of the last so many seconds: from its ends, or by least squares as Prometheus' `predict_linear`.
pub fn line(course: &Course, seconds: f64, is_fitted: bool) -> Box<dyn FnMut(usize) -> Said + '_> {
    Box::new(move |index| {
        let ticks = &course.ticks[..=index];
        let now = ticks[index];
        let guess = |left: f64, sum: fn(&Tick) -> f64| {
            // Before it began, there was no speed.
            let begun = ticks.iter().filter(|tick| sum(tick) > sum(&ticks[0]));
            let window: Vec<Tick> = begun
                .filter(|tick| now.at_s - tick.at_s <= seconds + 0.3)
                .copied()
                .collect();
            if window.len() < 2 {
                return None;
            }
            let speed = if is_fitted {
                fitted(&window, sum)
            } else {
                mean(&window, sum)
            };
            let likely_s = Some(left.max(0.0) / speed).filter(|_| speed > 0.0)?;
            Some(Guess {
                likely_s: Some(likely_s),
                soonest_s: 0.0,
                latest_s: None,
            })
        };
        Said {
            done: guess(course.expected as f64 - now.read, |tick| tick.read),
            full: guess(now.total - now.used, |tick| tick.used),
            ..Said::default()
        }
    })
}

fn mean(window: &[Tick], sum: fn(&Tick) -> f64) -> f64 {
    let (first, last) = (&window[0], &window[window.len() - 1]);
    (sum(last) - sum(first)) / (last.at_s - first.at_s)
}

fn fitted(window: &[Tick], sum: fn(&Tick) -> f64) -> f64 {
    let n = window.len() as f64;
    let mean_s = window.iter().map(|tick| tick.at_s).sum::<f64>() / n;
    let mean = window.iter().map(sum).sum::<f64>() / n;
    let together: f64 = window
        .iter()
        .map(|tick| (tick.at_s - mean_s) * (sum(tick) - mean))
        .sum();
    together
        / window
            .iter()
            .map(|tick| (tick.at_s - mean_s).powi(2))
            .sum::<f64>()
}

/// What the polls say of one event.
#[derive(Default)]
pub struct EventScore {
    /// The errors around each share, and all; infinite where nothing was said.
    pub errors: [Vec<f64>; SHARES.len()],
    pub all: Vec<f64>,
    pub widths: Vec<f64>,
    /// Of what was said: in the range, below, above.
    pub places: [usize; 3],
    /// Polls after the first seconds, and those without a word.
    pub later: usize,
    pub silent: usize,
}

impl EventScore {
    pub fn of<'a>(polls: impl IntoIterator<Item = &'a Poll<'a>>, event: Event) -> Self {
        let mut score = Self::default();
        for poll in polls {
            score.add(poll, event);
        }
        score
    }

    fn add(&mut self, poll: &Poll, event: Event) {
        let (came_s, guess) = match event {
            Event::Done => (poll.course.done_s, poll.said.done),
            Event::Full => (poll.course.full_at(poll.tick), poll.said.full),
        };
        let at_s = poll.course.ticks[poll.tick].at_s;
        let Some(came_s) = came_s.filter(|came_s| came_s - at_s >= LAST_S) else {
            return;
        };
        let left_s = came_s - at_s;
        let error = guess
            .and_then(|guess| guess.likely_s)
            .map_or(f64::INFINITY, |s| (s - left_s).abs() / left_s);
        self.all.push(error);
        for (share, errors) in SHARES.iter().zip(&mut self.errors) {
            if (at_s / came_s - share).abs() <= ABOUT {
                errors.push(error);
            }
        }
        self.later += usize::from(at_s > FIRST_S);
        self.silent += usize::from(at_s > FIRST_S && guess.is_none());
        let Some(guess) = guess else { return };
        let latest_s = guess.latest_s.unwrap_or(f64::INFINITY);
        self.widths.push((latest_s - guess.soonest_s) / left_s);
        let place = if left_s < guess.soonest_s {
            1
        } else {
            2 * usize::from(left_s > latest_s)
        };
        self.places[place] += 1;
    }

    /// The share of the polls whose range held what came, or missed it on that side.
    pub fn share_in(&self, place: usize) -> f64 {
        self.places[place] as f64 / self.places.iter().sum::<usize>() as f64
    }

    pub fn silent_share(&self) -> f64 {
        self.silent as f64 / self.later as f64
    }
}

/// How right the verdicts are.
#[derive(Default)]
pub struct VerdictScore {
    pub right: usize,
    pub wrong: usize,
    pub open: usize,
    /// Of those, the close races, and those in which one of the times is unknown.
    pub close: usize,
    pub unknown: usize,
    /// All polls of close races.
    pub races: usize,
    pub unsaid: usize,
    /// Of each course: the seconds from the first right verdict to the event; 0 without one.
    pub leads_s: Vec<f64>,
}

impl VerdictScore {
    pub fn of(polls: &[Poll]) -> Self {
        let mut score = Self::default();
        for polls in polls.chunk_by(|a, b| std::ptr::eq(a.course, b.course)) {
            let course = polls[0].course;
            let first = polls
                .iter()
                .filter(|poll| score.add(poll))
                .map(|poll| course.ticks[poll.tick].at_s)
                .reduce(f64::min);
            score
                .leads_s
                .push(first.map_or(0.0, |first| course.end_s() - first));
        }
        score
    }

    /// Whether it is right.
    fn add(&mut self, poll: &Poll) -> bool {
        let is_done_first = match (poll.course.done_s, poll.course.full_at(poll.tick)) {
            (None, None) => return false,
            (done, full) => done.unwrap_or(f64::INFINITY) < full.unwrap_or(f64::INFINITY),
        };
        let count = match poll.said.verdict {
            Some(OutlookVerdict::DoneFirst) if is_done_first => &mut self.right,
            Some(OutlookVerdict::FullFirst) if !is_done_first => &mut self.right,
            Some(OutlookVerdict::DoneFirst | OutlookVerdict::FullFirst) => &mut self.wrong,
            Some(OutlookVerdict::Open) => &mut self.open,
            _ => &mut self.unsaid,
        };
        *count += 1;
        let is_open = poll.said.verdict == Some(OutlookVerdict::Open);
        let is_unknown = poll.said.done.is_none() || poll.said.full.is_none();
        self.races += usize::from(is_close(poll));
        self.close += usize::from(is_open && is_close(poll));
        self.unknown += usize::from(is_open && is_unknown && !is_close(poll));
        is_right(poll.said.verdict, is_done_first)
    }

    pub fn wrong_share(&self) -> f64 {
        self.wrong as f64 / (self.right + self.wrong).max(1) as f64
    }

    pub fn open_share(&self) -> f64 {
        self.open as f64 / (self.right + self.wrong + self.open).max(1) as f64
    }
}

/// An event that was not recorded is expected at the mean speed of the course.
fn is_close(poll: &Poll) -> bool {
    let (course, tick) = (poll.course, poll.course.ticks[poll.tick]);
    let at_mean_speed = |goal: f64, sum: fn(&Tick) -> f64| {
        let began = course
            .ticks
            .iter()
            .find(|tick| sum(tick) > sum(&course.ticks[0]))?;
        let last = course.ticks.last()?;
        Some(last.at_s + (goal - sum(last)) * (last.at_s - began.at_s) / (sum(last) - sum(began)))
    };
    let done_s = course
        .done_s
        .or_else(|| at_mean_speed(course.expected as f64, |tick| tick.read));
    let full_s = course
        .full_at(poll.tick)
        .or_else(|| at_mean_speed(tick.total, |tick| tick.used));
    let ratio = done_s
        .zip(full_s)
        .map(|(done_s, full_s)| (done_s - tick.at_s) / (full_s - tick.at_s));
    ratio.is_some_and(|ratio| (1.0 / CLOSE..CLOSE).contains(&ratio))
}

fn is_right(verdict: Option<OutlookVerdict>, is_done_first: bool) -> bool {
    let right = if is_done_first {
        OutlookVerdict::DoneFirst
    } else {
        OutlookVerdict::FullFirst
    };
    verdict == Some(right)
}

/// How often the snapshot grew no more than was said, until the backup was done; and the median of that over what came.
pub fn growth(polls: &[Poll]) -> (f64, f64) {
    let mut found = Vec::new();
    for poll in polls {
        let Some(done_s) = poll.course.done_s else {
            continue;
        };
        let Some(last) = poll
            .course
            .ticks
            .iter()
            .take_while(|tick| tick.at_s <= done_s)
            .last()
        else {
            continue;
        };
        let grew = last.used - poll.course.ticks[poll.tick].used;
        let upper = poll.said.growth.and_then(|growth| growth.upper_bytes);
        found.extend(
            upper
                .filter(|_| grew > 0.0)
                .map(|upper| upper as f64 / grew),
        );
    }
    let held = found.iter().filter(|ratio| **ratio >= 1.0).count() as f64 / found.len() as f64;
    (held, percentile(&mut found, 0.5))
}

/// How long a risk must last before an alert is raised.
const HELD_S: f64 = 10.0;

/// The alerts of a risk that lasts.
#[derive(Default)]
pub struct Alarms {
    /// Courses in which the snapshot was full first, and of these those with an alert.
    pub lost: usize,
    pub warned: usize,
    /// The seconds from the alert to the event.
    pub leads_s: Vec<f64>,
    /// Courses in which the backup was done first, and of these those with an alert.
    pub good: usize,
    pub false_alarms: usize,
}

impl Alarms {
    pub fn of(polls: &[Poll], risk: Risk) -> Self {
        let mut alarms = Self::default();
        for polls in polls.chunk_by(|a, b| std::ptr::eq(a.course, b.course)) {
            let course = polls[0].course;
            let raised_s = raised_s(polls, risk);
            if course.done_s.unwrap_or(f64::INFINITY) < course.full_s.unwrap_or(f64::INFINITY) {
                alarms.good += 1;
                alarms.false_alarms += usize::from(raised_s.is_some());
            } else {
                alarms.lost += 1;
                alarms.warned += usize::from(raised_s.is_some());
                alarms
                    .leads_s
                    .extend(raised_s.map(|at_s| course.end_s() - at_s));
            }
        }
        alarms
    }
}

fn raised_s(polls: &[Poll], risk: Risk) -> Option<f64> {
    let mut since = None;
    polls.iter().find_map(|poll| {
        let at_s = poll.course.ticks[poll.tick].at_s;
        if poll.said.risk < Some(risk) {
            since = None;
            return None;
        }
        (at_s - *since.get_or_insert(at_s) >= HELD_S).then_some(at_s)
    })
}

/// By rank; NaN of none.
pub fn percentile(numbers: &mut [f64], share: f64) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    let last = numbers.len().saturating_sub(1) as f64;
    numbers
        .get((share * last).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

impl From<Eta> for Guess {
    fn from(eta: Eta) -> Self {
        Self {
            likely_s: eta.likely_s,
            soonest_s: eta.soonest_s,
            latest_s: eta.latest_s,
        }
    }
}
