//! Long runs of zeros.

const PART: usize = 64 * 1024;
static ZEROS: [u8; PART] = [0; PART];

pub fn is_zero(bytes: &[u8]) -> bool {
    // Almost always the first bytes answer it.
    bytes.chunks(PART).all(|part| *part == ZEROS[..part.len()])
}

/// The number of bytes up to the last that is not zero.
pub fn used_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1)
}

/// Passes on so many zeros.
pub fn each(mut count: u64, part: &mut impl FnMut(&[u8])) {
    while count > 0 {
        let length = count.min(PART as u64) as usize;
        part(&ZEROS[..length]);
        count -= length as u64;
    }
}
