//! Numbers of variable length: seven bits in a byte, the lowest first, the top bit set where more follow.

/// A number of 64 bits has no more.
pub const MOST_BYTES: usize = 10;

pub fn write(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// How many bytes [`write`] takes for a number.
pub fn length(number: u64) -> usize {
    // A division by seven, for 1 to 64 bits, without dividing.
    (bits(number | 1) as usize * 9 + 64) / 64
}

/// How many bits a number has from its highest that is set.
pub fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// The difference of two numbers as a small one where they are near each other, whichever is larger.
pub fn difference(number: u64, from: u64) -> u64 {
    let signed = number.wrapping_sub(from) as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

/// The number that has this [`difference`] from another.
pub fn apart(difference: u64, from: u64) -> u64 {
    let signed = (difference >> 1) as i64 ^ -((difference & 1) as i64);
    from.wrapping_add(signed as u64)
}
