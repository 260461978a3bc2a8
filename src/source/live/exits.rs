//! How processes of running backups exited, from the kernel's taskstats: behind a compressor, no shell tells that `tar` was
//! killed. Only while backups or commands under `cowbell run` do, since the kernel then reports every exit on the host.
//!
//! Sources: `Documentation/accounting/taskstats.rst`, `include/uapi/linux/taskstats.h` and `genetlink.h`.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::processes::WatchedProcesses;
use super::{Part, PartReading, ReadResult};
use crate::source::files::{MAX_ANCESTORS, Root};

/// The kernel's buffer for exits between two ticks: some thousands.
const BUFFER_BYTES: libc::c_int = 4 << 20;
/// Parents of processes that have exited, which `/proc` no longer shows.
const MAX_PARENTS: usize = 8_192;
/// Maximum number of processes below watched ones.
const MAX_DESCENDANTS: usize = 256;
/// How often these are read, each by several system calls.
const DESCENDANTS_AGE: Duration = Duration::from_secs(5);
/// Maximum number of lines between two ticks, more than the kernel's buffer holds.
const MAX_LINES: usize = 16_384;

const HEADERS: usize = 20;
const CONTROL_FAMILY: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const TASKSTATS_GET: u8 = 1;
const REGISTER_CPUS: u16 = 3;
const DEREGISTER_CPUS: u16 = 4;
const OF_PROCESS: u16 = 4;
const STATS: u16 = 3;

/// The connection to taskstats while backups run.
pub struct ProcessExits {
    root: Root,
    /// `None` while no backup runs, or without the right to read exits.
    socket: Option<OwnedFd>,
    /// From systemd, for a service without a network; `None` to open one.
    inherited: Option<OwnedFd>,
    parents: HashMap<u32, u32>,
    /// What runs below each watched process, and that process. If a signal ends a process and the one above it, such as
    /// `timeout`, the kernel may say that its parent is 1.
    below: HashMap<u32, u32>,
    /// When these were read; `None` if that is due.
    below_at: Option<Instant>,
    /// Units of systemd of which a command failed. systemd may have been told to ignore that.
    failed_units: HashSet<u32>,
    lines: Vec<ExitLine>,
    /// The place of each line.
    places: HashMap<ExitKey, usize>,
}

/// What is reported of processes with the same key.
struct ExitLine {
    key: ExitKey,
    at_ms: i64,
    bytes: u64,
}

/// The threads of a process exit one by one, with the same name and status; and of programs that a script runs again and
/// again, only what all together copied counts.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ExitKey {
    /// The watched process.
    run: u32,
    relation: &'static str,
    status: u32,
    name: String,
    /// `None` after a success.
    parent: Option<u32>,
}

/// A process that has exited.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The thread's.
    pid: u32,
    /// The process's; `None` from kernels before 5.18.
    process: Option<u32>,
    parent: u32,
    /// Read and written by the thread.
    bytes: u64,
    /// As from `waitpid(2)`.
    status: u32,
    /// The second in which it exited.
    second: i64,
    name: String,
}

/// The kernel would go on sending to an inherited socket.
impl Drop for ProcessExits {
    fn drop(&mut self) {
        self.listen(false);
    }
}

impl ProcessExits {
    pub fn below(root: &Root) -> Self {
        Self {
            root: root.clone(),
            socket: None,
            inherited: None,
            parents: HashMap::new(),
            below: HashMap::new(),
            below_at: None,
            failed_units: HashSet::new(),
            lines: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Uses this socket in place of a new one.
    pub fn inherit(&mut self, socket: OwnedFd) {
        self.inherited = Some(socket);
    }

    /// Begins or ends listening. Without the right to listen, no exit is reported.
    pub fn listen(&mut self, is_wanted: bool) {
        self.expect_processes();
        if is_wanted && self.socket.is_none() {
            self.socket = connect(&self.root, self.inherited.as_ref()).ok();
        } else if !is_wanted && self.socket.take().is_some() {
            self.parents.clear();
            self.below.clear();
            self.failed_units.clear();
            // An inherited socket stays open, and systemd starts a reader for each message in it.
            if let Some(socket) = &self.inherited {
                let _ = register(&self.root, socket, DEREGISTER_CPUS);
                drain(socket);
            }
        }
    }

    /// Reads what runs below the watched processes at the next collection: a backup may be about to begin.
    pub fn expect_processes(&mut self) {
        self.below_at = None;
    }

    /// Collects the exits until now of these processes, and of those below them. A unit of systemd ends with status 0 if none
    /// of its commands failed; otherwise its status is not known.
    pub fn collect(&mut self, watched: &WatchedProcesses, at: Timestamp) {
        let Some(socket) = &self.socket else { return };
        let runs = watched.running();
        let mut exits = Vec::new();
        let mut buffer = [0; 8192];
        while let Ok(length) = receive(socket, &mut buffer) {
            exits.extend(parse(&buffer[..length]));
        }
        if self.parents.len() > MAX_PARENTS {
            self.parents.clear();
        }
        self.parents
            .extend(exits.iter().map(|exit| (exit.pid, exit.parent)));
        for exit in exits {
            // The second may be the one before. The end of a backup is not before what it did last.
            let at_ms = |slack_ms: i64| at.as_millisecond().min(exit.second * 1000 + slack_ms);
            let process = exit.process.unwrap_or(exit.pid);
            let unit = watched.unit_of(process);
            if process == exit.pid && exit.parent == 1 && exit.status != 0 {
                // One that has ended so soon that its unit is not known may be of any.
                let failed = watched
                    .units()
                    .filter(|other| unit.is_none_or(|it| it == *other));
                self.failed_units.extend(failed);
            }
            if runs.contains(&exit.pid) {
                self.report(exit.pid, "self", at_ms(1_999), &exit);
            } else if let Some(run) = self.run_above(process, exit.parent, &runs, watched) {
                let relation = match exit.process {
                    Some(process) if process != exit.pid && self.root.is_running(process) => {
                        "thread"
                    }
                    _ if run == exit.parent => "child",
                    _ => "descendant",
                };
                self.report(run, relation, at_ms(999), &exit);
            }
            // Another process may get its PID.
            self.below.remove(&exit.pid);
        }
        if self
            .below_at
            .is_none_or(|at| at.elapsed() >= DESCENDANTS_AGE)
        {
            self.below = self.descendants(&runs);
            self.below_at = Some(Instant::now());
        }
        for unit in watched.ending_units() {
            if !self.failed_units.contains(&unit) {
                self.report(unit, "self", at.as_millisecond(), &Exit::default());
            }
        }
    }

    fn report(&mut self, run: u32, relation: &'static str, at_ms: i64, exit: &Exit) {
        let key = ExitKey {
            run,
            relation,
            status: exit.status,
            name: exit.name.replace(char::is_control, "?"),
            parent: (exit.status != 0).then_some(exit.parent),
        };
        if let Some(line) = self.places.get(&key).map(|place| &mut self.lines[*place]) {
            line.bytes = line.bytes.saturating_add(exit.bytes);
            line.at_ms = at_ms;
        } else if self.lines.len() < MAX_LINES {
            self.places.insert(key.clone(), self.lines.len());
            let bytes = exit.bytes;
            self.lines.push(ExitLine { key, at_ms, bytes });
        }
    }

    /// The exits since the last reading: lines
    /// `RUN<TAB>MILLISECONDS<TAB>self|child|descendant|thread<TAB>STATUS<TAB>BYTES<TAB>NAME`.
    /// The time is the end of the second of the exit, of a backup itself of the next one, or that of the collection if earlier.
    pub fn read_new(&mut self) -> Option<PartReading> {
        self.places.clear();
        let mut text = String::new();
        for line in self.lines.drain(..) {
            let (run, relation, status) = (line.key.run, line.key.relation, line.key.status);
            let (at_ms, bytes, name) = (line.at_ms, line.bytes, line.key.name);
            _ = writeln!(
                text,
                "{run}\t{at_ms}\t{relation}\t{status}\t{bytes}\t{name}"
            );
        }
        (!text.is_empty()).then(|| PartReading::timed(Part::Exits, || Ok(text)))
    }

    /// The processes below these.
    fn descendants(&self, runs: &[u32]) -> HashMap<u32, u32> {
        let mut below = HashMap::new();
        for run in runs {
            let mut next = self.root.children(*run);
            while let Some(pid) = next.pop() {
                let is_new = !runs.contains(&pid) && !below.contains_key(&pid);
                if is_new && below.len() < MAX_DESCENDANTS {
                    below.insert(pid, *run);
                    next.extend(self.root.children(pid));
                }
            }
        }
        below
    }

    /// The watched process above one that has exited, or else its unit.
    fn run_above(
        &self,
        process: u32,
        parent: u32,
        runs: &[u32],
        watched: &WatchedProcesses,
    ) -> Option<u32> {
        // PIDs are reused, so a process that runs comes first.
        let above = |pid: &u32| {
            let parent = self.root.parent_of(*pid);
            parent.or_else(|| self.parents.get(pid).copied())
        };
        let chain = std::iter::successors(Some(parent), above).take(MAX_ANCESTORS);
        let chain: Vec<u32> = chain.collect();
        let run = chain.iter().copied().find(|pid| runs.contains(pid));
        let run = run.or_else(|| self.below.get(&process).copied());
        let mut members = std::iter::once(process).chain(chain);
        run.or_else(|| members.find_map(|pid| watched.unit_of(pid)))
    }
}

/// How what runs below this process exits: for `cowbell run`, whose command may hide that.
pub struct ExitsBelow {
    exits: ProcessExits,
    watched: WatchedProcesses,
}

impl ExitsBelow {
    /// Listens from now on. Without the right to, no exit is read.
    pub fn listen(root: &Root, is_wanted: bool) -> Self {
        let mut watched = WatchedProcesses::below(root);
        watched.watch(&[std::process::id()]);
        let mut exits = ProcessExits::below(root);
        exits.listen(is_wanted);
        Self { exits, watched }
    }

    /// The exits since the last call, as in a reading. The kernel keeps some thousands.
    pub fn read_new(&mut self, at: Timestamp) -> Option<String> {
        self.exits.collect(&self.watched, at);
        match self.exits.read_new()?.result {
            ReadResult::Text(text) => Some(text),
            _ => None,
        }
    }
}

fn connect(root: &Root, inherited: Option<&OwnedFd>) -> std::io::Result<OwnedFd> {
    let socket = inherited.map_or_else(open_netlink, OwnedFd::try_clone)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    let size = std::ptr::from_ref(&BUFFER_BYTES).cast();
    // SAFETY: the pointer is to a `c_int` of that length. Without the right, the usual size remains.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            size,
            size_of::<libc::c_int>() as u32,
        )
    };
    register(root, &socket, REGISTER_CPUS)?;
    let mut buffer = [0; 8192];
    // An answer is an error: the kernel confirms only what asks for it.
    match receive(&socket, &mut buffer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(socket),
        Ok(_) if parse(&buffer).is_some() => Ok(socket),
        Ok(_) => Err(std::io::ErrorKind::PermissionDenied.into()),
        Err(error) => Err(error),
    }
}

fn open_netlink() -> std::io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a new file descriptor, which nothing else owns.
    unsafe {
        let number = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC);
        if number < 0 {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(OwnedFd::from_raw_fd(number))
        }
    }
}

/// Discards messages that are left over.
fn drain(socket: &OwnedFd) {
    let mut buffer = [0; 8192];
    while receive(socket, &mut buffer).is_ok() {}
}

/// Begins or ends the messages on exits on all processors.
fn register(root: &Root, socket: &OwnedFd, command: u16) -> std::io::Result<()> {
    let mut buffer = [0; 8192];
    drain(socket);
    send(
        socket,
        &message(CONTROL_FAMILY, GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0"),
    )?;
    let length = receive(socket, &mut buffer)?;
    let reply = buffer.get(HEADERS..length).unwrap_or_default();
    let family = attributes(reply)
        .find(|(kind, _)| *kind == FAMILY_ID)
        .and_then(|(_, value)| number_u16(value));
    let family = family.ok_or(std::io::ErrorKind::Unsupported)?;
    let processors = fs::read_to_string(root.0.join("sys/devices/system/cpu/possible"))?;
    let mask = format!("{}\0", processors.trim());
    send(
        socket,
        &message(family, TASKSTATS_GET, command, mask.as_bytes()),
    )
}

/// A request with one attribute.
fn message(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = Vec::new();
    bytes.extend(((HEADERS + length.next_multiple_of(4)) as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((length as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(HEADERS + length.next_multiple_of(4), 0);
    bytes
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> std::io::Result<()> {
    // SAFETY: the pointer and length are of `bytes`.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> std::io::Result<usize> {
    // SAFETY: the pointer and length are of `buffer`.
    let length = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
        )
    };
    usize::try_from(length).map_err(|_| std::io::Error::last_os_error())
}

/// The type and value of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(number_u16(bytes)?);
        let kind = number_u16(bytes.get(2..)?)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The exit in a message of taskstats, if it is one.
pub fn parse(message: &[u8]) -> Option<Exit> {
    let (_, process) = attributes(message.get(HEADERS..)?).find(|(kind, _)| *kind == OF_PROCESS)?;
    let (_, stats) = attributes(process).find(|(kind, _)| *kind == STATS)?;
    // Offsets in `struct taskstats`, which only grows at its end.
    let name = stats.get(80..112)?.split(|byte| *byte == 0).next()?;
    // The kernel computes the second of the start from that of the exit and the elapsed microseconds, rounded down.
    let elapsed_us = number_u64(stats, 144)?;
    let second = i64::from(number_u32(stats.get(136..)?)?) + (elapsed_us / 1_000_000) as i64;
    Some(Exit {
        status: number_u32(stats.get(4..)?)?,
        second,
        name: String::from_utf8_lossy(name).into_owned(),
        // `read_char` and `write_char`.
        bytes: number_u64(stats, 216)?.saturating_add(number_u64(stats, 224)?),
        pid: number_u32(stats.get(128..)?)?,
        process: stats.get(368..).and_then(number_u32),
        parent: number_u32(stats.get(132..)?)?,
    })
}

fn number_u16(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?))
}

fn number_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(
        bytes.get(offset..offset + 8)?.try_into().ok()?,
    ))
}

fn number_u32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only where the kernel permits it, as for root outside containers.
    #[test]
    fn exits_of_descendants_are_reported() {
        let mut exits = ProcessExits::below(&Root("/".into()));
        exits.listen(true);
        if exits.socket.is_none() {
            eprintln!("taskstats cannot be read here");
            return;
        }
        let script = "sh -c 'exit 3' | true; sh -c 'kill -KILL $$' | true; true";
        std::process::Command::new("sh")
            .args(["-c", script])
            .status()
            .unwrap();
        let mut watched = WatchedProcesses::below(&Root("/".into()));
        watched.watch(&[std::process::id()]);
        exits.collect(&watched, Timestamp::from_millisecond(5).unwrap());
        let read = exits.read_new().unwrap();
        let text = read.result.text().unwrap();
        let own = std::process::id();
        assert!(
            text.contains(&format!("{own}\t5\tdescendant\t768\t")),
            "{text}"
        );
        assert!(
            text.contains(&format!("{own}\t5\tdescendant\t9\t")),
            "{text}"
        );
    }

    #[test]
    fn the_exit_of_a_process_is_reported_though_the_one_above_it_was_killed_first() {
        let root = Root("/".into());
        let mut exits = ProcessExits::below(&root);
        exits.listen(true);
        if exits.socket.is_none() {
            eprintln!("taskstats cannot be read here");
            return;
        }
        let mut watched = WatchedProcesses::below(&root);
        watched.watch(&[std::process::id()]);
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 1000; true"])
            .spawn()
            .unwrap();
        let kill = |pid: u32| {
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        };
        let started = |_: u32| {
            std::thread::sleep(Duration::from_millis(10));
            root.children(shell.id()).first().copied()
        };
        let sleep = (0..500).find_map(started).expect("the shell's child");
        exits.collect(&watched, Timestamp::now());
        exits.read_new();
        kill(shell.id());
        shell.wait().unwrap();
        kill(sleep);
        let killed = |_: u32| {
            std::thread::sleep(Duration::from_millis(10));
            exits.collect(&watched, Timestamp::now());
            let read = exits.read_new();
            let text = read.as_ref().map_or("", |read| read.result.text().unwrap());
            // Other tests kill processes too.
            let is_it =
                |line: &str| line.contains("\tdescendant\t9\t") && line.ends_with("\tsleep");
            text.lines().any(is_it)
        };
        assert!((0..500).any(killed));
    }

    proptest::proptest! {
        #[test]
        fn any_message_parses_without_panic(bytes: Vec<u8>) {
            parse(&bytes);
            attributes(&bytes).count();
        }
    }
}
