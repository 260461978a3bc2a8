//! How many values a part of a file has, counted before memory is taken for them.

use std::fmt::Formatter;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Values of which a part of a file is made, however deep; none of them is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(pub usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counting)
    }
}

struct Counting;

impl<'de> Visitor<'de> for Counting {
    type Value = Count;

    fn expecting(&self, formatter: &mut Formatter) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
        let mut count = 0;
        while let Some(Count(more)) = list.next_element()? {
            count += more;
        }
        Ok(Count(count))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
        let mut count = 0;
        while let Some((IgnoredAny, Count(more))) = map.next_entry()? {
            count += more;
        }
        Ok(Count(count))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_str<E>(self, _: &str) -> Result<Count, E> {
        Ok(Count(1))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(1))
    }
}

#[cfg(test)]
#[test]
fn values_are_counted_however_deep_they_are() {
    let count = |text: &str| serde_json::from_str::<Count>(text).unwrap().0;
    assert_eq!(count(r#"{"a": [1, -2, 0.5], "b": {"c": "\n", "d": null}, "e": true, "f": []}"#), 6);
}
