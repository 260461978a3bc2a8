//! Opens an archive, whatever compressed it, and computes its SHA-256 on the way. The content decides, not the name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use flate2::bufread::GzDecoder;
use sha2::{Digest, Sha256};

use super::{Examination, TarError, examine, is_zero};

/// Bytes that are read at once.
const BUFFER: usize = 256 * 1024;
/// Maximum bytes of a program's message.
const LONGEST_MESSAGE: u64 = 4096;
/// The memory that `xz` may use. Archives of `xz -9` need 65 MiB.
const XZ_MEMORY: &str = "-M512MiB";

/// Programs that decompress, each with the first bytes of its files and its package.
const DECOMPRESSORS: [Decompressor; 5] = [
    Decompressor {
        magic: b"\x28\xb5\x2f\xfd",
        command: &["zstd", "-dcq"],
        package: "zstd",
    },
    Decompressor {
        magic: b"\xfd7zXZ\0",
        command: &["xz", "-dcq", XZ_MEMORY],
        package: "xz-utils",
    },
    Decompressor {
        magic: b"BZh",
        command: &["bzip2", "-dcq"],
        package: "bzip2",
    },
    Decompressor {
        magic: b"\x04\x22\x4d\x18",
        command: &["lz4", "-dcq"],
        package: "lz4",
    },
    Decompressor {
        magic: b"\x89LZO\0",
        command: &["lzop", "-dcq"],
        package: "lzop",
    },
];
const GZIP: &[u8] = b"\x1f\x8b";

struct Decompressor {
    magic: &'static [u8],
    command: &'static [&'static str],
    package: &'static str,
}

/// An archive that was read through.
pub struct Verified {
    pub size: u64,
    pub sha256: String,
    /// `gzip`, or the program that decompresses it; `none` for a plain tar archive.
    pub compression: &'static str,
    pub examination: Examination,
}

/// Reads an archive through. Reports the share that was read. An error means that it could not be judged.
pub fn verify(path: &Path, progress: impl FnMut(f64) + Send) -> anyhow::Result<Verified> {
    let named = || format!("cannot read {}", path.display());
    // A pipe would block, and has no size.
    let before = std::fs::metadata(path).with_context(named)?;
    if !before.is_file() {
        bail!(
            "{} is not a regular file: expected an archive",
            path.display()
        );
    }
    let file = File::open(path).with_context(named)?;
    let mut input = BufReader::with_capacity(BUFFER, HashedFile::new(file, before.len(), progress));
    let (compression, examination) = decompressed(&mut input);
    // The checksum is that of the whole file, also if its start cannot be read.
    let rest = io::copy(&mut input, &mut io::sink());
    let hashed = input.into_inner();
    if let Some(error) = hashed.failure {
        bail!("cannot read {}: {error}", path.display());
    }
    rest.with_context(named)?;
    let after = hashed.input.metadata().with_context(named)?;
    if (after.len(), after.modified().ok()) != (before.len(), before.modified().ok())
        || hashed.read != after.len()
    {
        bail!(
            "{} changed while it was read: verify it again when it is complete",
            path.display()
        );
    }
    let examination = examination.with_context(|| format!("cannot judge {}", path.display()))?;
    let sha256 = hashed
        .hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Verified {
        size: after.len(),
        sha256,
        compression,
        examination,
    })
}

fn decompressed(input: &mut (impl BufRead + Send)) -> (&'static str, anyhow::Result<Examination>) {
    let head = match input.fill_buf() {
        Ok(head) => head,
        Err(error) => return ("none", Err(error.into())),
    };
    if head.is_empty() {
        let mut examination = Examination::default();
        examination
            .findings
            .add("The archive is an empty file.".into());
        return ("none", Ok(examination));
    }
    if head.starts_with(GZIP) {
        return ("gzip", gunzipped(input));
    }
    match DECOMPRESSORS
        .iter()
        .find(|program| head.starts_with(program.magic))
    {
        Some(program) => (program.command[0], program.decompress(input)),
        None => ("none", examine(input).map_err(anyhow::Error::new)),
    }
}

fn gunzipped(input: &mut impl BufRead) -> anyhow::Result<Examination> {
    let mut input = ErrorMemory {
        input: GzipMembers {
            decoder: Some(GzDecoder::new(input)),
            has_rest: false,
        },
        failure: None,
    };
    let examined = examine(&mut input);
    let broken = input.failure.map(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            "The compressed data ends early: the archive is truncated.".to_string()
        }
        _ => format!("The compressed data is damaged: {error}."),
    });
    let mut examination = with_broken_stream(examined, broken)?;
    if input.input.has_rest {
        examination
            .notes
            .add("There are other bytes behind the compressed data, which gzip ignores.".into());
    }
    Ok(examination)
}

/// Puts a broken stream first, since it causes what follows.
fn with_broken_stream(
    examined: Result<Examination, TarError>,
    broken: Option<String>,
) -> anyhow::Result<Examination> {
    let mut examination = match (examined, &broken) {
        (Ok(examination), _) => examination,
        (Err(TarError::Read(_)), Some(_)) => Examination::default(),
        (Err(error), _) => return Err(error.into()),
    };
    examination.findings.list.splice(0..0, broken);
    Ok(examination)
}

impl Decompressor {
    fn decompress(&self, input: &mut (impl Read + Send)) -> anyhow::Result<Examination> {
        let [name, arguments @ ..] = self.command else {
            bail!("a program has no name")
        };
        let mut child = match self.start(name, arguments) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!(
                    "expected the program {name} to decompress it, but it is not installed: apt-get install {}",
                    self.package
                )
            }
            started => started.with_context(|| format!("cannot start {name}"))?,
        };
        let (examined, message) = exchange(&mut child, input);
        let status = child
            .wait()
            .with_context(|| format!("cannot wait for {name}"))?;
        if !status.success() && message.to_ascii_lowercase().contains("memory") {
            bail!("{name} could not decompress it: {message}");
        }
        let broken = (!status.success()).then(|| match &*message {
            "" => format!("The compressed data is damaged: {name} ended with {status}."),
            message => format!("The compressed data is damaged: {name} reports \"{message}\"."),
        });
        with_broken_stream(examined, broken)
    }

    fn start(&self, name: &str, arguments: &[&str]) -> io::Result<Child> {
        let mut command = Command::new(name);
        command
            .args(arguments)
            .env("LC_ALL", "C")
            .env_remove("XZ_OPT")
            .env_remove("XZ_DEFAULTS");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// Feeds a program and examines its output; also returns the first line of its messages.
fn exchange(
    child: &mut Child,
    input: &mut (impl Read + Send),
) -> (Result<Examination, TarError>, String) {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        // A program that has failed takes no more. The rest is read for the checksum.
        scope.spawn(move || stdin.map(|mut stdin| io::copy(input, &mut stdin)));
        let messages = scope.spawn(move || stderr.map_or_else(String::new, message));
        let examined = match stdout {
            Some(stdout) => examine(stdout),
            None => Err(TarError::NotTar),
        };
        (examined, messages.join().unwrap_or_default())
    })
}

/// The first line of a program's messages. The others are read too, so that it does not block.
fn message(mut stderr: impl Read) -> String {
    let mut text = Vec::new();
    // What was read of a broken message is enough.
    let _ = stderr.by_ref().take(LONGEST_MESSAGE).read_to_end(&mut text);
    let _ = io::copy(&mut stderr, &mut io::sink());
    super::shown(
        text.trim_ascii()
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default(),
    )
}

/// Computes the checksum of what is read.
struct HashedFile<F> {
    input: File,
    hash: Sha256,
    read: u64,
    size: u64,
    progress: F,
    failure: Option<String>,
}

impl<F: FnMut(f64)> HashedFile<F> {
    fn new(input: File, size: u64, progress: F) -> Self {
        Self {
            input,
            hash: Sha256::new(),
            read: 0,
            size,
            progress,
            failure: None,
        }
    }
}

impl<F: FnMut(f64)> Read for HashedFile<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self
            .input
            .read(buffer)
            .inspect_err(|error| self.failure = Some(error.to_string()))?;
        self.hash.update(&buffer[..read]);
        self.read += read as u64;
        (self.progress)(self.read as f64 / self.size.max(1) as f64);
        Ok(read)
    }
}

/// The members of a gzip file, one after the other. Zeros may follow, as padding of a tape or disk.
struct GzipMembers<R> {
    /// `None` behind the last one.
    decoder: Option<GzDecoder<R>>,
    /// Whether anything but zeros follows.
    has_rest: bool,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let read = decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.begin_next()?;
        }
        Ok(0)
    }
}

impl<R: BufRead> GzipMembers<R> {
    /// Begins the next member, or reads what follows the last one.
    fn begin_next(&mut self) -> io::Result<()> {
        let Some(mut input) = self.decoder.take().map(GzDecoder::into_inner) else {
            return Ok(());
        };
        if input.fill_buf()?.first() == GZIP.first() {
            self.decoder = Some(GzDecoder::new(input));
            return Ok(());
        }
        while let rest = input.fill_buf()?
            && !rest.is_empty()
        {
            self.has_rest |= !is_zero(rest);
            let length = rest.len();
            input.consume(length);
        }
        Ok(())
    }
}

/// Remembers an error.
struct ErrorMemory<R> {
    input: R,
    failure: Option<io::Error>,
}

impl<R: Read> Read for ErrorMemory<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failure.is_some() {
            return Ok(0);
        }
        self.input.read(buffer).map_err(|error| {
            let kind = error.kind();
            if kind != ErrorKind::Interrupted {
                self.failure = Some(error);
            }
            kind.into()
        })
    }
}
