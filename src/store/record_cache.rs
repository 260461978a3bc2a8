//! The jobs or alerts since an instant, so that charts that are drawn at each tick read the database only after a record
//! has changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::series::Range;

/// Ranges that begin in the same ten minutes share what was read.
const STEP_MS: i64 = 600_000;
/// Maximum number of instants; then all are read again.
const MOST: usize = 64;

/// What was read, by the instant from which on and the maximum number of records.
#[derive(Debug)]
pub struct RecordCache<T>(Mutex<Inside<T>>);

#[derive(Debug)]
struct Inside<T> {
    /// As counted by [`super::Health`].
    version: u64,
    /// `None` where there are more.
    read: HashMap<(i64, usize), Option<Arc<[T]>>>,
}

impl<T> Default for RecordCache<T> {
    fn default() -> Self {
        Self(Mutex::new(Inside {
            version: 0,
            read: HashMap::new(),
        }))
    }
}

impl<T: Clone> RecordCache<T> {
    /// The records since the beginning of a range or a little earlier. `read` reads at most `most` of those since an instant,
    /// and tells whether these are all. `None` if there are more: then some of the range may be missing.
    pub async fn since<Reading>(
        &self,
        version: u64,
        range: Range,
        most: usize,
        read: impl FnOnce(i64) -> Reading,
    ) -> anyhow::Result<Option<Arc<[T]>>>
    where
        Reading: Future<Output = anyhow::Result<(Vec<T>, bool)>>,
    {
        let from_ms = range.from.as_millisecond().div_euclid(STEP_MS) * STEP_MS;
        let known = self.of(version).read.get(&(from_ms, most)).cloned();
        if let Some(found) = known {
            return Ok(found);
        }
        let (found, are_all) = read(from_ms).await?;
        let found = are_all.then(|| Arc::from(found));
        self.of(version).read.insert((from_ms, most), found.clone());
        Ok(found)
    }

    /// Forgets what was read of another version.
    fn of(&self, version: u64) -> MutexGuard<'_, Inside<T>> {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.version != version || inside.read.len() >= MOST {
            *inside = Inside {
                version,
                read: HashMap::new(),
            };
        }
        inside
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[tokio::test]
    async fn records_are_read_again_only_after_one_changed() {
        let cache = RecordCache::default();
        let range = |second| Range {
            from: Timestamp::from_second(second).unwrap(),
            to: Timestamp::MAX,
        };
        let asked = async |version, second, most: usize, found: &[u8]| {
            let found = (found.to_vec(), found.len() <= most);
            let found = cache
                .since(version, range(second), most, async |_| Ok(found))
                .await
                .unwrap();
            found.map(|read| read.to_vec())
        };
        assert_eq!(asked(1, 600, 2, &[7]).await, Some(vec![7]));
        assert_eq!(
            asked(1, 1_199, 2, &[8]).await,
            Some(vec![7]),
            "of the same ten minutes"
        );
        assert_eq!(
            asked(1, 1_200, 2, &[8]).await,
            Some(vec![8]),
            "of the next ones"
        );
        assert_eq!(
            asked(2, 600, 2, &[9]).await,
            Some(vec![9]),
            "of another version"
        );
        assert_eq!(
            asked(2, 600, 1, &[9, 8]).await,
            None,
            "more than may be read"
        );
    }
}
