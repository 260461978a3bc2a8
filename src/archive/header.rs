//! The fields of tar's headers: names, numbers, checksums, PAX records and maps of sparse files.
//!
//! Sources: `src/tar.h` of GNU tar 1.34 and pax(1).

pub const BLOCK: usize = 512;

/// What extended headers say about the next member.
#[derive(Default)]
pub struct Extended {
    pub name: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub is_sparse: bool,
}

impl Extended {
    pub fn take(&mut self, kind: u8, mut text: Vec<u8>) -> Option<()> {
        match kind {
            b'L' => {
                text.truncate(
                    text.iter()
                        .position(|byte| *byte == 0)
                        .unwrap_or(text.len()),
                );
                self.name = Some(text);
            }
            b'x' => self.take_pax(&text)?,
            _ => {}
        }
        Some(())
    }

    /// Records `LENGTH KEY=VALUE\n`, where the length counts the whole record.
    fn take_pax(&mut self, mut text: &[u8]) -> Option<()> {
        while !text.is_empty() {
            let space = text.iter().position(|byte| *byte == b' ')?;
            let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
            let record = text.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" | b"GNU.sparse.name" => self.name = Some(value.to_vec()),
                b"size" => self.size = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
                _ => {}
            }
            self.is_sparse |= key.starts_with(b"GNU.sparse.");
            text = &text[length..];
        }
        Some(())
    }
}

pub fn name(block: &[u8; BLOCK]) -> Vec<u8> {
    let text = |field: &[u8]| {
        field
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec()
    };
    let (mut prefix, name) = (text(&block[345..500]), text(&block[..100]));
    if &block[257..263] != b"ustar\0" || prefix.is_empty() {
        return name;
    }
    prefix.push(b'/');
    prefix.extend(name);
    prefix
}

/// Octal digits, or with the highest bit set a binary number. `None` if invalid, negative or beyond the limit of files.
pub fn number(field: &[u8]) -> Option<u64> {
    let value = if field[0] == 0x80 {
        field[1..].iter().try_fold(0u64, |sum, byte| {
            sum.checked_mul(256)?.checked_add((*byte).into())
        })?
    } else {
        let text = std::str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
        if text.is_empty() {
            0
        } else {
            u64::from_str_radix(text, 8).ok()?
        }
    };
    (value <= i64::MAX as u64).then_some(value)
}

pub fn has_checksum(block: &[u8; BLOCK]) -> bool {
    let field = 148..156;
    let bytes = block.iter().enumerate();
    let sum: u64 = bytes
        .map(|(at, byte)| {
            if field.contains(&at) {
                32
            } else {
                u64::from(*byte)
            }
        })
        .sum();
    number(&block[field]) == Some(sum)
}

/// Offsets and lengths, up to the first empty entry.
pub fn segments(fields: &[u8]) -> Option<Vec<(u64, u64)>> {
    let used = fields.chunks_exact(24).take_while(|entry| entry[0] != 0);
    used.map(|entry| Some((number(&entry[..12])?, number(&entry[12..])?)))
        .collect()
}

/// The segments must be in order, within the file, and as long as what is stored.
pub fn check_segments(segments: &[(u64, u64)], size: u64, all_stored: u64) -> Option<()> {
    let mut place = 0u64;
    let mut stored = 0u64;
    for (offset, length) in segments {
        (*offset >= place).then_some(())?;
        place = offset.checked_add(*length)?;
        stored += length;
    }
    (place <= size && stored == all_stored).then_some(())
}
