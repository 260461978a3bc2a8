//! What was read from a snapshot and how far its COW area or pool filled, over time: sums, so that a point that is
//! dropped loses nothing. The newest points are all kept, older ones ever more sparsely.

/// Maximum number of points: 12 KiB.
pub const MOST_POINTS: usize = 512;
/// Points closer than this are merged, so that short intervals do not crowd out the past.
const LEAST_APART_S: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadPoint {
    /// Seconds since the first point.
    pub at_s: f64,
    /// Bytes read so far.
    pub read: f64,
    /// Used bytes; `None` if unknown.
    pub used: Option<f64>,
}

/// The points of a snapshot in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadProgress(Vec<ReadPoint>);

impl ReadProgress {
    pub fn push(&mut self, point: ReadPoint) {
        let is_close =
            |[.., before, last]: &[ReadPoint; 2]| last.at_s - before.at_s < LEAST_APART_S;
        if self.0.last_chunk::<2>().is_some_and(is_close) {
            self.0.pop();
        }
        self.0.push(point);
        if self.0.len() > MOST_POINTS {
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number > MOST_POINTS / 2 || number % 2 == 1
            });
        }
    }

    pub fn last(&self) -> Option<ReadPoint> {
        self.0.last().copied()
    }

    #[cfg(test)]
    pub fn points(&self) -> Vec<ReadPoint> {
        self.0.clone()
    }

    /// The bytes read over time.
    pub fn reads(&self) -> Option<Sums> {
        Sums::since_first_change(self.0.iter().map(|point| (point.at_s, point.read)))
    }

    /// The used bytes over time, where they are known.
    pub fn usage(&self) -> Option<Sums> {
        Sums::since_first_change(
            self.0
                .iter()
                .filter_map(|point| Some((point.at_s, point.used?))),
        )
    }
}

/// A sum that grows over time; at least one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    pub times: Vec<f64>,
    pub sums: Vec<f64>,
    /// How long it was seen without a change before these points.
    pub quiet_s: f64,
}

impl Sums {
    /// Drops the time before the first change, and the tick in which it began: they tell nothing about the speed since.
    fn since_first_change(points: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let (mut times, mut sums): (Vec<f64>, Vec<f64>) = points.unzip();
        let began_s = *times.first()?;
        let same = sums.iter().take_while(|sum| **sum == sums[0]).count();
        let quiet_s = times[same - 1] - began_s;
        let dropped = same.min(sums.len() - 1);
        times.drain(..dropped);
        sums.drain(..dropped);
        Some(Self {
            quiet_s,
            times,
            sums,
        })
    }

    /// The seconds since the first change; 0 if there was none.
    pub fn seen_s(&self) -> f64 {
        self.times[self.times.len() - 1] - self.times[0]
    }

    /// The bytes since the first change.
    pub fn gained(&self) -> f64 {
        self.sums[self.sums.len() - 1] - self.sums[0]
    }

    /// The seconds since the last change.
    pub fn idle_s(&self) -> f64 {
        let last = self.sums.len() - 1;
        let same = self
            .sums
            .iter()
            .rev()
            .take_while(|sum| **sum == self.sums[last])
            .count();
        self.times[last] - self.times[last + 1 - same]
    }

    /// The seconds after which `bytes` more than at that point were reached.
    pub fn time_of(&self, from: usize, bytes: f64) -> Option<f64> {
        let goal = self.sums[from] + bytes;
        let after = from + self.sums[from..].iter().position(|sum| *sum >= goal)?;
        let before = after.saturating_sub(1).max(from);
        let (step, gained) = (
            self.times[after] - self.times[before],
            self.sums[after] - self.sums[before],
        );
        let part = if gained > 0.0 {
            (goal - self.sums[before]) / gained
        } else {
            1.0
        };
        Some(self.times[before] + step * part - self.times[from])
    }
}
