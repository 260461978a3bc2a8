//! Writers that go on in the same way for days, with random numbers of their own: what they write in each minute.

const BLOCK: u64 = 4096;
const PAGE: u64 = 16 << 10;
/// The doublewrite buffer of InnoDB.
const DOUBLEWRITE: u64 = 2 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub offset: u64,
    pub bytes: u64,
}

/// How places are chosen. All writes but those of `InnoDb` have 4 KiB.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Uniform {
        each_minute: u64,
    },
    /// A block is written the more often the lower its rank; ranks are scattered over the volume.
    Zipf {
        each_minute: u64,
        skew: f64,
    },
    /// A share of the writes goes to a few extents, the rest anywhere.
    Hot {
        each_minute: u64,
        extents: u64,
        extent: u64,
        share: f64,
    },
    /// Pages of 16 KiB, the doublewrite buffer before them, and a redo log in a ring.
    InnoDb {
        pages: u64,
        redo: u64,
        skew: f64,
    },
    /// Few writes, and now and then for some minutes `factor` times as many, to a part of the volume.
    Bursts {
        each_minute: u64,
        factor: u64,
    },
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (self.unit() * end as f64) as u64
    }

    /// A rank below `count`, by the continuous form of Zipf's law.
    fn rank(&mut self, count: u64, skew: f64) -> u64 {
        let (unit, end) = (self.unit(), count as f64 + 1.0);
        let rank = if (skew - 1.0).abs() < 1e-9 {
            end.powf(unit)
        } else {
            (unit * (end.powf(1.0 - skew) - 1.0) + 1.0).powf(1.0 / (1.0 - skew))
        };
        (rank as u64).clamp(1, count) - 1
    }
}

/// A writer of one volume.
pub struct Generator {
    kind: Kind,
    blocks: u64,
    /// Where the hot places are. It stays when the random numbers change.
    layout: u64,
    random: Random,
    redo: u64,
    doublewrite: u64,
    /// The minutes that a burst still lasts, and the eighth of the volume that it writes to.
    burst: (u64, u64),
}

impl Generator {
    /// Of a volume whose number of blocks is a power of two.
    pub fn new(kind: Kind, bytes: u64, seed: u64) -> Self {
        let layout = Random::new(!seed).next();
        let random = Random::new(seed);
        Self {
            kind,
            blocks: bytes / BLOCK,
            layout,
            random,
            redo: 0,
            doublewrite: 0,
            burst: (0, 0),
        }
    }

    /// From now on with other random numbers, at the same places.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// The writes of the next minute.
    pub fn minute(&mut self) -> Vec<Write> {
        match self.kind {
            Kind::Uniform { each_minute } => (0..each_minute)
                .map(|_| self.anywhere(0, self.blocks))
                .collect(),
            Kind::Zipf { each_minute, skew } => {
                (0..each_minute).map(|_| self.by_rank(skew)).collect()
            }
            Kind::Hot {
                each_minute,
                extents,
                extent,
                share,
            } => (0..each_minute)
                .map(|_| self.hot(extents, extent / BLOCK, share))
                .collect(),
            Kind::InnoDb { pages, redo, skew } => {
                (0..pages).flat_map(|_| self.page(redo, skew)).collect()
            }
            Kind::Bursts {
                each_minute,
                factor,
            } => self.burst(each_minute, factor),
        }
    }

    fn anywhere(&mut self, first: u64, count: u64) -> Write {
        Write {
            offset: (first + self.random.below(count)) * BLOCK,
            bytes: BLOCK,
        }
    }

    fn by_rank(&mut self, skew: f64) -> Write {
        let rank = self.random.rank(self.blocks, skew);
        Write {
            offset: self.scattered(rank, self.blocks) * BLOCK,
            bytes: BLOCK,
        }
    }

    /// A place for each number below `count`, a power of two.
    fn scattered(&self, number: u64, count: u64) -> u64 {
        let odd = (self.layout | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (number.wrapping_mul(odd) ^ (self.layout >> 7)) & (count - 1)
    }

    fn hot(&mut self, extents: u64, extent: u64, share: f64) -> Write {
        if self.random.unit() >= share {
            return self.anywhere(0, self.blocks);
        }
        let number = self.random.below(extents);
        self.anywhere(
            self.scattered(number, self.blocks / extent) * extent,
            extent,
        )
    }

    /// Redo log, doublewrite buffer, page: one after the other on the volume.
    fn page(&mut self, redo: u64, skew: f64) -> [Write; 3] {
        self.redo = (self.redo + BLOCK) % redo;
        self.doublewrite = (self.doublewrite + PAGE) % DOUBLEWRITE;
        let tables = redo + DOUBLEWRITE;
        let pages = (self.blocks * BLOCK - tables) / PAGE;
        let page = self.random.rank(pages, skew);
        [
            Write {
                offset: self.redo,
                bytes: BLOCK,
            },
            Write {
                offset: redo + self.doublewrite,
                bytes: PAGE,
            },
            Write {
                offset: tables + page * PAGE,
                bytes: PAGE,
            },
        ]
    }

    /// About one burst in two hours, of 5 to 20 minutes.
    fn burst(&mut self, each_minute: u64, factor: u64) -> Vec<Write> {
        if self.burst.0 == 0 && self.random.below(120) == 0 {
            self.burst = (5 + self.random.below(16), self.random.below(8));
        }
        let mut writes: Vec<Write> = (0..each_minute)
            .map(|_| self.anywhere(0, self.blocks))
            .collect();
        if self.burst.0 > 0 {
            self.burst.0 -= 1;
            let eighth = self.blocks / 8;
            writes.extend(
                (0..each_minute * factor).map(|_| self.anywhere(self.burst.1 * eighth, eighth)),
            );
        }
        writes
    }
}
