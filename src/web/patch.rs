//! The difference of two texts, as copies from the old one and inserted text.

use serde::Serialize;

/// Shorter copies cost more than the text itself.
const LEAST: usize = 16;
/// Every so many positions of the old text are looked up, by so many bytes from there.
const STEP: usize = 4;
const GRAM: usize = LEAST - STEP;
const BUCKET_BITS: u32 = 14;
/// Candidates that are compared at a position.
const MOST_CANDIDATES: usize = 8;
const NONE: u32 = u32::MAX;

/// As JSON, a number or a text: two numbers are a copy, namely the distance of its start from the end of the copy before,
/// and its length, both in bytes of UTF-8.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Part<'a> {
    Number(i64),
    Text(&'a str),
}

/// The parts of `new`.
pub fn patch<'a>(old: &str, new: &'a str) -> Vec<Part<'a>> {
    let index = Index::of(old.as_bytes());
    let (mut parts, mut written, mut at, mut copied_to) = (Vec::new(), 0, 0, 0);
    while at < new.len() {
        // What follows a change is usually where it was.
        let expected = copied_to + (at - written);
        let Some(copy) = index.longest(new, at, expected) else {
            at += 1;
            continue;
        };
        let copy = copy
            .extended_back(old.as_bytes(), new.as_bytes(), written)
            .at_characters(new);
        if copy.length < LEAST {
            at += 1;
            continue;
        }
        if copy.to > written {
            parts.push(Part::Text(&new[written..copy.to]));
        }
        parts.extend([
            Part::Number(copy.from as i64 - copied_to as i64),
            Part::Number(copy.length as i64),
        ]);
        (written, copied_to) = (copy.to + copy.length, copy.from + copy.length);
        at = written;
    }
    if written < new.len() {
        parts.push(Part::Text(&new[written..]));
    }
    parts
}

/// A part of the old text that the new one has too.
#[derive(Clone, Copy)]
struct Copy {
    from: usize,
    to: usize,
    length: usize,
}

impl Copy {
    fn between(old: &[u8], new: &[u8], from: usize, to: usize) -> Self {
        let pairs = old[from.min(old.len())..].iter().zip(&new[to..]);
        Self {
            from,
            to,
            length: pairs.take_while(|(a, b)| a == b).count(),
        }
    }

    /// Also what is before it, but nothing that was written.
    fn extended_back(self, old: &[u8], new: &[u8], written: usize) -> Self {
        let before = old[..self.from]
            .iter()
            .rev()
            .zip(new[written..self.to].iter().rev());
        let more = before.take_while(|(a, b)| a == b).count();
        Self {
            from: self.from - more,
            to: self.to - more,
            length: self.length + more,
        }
    }

    /// Without parts of characters at its ends.
    fn at_characters(self, new: &str) -> Self {
        let end = (self.to..=self.to + self.length)
            .rev()
            .find(|at| new.is_char_boundary(*at));
        let start = (self.to..=self.to + self.length).find(|at| new.is_char_boundary(*at));
        let (start, end) = (start.unwrap_or(self.to), end.unwrap_or(self.to));
        Self {
            from: self.from + (start - self.to),
            to: start,
            length: end.saturating_sub(start),
        }
    }
}

/// Positions of the old text by the bytes that follow.
struct Index<'a> {
    old: &'a [u8],
    /// The last position of each hash.
    heads: Vec<u32>,
    /// The one before each, by number of the position.
    before: Vec<u32>,
}

impl<'a> Index<'a> {
    fn of(old: &'a [u8]) -> Self {
        let mut heads = vec![NONE; 1 << BUCKET_BITS];
        let count = old.len().saturating_sub(GRAM) / STEP;
        let mut before = vec![NONE; count];
        // The first positions come first in the lists, since texts are mostly alike from the start.
        for number in (0..count).rev() {
            let head = &mut heads[bucket(&old[number * STEP..])];
            before[number] = std::mem::replace(head, number as u32);
        }
        Self { old, heads, before }
    }

    fn longest(&self, new: &str, to: usize, expected: usize) -> Option<Copy> {
        let new = new.as_bytes();
        let there = Copy::between(self.old, new, expected, to);
        if there.length >= LEAST {
            return Some(there);
        }
        if new.len() - to < GRAM {
            return Some(there)
                .filter(|copy| copy.length > 0 && copy.to + copy.length == new.len());
        }
        let mut number = self.heads[bucket(&new[to..])];
        let mut longest: Option<Copy> = None;
        for _ in 0..MOST_CANDIDATES {
            if number == NONE {
                break;
            }
            let copy = Copy::between(self.old, new, number as usize * STEP, to);
            if copy.length >= GRAM && longest.is_none_or(|longest| copy.length > longest.length) {
                longest = Some(copy);
            }
            number = self.before[number as usize];
        }
        longest
    }
}

fn bucket(bytes: &[u8]) -> usize {
    let part = |from: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[from..from + 8]);
        u64::from_le_bytes(eight)
    };
    let mixed = (part(0) ^ part(GRAM - 8).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - BUCKET_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn applied(old: &str, parts: &[Part]) -> String {
        let (mut new, mut copied_to, mut numbers) = (Vec::new(), 0_i64, Vec::new());
        for part in parts {
            match part {
                Part::Text(text) => new.extend_from_slice(text.as_bytes()),
                Part::Number(number) => numbers.push(*number),
            }
            if let [skip, length] = *numbers {
                let from = copied_to + skip;
                copied_to = from + length;
                new.extend_from_slice(&old.as_bytes()[from as usize..copied_to as usize]);
                numbers.clear();
            }
        }
        String::from_utf8(new).unwrap()
    }

    #[test]
    fn a_text_that_changed_a_little_is_a_short_patch() {
        let line = |number: u32| {
            format!(
                "<text class=\"tick\" x=\"{number}\">{}</text>",
                number * 7919
            )
        };
        let old: String = (0..1_000).map(line).collect();
        let new: String = (3..1_003).map(line).collect();
        let parts = patch(&old, &new);
        assert_eq!(applied(&old, &parts), new);
        assert!(
            serde_json::to_string(&parts).unwrap().len() < 200,
            "{parts:?}"
        );
        assert_eq!(
            patch(&old, &old),
            [Part::Number(0), Part::Number(old.len() as i64)]
        );
    }

    proptest! {
        #[test]
        fn a_patch_gives_the_new_text(
            pieces in prop::collection::vec("[a-c·é▲😀]{0,40}", 1..12),
            order in prop::collection::vec(0_usize..12, 0..24),
            between in "[x▲]{0,20}",
        ) {
            let old = pieces.concat();
            let new: String =
                order.iter().map(|piece| pieces[piece % pieces.len()].clone() + &between).collect();
            prop_assert_eq!(applied(&old, &patch(&old, &new)), new);
        }
    }
}
