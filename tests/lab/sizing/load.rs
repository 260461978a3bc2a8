//! What writes to a volume in a virtual minute: simulated writers, or statements to a real MariaDB.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};

use crate::aio::{self, Writer};
use crate::cases::{Case, FILE_BYTES, MIB, Place};
use crate::workload::Generator;

/// Transactions of the database in a minute.
const TRANSACTIONS: u64 = 40;

pub enum Load {
    /// Past the page cache.
    Disk(Generator, File),
    /// Through the page cache and the file system, synced at the end of each minute.
    File(Generator, File),
    Database(Client),
}

/// A client of the database.
pub struct Client {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    seed: u64,
    _process: Child,
}

impl Load {
    pub fn start(case: &Case, seed: u64) -> anyhow::Result<Self> {
        let folder = format!("/mnt/{}", case.name);
        Ok(match case.place {
            Place::Raw(kind) | Place::Thin(kind, _) => Self::Disk(
                Generator::new(kind, case.size, seed),
                aio::open(&case.device())?,
            ),
            Place::File(kind) => {
                let file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(folder + "/file")?;
                for mebibyte in 0..FILE_BYTES / MIB {
                    file.write_all_at(&[1; MIB as usize], mebibyte * MIB)?;
                }
                file.sync_all()?;
                Self::File(Generator::new(kind, FILE_BYTES, seed), file)
            }
            Place::Database => Self::Database(Client::start(seed)?),
        })
    }

    pub fn reseed(&mut self, seed: u64) {
        match self {
            Self::Disk(generator, _) | Self::File(generator, _) => generator.reseed(seed),
            Self::Database(client) => client.seed = seed,
        }
    }

    pub fn minute(&mut self, writer: &mut Writer) -> anyhow::Result<()> {
        match self {
            Self::Disk(generator, disk) => writer.write(disk, &generator.minute())?,
            Self::File(generator, file) => {
                for write in generator.minute() {
                    file.write_all_at(&[2; 4096], write.offset)?;
                }
                file.sync_data()?;
            }
            Self::Database(client) => client.work()?,
        }
        Ok(())
    }
}

impl Client {
    fn start(seed: u64) -> anyhow::Result<Self> {
        let mut process = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--socket=/run/mysqld/mysqld.sock",
                "--unbuffered",
                "-N",
                "shop",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a client of MariaDB")?;
        let (input, output) = process
            .stdin
            .take()
            .zip(process.stdout.take())
            .context("no pipes")?;
        Ok(Self {
            input,
            output: BufReader::new(output),
            seed,
            _process: process,
        })
    }

    /// Runs the procedure `work`, which the scenario made.
    fn work(&mut self) -> anyhow::Result<()> {
        self.seed = self.seed.wrapping_add(1);
        writeln!(
            self.input,
            "CALL work({TRANSACTIONS}, {}); SELECT 'done';",
            self.seed % 1_000_000_007
        )?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(
            line.trim() == "done",
            "expected \"done\" of MariaDB, but found {line:?}"
        );
        Ok(())
    }
}
