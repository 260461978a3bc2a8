//! Compares codecs for the devices' ticks of a day: bytes a value, and processor time for a chunk there and back.
//!
//! A chunk is ten minutes of a device, as the store has it. What SQLite adds, and roll-ups, are in the suite `day` of the
//! bench `store`. Results are kept in `benches/RESULTS.md`.

use std::io::{Read, Write};
use std::time::Instant;

use device::{Device, Habit};

#[path = "../../store/chance.rs"]
mod chance;
#[path = "../../store/device.rs"]
mod device;

/// The simulated devices also sum up their entropy, which is of no use here.
mod limit {
    pub fn bits_of_normal(_: f64) -> f64 {
        0.0
    }

    pub fn bits_of_count(_: f64) -> f64 {
        0.0
    }
}

/// Segments of a day, and the seconds of one.
const SEGMENTS: u64 = 144;
const ROWS: usize = 600;
/// As the simulated machine of the bench `store`: of its devices so many are busy, and the rest until 22 bursty.
const DEVICES: usize = 30;
const BUSY: usize = 12;
const BURSTY: usize = 22;
/// Values of a tick: 8 of each device, 10 fills and 8 of the host. Only the devices' are measured here.
const VALUES: f64 = 258.0;

/// A device's columns over a segment.
type Columns = Vec<Vec<u64>>;
type Encode = fn(&Columns) -> Vec<u8>;
type Decode = fn(&[u8]) -> usize;

fn main() {
    let chunks = day();
    let ticks = (SEGMENTS * ROWS as u64) as f64;
    println!(
        "| codec | a day of the devices' ticks | bytes a value | packing a chunk | unpacking |\n|---|---|---|---|---|"
    );
    let codecs: [(&str, Encode, Decode); 4] = [
        ("pco, each column by itself", pco_columns, pco_numbers),
        ("differences, not compressed", differences, <[u8]>::len),
        (
            "differences, zstd 3",
            |columns| zstd::bulk::compress(&differences(columns), 3).unwrap(),
            |chunk| zstd::bulk::decompress(chunk, 1 << 20).unwrap().len(),
        ),
        ("differences, DEFLATE 6 (flate2)", |columns| deflated(&differences(columns)), inflated),
    ];
    for (name, encode, decode) in codecs {
        let began = Instant::now();
        let encoded: Vec<Vec<u8>> = chunks.iter().map(encode).collect();
        let packing = began.elapsed() / chunks.len() as u32;
        let began = Instant::now();
        assert!(encoded.iter().map(|chunk| decode(chunk)).sum::<usize>() > 0);
        let unpacking = began.elapsed() / chunks.len() as u32;
        let bytes: usize = encoded.iter().map(Vec::len).sum();
        let (megabytes, a_value) = (bytes as f64 / 1e6, bytes as f64 / ticks / VALUES);
        println!("| {name} | {megabytes:.2} MB | {a_value:.3} | {packing:.0?} | {unpacking:.0?} |");
    }
}

/// Every chunk of a day: of each device, and of the first four together.
fn day() -> Vec<Columns> {
    let habit = |index| match index {
        _ if index < BUSY => Habit::Busy { has_backup: index < 4 },
        _ if index < BURSTY => Habit::Bursty,
        _ => Habit::Idle,
    };
    let devices = (0..DEVICES).map(|index| Device::new(habit(index), index as u64 + 1));
    let mut devices: Vec<Device> = devices.collect();
    let segments = (0..SEGMENTS).flat_map(|segment| {
        let mut columns = vec![vec![vec![0; ROWS]; device::COUNTERS]; DEVICES + 1];
        for row in 0..ROWS {
            for (index, device) in devices.iter_mut().enumerate() {
                let work = device.second(segment * ROWS as u64 + row as u64);
                for (column, number) in work.into_iter().enumerate() {
                    columns[index][column][row] = number;
                    columns[DEVICES][column][row] += if index < 4 { number } else { 0 };
                }
            }
        }
        columns
    });
    segments.collect()
}

/// As the store's codec: zigzag differences as varints, column by column.
fn differences(columns: &Columns) -> Vec<u8> {
    let mut bytes = Vec::new();
    for column in columns {
        let before = std::iter::once(&0).chain(column);
        for (number, before) in column.iter().zip(before) {
            let signed = number.wrapping_sub(*before) as i64;
            let mut left = ((signed << 1) ^ (signed >> 63)) as u64;
            while left >= 0x80 {
                bytes.push(left as u8 | 0x80);
                left >>= 7;
            }
            bytes.push(left as u8);
        }
    }
    bytes
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn inflated(chunk: &[u8]) -> usize {
    flate2::read::DeflateDecoder::new(chunk).read_to_end(&mut Vec::new()).unwrap()
}

/// Each column with its length before it.
fn pco_columns(columns: &Columns) -> Vec<u8> {
    let config = pco::ChunkConfig::default().with_compression_level(4);
    let packed = columns.iter().flat_map(|column| {
        let packed = pco::standalone::simple_compress(column, &config).unwrap();
        [(packed.len() as u16).to_le_bytes().to_vec(), packed].concat()
    });
    packed.collect()
}

fn pco_numbers(mut chunk: &[u8]) -> usize {
    let mut numbers = 0;
    while let Some((length, rest)) = chunk.split_first_chunk() {
        let (column, rest) = rest.split_at(u16::from_le_bytes(*length).into());
        numbers += pco::standalone::simple_decompress::<u64>(column).unwrap().len();
        chunk = rest;
    }
    numbers
}
