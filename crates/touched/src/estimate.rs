//! The chunks that were written of a volume which is too large to count each of them. A map counts the writes to large
//! areas of it. From the writes follows how many chunks of an area would be written if they fell on random places. Probes
//! tell how many really are: regions with single chunks, in areas chosen at random. Pure arithmetic.
//!
//! The ratio of the two, from the probes, corrects the sum over all areas (ratio estimator with unequal probabilities:
//! Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 5.6 and 7.3).

/// Probes of a volume: the kernel walks through all regions at each request, and notices more than 48.
pub const PROBES: usize = 32;
/// The quantile of Student's distribution for 95 % and 31 degrees of freedom.
const STUDENT: f64 = 2.04;
/// An interval is at least so much of the estimate to each side: near saturation its formula is too narrow.
const LEAST_ERROR: f64 = 0.01;
/// The kernel's sectors in the smallest chunk. A smaller write touches one all the same.
const SECTORS_OF_BLOCK: f64 = 8.0;
pub const BLOCK: f64 = 4096.0;

/// Writes to one place, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Writes {
    pub count: f64,
    pub sectors: f64,
}

impl Writes {
    /// The distinct chunks of `chunk` bytes, of `chunks` in all, that so many writes touch on average at random places.
    pub fn expected_chunks(self, chunks: f64, chunk: f64) -> f64 {
        if self.count <= 0.0 || chunks <= 0.0 {
            return 0.0;
        }
        let missed = self.missed_by_one(chunks, chunk);
        chunks * (1.0 - missed.powf(self.count))
    }

    /// The probability that one of these writes leaves out a given chunk.
    pub fn missed_by_one(self, chunks: f64, chunk: f64) -> f64 {
        let blocks = (self.sectors / SECTORS_OF_BLOCK / self.count).max(1.0);
        // One that begins at a random block also touches a part of the next chunk.
        let touched = 1.0 + (blocks - 1.0) * BLOCK / chunk;
        (1.0 - touched / chunks).max(0.0)
    }

    /// The chunks of at least a block that they can have touched at most.
    pub fn most_chunks(self, chunks: f64) -> f64 {
        chunks.min(self.blocks())
    }

    /// The blocks that they can have touched at most.
    pub fn blocks(self) -> f64 {
        (self.sectors / SECTORS_OF_BLOCK).max(self.count)
    }
}

/// A place that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub area: usize,
    pub probability: f64,
}

/// Chooses about so many areas, with probabilities in proportion to the chunks that their writes would touch, and some more
/// for areas without writes: they may have some later. `start` is random, from 0 to 1. Nothing without any writes.
/// Source: systematic sampling, Madow 1949.
pub fn choose(expected: &[f64], count: usize, start: f64) -> Vec<Choice> {
    let mean = expected.iter().sum::<f64>() / expected.len().max(1) as f64;
    if mean <= 0.0 || count == 0 {
        return Vec::new();
    }
    let step = 2.0 * mean * expected.len() as f64 / count as f64;
    let mut next = start.clamp(0.0, 1.0) * step;
    let (mut sum, mut choices) = (0.0, Vec::new());
    for (area, expected) in expected.iter().enumerate() {
        let size = expected + mean;
        sum += size;
        if next < sum {
            choices.push(Choice {
                area,
                probability: (size / step).min(1.0),
            });
        }
        while next < sum {
            next += step;
        }
    }
    choices
}

/// What one probe found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeResult {
    /// The chunks of its area that were written, as many as its part of the area suggests.
    pub chunks: f64,
    /// As expected from the writes to the area.
    pub expected: f64,
    pub probability: f64,
}

/// A number of chunks, and the ends of an interval that holds the truth in 95 % of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    pub least: f64,
    pub chunks: f64,
    pub most: f64,
}

/// The chunks written in the whole volume. `expected` is the sum over all areas, and `most` what cannot be exceeded.
pub fn estimate(found: &[ProbeResult], expected: f64, most: f64) -> Estimate {
    let weighted = |value: fn(&ProbeResult) -> f64| {
        found
            .iter()
            .map(|one| value(one) / one.probability)
            .sum::<f64>()
    };
    let (chunks, base) = (weighted(|one| one.chunks), weighted(|one| one.expected));
    if base <= 0.0 {
        // No probe saw a write, so nothing corrects what the writes suggest.
        return Estimate {
            least: 0.0,
            chunks: expected.min(most),
            most,
        };
    }
    let estimated = chunks / base * expected;
    let error =
        (STUDENT * ratio_error(found, chunks, base) * expected).max(LEAST_ERROR * estimated);
    // What cannot be exceeded says nothing about how much less it may be.
    Estimate {
        least: (estimated - error).clamp(0.0, most),
        chunks: estimated.min(most),
        most: (estimated + error).min(most),
    }
}

/// The standard error of the ratio of two sums, from the ratios without each one of the probes: a probe with much weight
/// hides its own residual from the usual formula. Source: the jackknife, Särndal, Swensson and Wretman, 11.5.
fn ratio_error(found: &[ProbeResult], chunks: f64, base: f64) -> f64 {
    let ratio = chunks / base;
    let without = |one: &ProbeResult| {
        let rest = base - one.expected / one.probability;
        // One that has all of the weight tells nothing about the others.
        if rest > base * f64::EPSILON {
            (chunks - one.chunks / one.probability) / rest
        } else {
            0.0
        }
    };
    let count = found.len() as f64;
    let squares = found
        .iter()
        .map(|one| (without(one) - ratio).powi(2))
        .sum::<f64>();
    (squares * (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(count: f64) -> Writes {
        Writes {
            count,
            sectors: count * SECTORS_OF_BLOCK,
        }
    }

    #[test]
    fn writes_at_random_places_touch_fewer_chunks_than_there_are_writes() {
        let rounded = |writes: Writes, chunks, chunk| {
            (writes.expected_chunks(chunks, chunk) * 10.0).round() / 10.0
        };
        assert_eq!(rounded(blocks(0.0), 256.0, 4096.0), 0.0);
        assert_eq!(rounded(blocks(1.0), 256.0, 4096.0), 1.0);
        // 256 (1 - (255/256)^256)
        assert_eq!(rounded(blocks(256.0), 256.0, 4096.0), 162.0);
        assert_eq!(rounded(blocks(1e6), 256.0, 4096.0), 256.0);
        // 64 KiB each: 16 chunks of 4 KiB, or 1 and 15/16 of 64 KiB.
        let large = Writes {
            count: 1.0,
            sectors: 128.0,
        };
        assert_eq!(rounded(large, 256.0, 4096.0), 16.0);
        assert_eq!(rounded(large, 16.0, 65536.0), 1.9);
        assert_eq!(
            rounded(
                Writes {
                    count: 3.0,
                    sectors: 3.0
                },
                256.0,
                4096.0
            ),
            3.0
        );
        assert_eq!(
            (large.most_chunks(256.0), large.most_chunks(4.0)),
            (16.0, 4.0)
        );
    }

    #[test]
    fn areas_with_more_writes_are_chosen_more_often() {
        let expected: Vec<f64> = (0..1000)
            .map(|area| if area < 10 { 100.0 } else { 0.1 })
            .collect();
        let mut hot = 0;
        for start in 0..100 {
            let choices = choose(&expected, 32, f64::from(start) / 100.0);
            hot += choices.iter().filter(|choice| choice.area < 10).count();
            let sum: f64 = choices.iter().map(|choice| 1.0 / choice.probability).sum();
            assert!(
                (300.0..3000.0).contains(&sum),
                "about as many as there are areas: {sum}"
            );
        }
        assert_eq!(
            hot, 1000,
            "each of them each time: their share is more than one probe"
        );
        assert_eq!(choose(&[0.0; 10], 32, 0.5), []);
        assert_eq!(choose(&[], 32, 0.5), []);
    }

    /// Two hundred areas, of which the first have the writes, and in which a third of the expected chunks is written.
    #[test]
    fn probes_correct_what_the_writes_suggest() {
        let expected: Vec<f64> = (0..200).map(|area| f64::from(200 - area)).collect();
        let truth = |area: usize| expected[area] / 3.0;
        let sum: f64 = expected.iter().sum();
        let found: Vec<ProbeResult> = choose(&expected, 32, 0.3)
            .iter()
            .map(|choice| ProbeResult {
                chunks: truth(choice.area),
                expected: expected[choice.area],
                probability: choice.probability,
            })
            .collect();
        let found = estimate(&found, sum, f64::INFINITY);
        assert!((found.chunks - sum / 3.0).abs() < 1e-6);
        assert!(
            (found.most - found.chunks * 1.01).abs() < 1e-6,
            "at least one percent"
        );
    }

    #[test]
    fn the_interval_holds_the_truth() {
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut held = 0;
        for _ in 0..200 {
            let expected: Vec<f64> = (0..1000).map(|_| 256.0 * random().powi(4)).collect();
            let truth: Vec<f64> = expected
                .iter()
                .map(|expected| expected * random())
                .collect();
            let (sum, whole): (f64, f64) = (expected.iter().sum(), truth.iter().sum());
            let choices = choose(&expected, PROBES, random());
            let of_area = |choice: &Choice| ProbeResult {
                chunks: truth[choice.area],
                expected: expected[choice.area],
                probability: choice.probability,
            };
            let Estimate { least, most, .. } = estimate(
                &choices.iter().map(of_area).collect::<Vec<_>>(),
                sum,
                f64::INFINITY,
            );
            held += usize::from((least..=most).contains(&whole));
        }
        assert!(held >= 180, "95 % of 200, but {held}");
    }

    #[test]
    fn what_cannot_be_exceeded_does_not_make_the_interval_smaller_below() {
        let found = |chunks: f64| ProbeResult {
            chunks,
            expected: 10.0,
            probability: 0.1,
        };
        let probes: Vec<ProbeResult> = (0..32)
            .map(|index| found(if index % 2 == 0 { 6.0 } else { 14.0 }))
            .collect();
        let Estimate {
            least,
            chunks,
            most,
        } = estimate(&probes, 1000.0, 1000.0);
        assert_eq!((chunks, most), (1000.0, 1000.0));
        assert!((840.0..870.0).contains(&least), "{least}");
    }

    /// By the usual formula the error is 460 in place of 660: the probe with a third of the weight decides the ratio itself.
    #[test]
    fn a_probe_with_much_weight_widens_the_interval() {
        let found = |index: usize| match index {
            0 => ProbeResult {
                chunks: 300.0,
                expected: 150.0,
                probability: 0.1,
            },
            _ => ProbeResult {
                chunks: 10.0,
                expected: 10.0,
                probability: 0.1,
            },
        };
        let probes: Vec<ProbeResult> = (0..32).map(found).collect();
        let Estimate { least, chunks, .. } = estimate(&probes, 1000.0, f64::INFINITY);
        assert!(chunks - least > 650.0, "{least} to {chunks}");
    }

    #[test]
    fn without_a_write_in_any_probe_the_writes_alone_tell() {
        let unseen = ProbeResult {
            chunks: 0.0,
            expected: 0.0,
            probability: 0.1,
        };
        assert_eq!(
            estimate(&[unseen], 5.0, 6.0),
            Estimate {
                least: 0.0,
                chunks: 5.0,
                most: 6.0
            }
        );
        assert_eq!(estimate(&[], 0.0, 0.0), Estimate::default());
    }
}
