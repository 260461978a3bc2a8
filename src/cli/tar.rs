//! Writes tar archives of small files.

use std::io::Write;

use jiff::Timestamp;

const BLOCK: usize = 512;
/// Two empty blocks end an archive.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Writes a file that only its owner can read. The name has at most 100 bytes.
pub fn write_member(
    archive: &mut impl Write,
    name: &str,
    at: Timestamp,
    content: &[u8],
) -> std::io::Result<()> {
    let mut header = [0; BLOCK];
    let mut put = |start: usize, text: &str| {
        header[start..start + text.len()].copy_from_slice(text.as_bytes())
    };
    put(0, name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, &format!("{:011o}\0", at.as_second().max(0)));
    // The checksum is of a header with spaces in its place.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.write_all(&header)?;
    archive.write_all(content)?;
    archive.write_all(&END[..content.len().next_multiple_of(BLOCK) - content.len()])
}
