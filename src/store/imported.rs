//! Files of jobs that were brought here from other hosts: kept beside their jobs, compressed, and gone with them.

use std::io::{Read, Write};

use anyhow::Context;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::StoreReader;
use super::readers::Reader;

/// A file that unpacks to more is none of ours: what is taken in is shorter.
const LONGEST: u64 = 256 * 1024 * 1024;

/// A file as it is kept.
pub fn packed(file: &str) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(file.as_bytes())?;
    packer.finish()
}

impl StoreReader {
    /// The file of an imported job; `None` where there is none of this key.
    pub async fn imported(&self, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
        self.check_open()?;
        let question = sqlx::query_scalar("SELECT file FROM imported WHERE key = ?").bind(key.to_string());
        let reading =
            |mut connection: Reader| async move { Ok(question.fetch_optional(&mut *connection).await?) };
        let named = || format!("cannot read the file of the job {key}");
        let file: Option<Vec<u8>> = self.readers.read(reading).await.with_context(named)?;
        file.map(|file| unpacked(&file)).transpose().with_context(named)
    }
}

fn unpacked(file: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    GzDecoder::new(file).take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}
