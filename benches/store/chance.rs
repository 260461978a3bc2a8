//! Chance that is the same in every run: numbers by a seed, and the few distributions that devices need, with their entropy.

use std::f64::consts::{E, PI, TAU};

/// `splitmix64`: good enough for a simulation, and three lines.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xc0_3bef1)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0 and at most 1.
    pub fn share(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Once in `times`.
    pub fn once_in(&mut self, times: f64) -> bool {
        self.share() * times < 1.0
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.bits() % (most - least + 1)
    }

    /// Around 0, with a standard deviation of 1.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.share().ln()).sqrt() * (TAU * self.share()).cos()
    }

    /// How many of something that comes `mean` times on average.
    pub fn count(&mut self, mean: f64) -> u64 {
        if mean > 30.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as u64;
        }
        let limit = (-mean).exp();
        let (mut product, mut count) = (self.share(), 0);
        while product > limit {
            product *= self.share();
            count += 1;
        }
        count
    }
}

/// Entropy of a normal distribution that is rounded to whole numbers; nothing where it is narrow.
pub fn bits_of_normal(deviation: f64) -> f64 {
    (2.0 * PI * E * deviation * deviation).log2().max(0.0) / 2.0
}

/// Entropy of a Poisson distribution.
pub fn bits_of_count(mean: f64) -> f64 {
    if mean > 10.0 {
        return (2.0 * PI * E * mean).log2() / 2.0;
    }
    let (mut share, mut bits) = ((-mean).exp(), 0.0);
    for count in 1..40 {
        bits -= if share > 0.0 {
            share * share.log2()
        } else {
            0.0
        };
        share *= mean / f64::from(count);
    }
    bits
}
