//! Numbers at the narrowest width that holds them, packed by pco.
//!
//! Zeros that all numbers have at the bottom are cut off (sectors are mostly multiples of eight), and the smallest is
//! taken away from all where this makes them narrower: pco's own description of them is then shorter as well. One byte
//! says how many zeros and which width, a varint the smallest.

use pco::data_types::Number;
use pco::errors::PcoResult;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};

use super::damaged::Damage;
use super::reader::Reader;
use super::varint;

/// Eight would be 1 % smaller for half as much time again.
const LEVEL: usize = 4;

/// What pco writes at the beginning of a file, which a chunk has no room for: its format, 4.1.
pub const PCO_HEADER: [u8; 2] = [4, 1];

/// What a packed column begins with: numbers as they are, or the differences from one to the next. Pco knows more, which
/// is not made here and so not read either.
const PLAIN: u8 = 0x00;
const STEPWISE: u8 = 0x10;

/// What pco's description of a bin takes, about; half of it, because every other number is looked at.
const BITS_OF_A_BIN: f32 = 12.0;

/// The widths, in the two highest bits of the first byte.
const BITS_16: u8 = 0;
const BITS_32: u8 = 1;
const BITS_64: u8 = 2;

/// `None` if pco cannot. At least one number.
pub fn smallest(numbers: &[u64]) -> Option<Vec<u8>> {
    let zeros = numbers.iter().fold(0, |any, number| any | number).trailing_zeros().min(63);
    let least = numbers.iter().min()? >> zeros;
    let most = numbers.iter().max()? >> zeros;
    let width = width_of(most - least);
    let base = if width < width_of(most) { least } else { 0 };
    let mut bytes = vec![zeros as u8 | width << 6];
    varint::write(base, &mut bytes);
    let narrow = numbers.iter().map(|number| (number >> zeros) - base);
    match width {
        BITS_16 => pack(&narrow.map(|number| number as u16).collect::<Vec<_>>(), &mut bytes)?,
        BITS_32 => pack(&narrow.map(|number| number as u32).collect::<Vec<_>>(), &mut bytes)?,
        _ => pack(&narrow.collect::<Vec<_>>(), &mut bytes)?,
    }
    Some(bytes)
}

pub fn read(count: usize, reader: &mut Reader) -> Result<Vec<u64>, Damage> {
    let head = reader.byte()?;
    let base = reader.number()?;
    let packed = reader.rest();
    let wide = |narrow: u64| narrow.wrapping_add(base) << (head & 63);
    match head >> 6 {
        BITS_16 => unpack::<u16>(count, packed, |narrow| wide(narrow.into())),
        BITS_32 => unpack::<u32>(count, packed, |narrow| wide(narrow.into())),
        BITS_64 => unpack::<u64>(count, packed, wide),
        _ => Err(Damage::Packing(head)),
    }
}

fn width_of(number: u64) -> u8 {
    match varint::bits(number) {
        0..=16 => BITS_16,
        17..=32 => BITS_32,
        _ => BITS_64,
    }
}

fn pack<T: Number + Into<u64>>(numbers: &[T], bytes: &mut Vec<u8>) -> Option<()> {
    let config = ChunkConfig::default()
        .with_compression_level(LEVEL)
        .with_mode_spec(ModeSpec::Classic)
        .with_delta_spec(likely_smaller(numbers));
    let mut compressor = FileCompressor::default().chunk_compressor(numbers, &config).ok()?;
    compressor.write_meta(&mut *bytes).ok()?;
    compressor.write_page(0, bytes).ok()?;
    Some(())
}

/// Whether the differences from one number to the next pack better than the numbers, judged by every other one.
fn likely_smaller<T: Copy + Into<u64>>(numbers: &[T]) -> DeltaSpec {
    let (mut plain, mut stepwise) = ([0; 65], [0; 65]);
    for pair in numbers.chunks_exact(2) {
        let (number, next) = (pair[0].into(), pair[1].into());
        plain[varint::bits(next) as usize] += 1;
        stepwise[varint::bits(varint::difference(next, number)) as usize] += 1;
    }
    if likely_bits(&stepwise) < likely_bits(&plain) { DeltaSpec::TryConsecutive(1) } else { DeltaSpec::NoOp }
}

/// What pco takes for so many numbers of each length is near this: its bins, which of them a number is in, and where in
/// the bin. Here a length is a bin.
fn likely_bits(lengths: &[u32; 65]) -> f32 {
    let all = lengths.iter().sum::<u32>() as f32;
    let bits = |(length, count): (usize, &u32)| {
        let count = *count as f32;
        BITS_OF_A_BIN + count * (length.saturating_sub(1) as f32 + (all / count).log2())
    };
    lengths.iter().enumerate().filter(|(_, count)| **count > 0).map(bits).sum()
}

fn unpack<T: Number + Default>(
    count: usize,
    bytes: &[u8],
    wide: impl Fn(T) -> u64,
) -> Result<Vec<u64>, Damage> {
    match bytes.first() {
        Some(&PLAIN | &STEPWISE) => {}
        Some(other) => return Err(Damage::Packing(*other)),
        None => return Err(Damage::Ends),
    }
    let mut narrow = vec![T::default(); count];
    let left = fill(&mut narrow, bytes).map_err(|error| Damage::Packed(error.to_string()))?;
    if left > 0 {
        return Err(Damage::GoesOn(left));
    }
    Ok(narrow.into_iter().map(wide).collect())
}

/// How many bytes are left.
fn fill<T: Number>(numbers: &mut [T], bytes: &[u8]) -> PcoResult<usize> {
    let (file, _) = FileDecompressor::new(&PCO_HEADER[..])?;
    let (mut chunk, page) = file.chunk_decompressor::<T, _>(bytes)?;
    let mut page = chunk.page_decompressor(page, numbers.len())?;
    page.read(numbers)?;
    Ok(page.into_src().len())
}
