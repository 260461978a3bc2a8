//! What `cowbell run` costs the command that it runs: `cargo bench --bench run`.
//!
//! A daemon watches this machine. `true` is run alone and under `cowbell run`, in turns, so that what else the machine
//! does meets both alike; then a megabyte after another is copied, in turns as well. Nothing here is asserted: machines
//! differ. Results are kept in `benches/RESULTS.md`. `RUNS=1000` takes more turns.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LISTEN: &str = "127.0.0.1:26922";
/// Copied in one turn, from memory to nowhere and from memory to a file.
const MIB: u32 = 1024;

fn main() {
    let runs = std::env::var("RUNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(300);
    let folder = tempfile::tempdir().expect("a folder for the database");
    let mut daemon = start(folder.path());
    println!(
        "| what | alone | under `cowbell run` | difference | ratio | turns |\n|---|---|---|---|---|---|"
    );
    compare("`true`, daemon up", runs, || Command::new("true"));
    let nowhere = || dd("/dev/null".into(), "");
    compare(&format!("`dd`, {MIB} MiB to nowhere"), 31, nowhere);
    let file = folder.path().join("copied");
    let to_file = || dd(file.display().to_string(), "conv=fdatasync");
    compare(&format!("`dd`, {MIB} MiB to a file, synced"), 15, to_file);
    daemon
        .kill()
        .and_then(|()| daemon.wait())
        .expect("the daemon ends");
    compare("`true`, no daemon", runs, || Command::new("true"));
}

fn start(folder: &std::path::Path) -> Child {
    let daemon = cowbell()
        .args(["serve", "--db"])
        .arg(folder.join("cowbell.db"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the daemon starts");
    // What is done once, at the start, is not the cost of a run.
    std::thread::sleep(Duration::from_secs(3));
    daemon
}

fn cowbell() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cowbell"));
    command.args(["--listen", LISTEN, "--config", "/dev/null"]);
    command
}

fn dd(to: String, option: &str) -> Command {
    let mut command = Command::new("dd");
    command.args([
        "if=/dev/zero",
        "bs=1M",
        &format!("count={MIB}"),
        &format!("of={to}"),
    ]);
    command.args(Some(option).filter(|option| !option.is_empty()));
    command
}

/// Runs both in turns and prints the medians.
fn compare(what: &str, turns: usize, command: impl Fn() -> Command) {
    let (mut alone, mut under) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        let plain = command();
        let mut wrapped = cowbell();
        wrapped
            .args(["run", "--name", "bench", "--"])
            .arg(plain.get_program())
            .args(plain.get_args());
        // Who goes first changes, so that none is always the one after the other.
        if turn % 2 == 0 {
            alone.push(timed(plain));
            under.push(timed(wrapped));
        } else {
            under.push(timed(wrapped));
            alone.push(timed(plain));
        }
    }
    let (alone, under) = (median(alone), median(under));
    println!(
        "| {what} | {alone:.2} ms | {under:.2} ms | {:.2} ms | {:.3} | {turns} |",
        under - alone,
        under / alone
    );
}

/// Milliseconds from the start to the end, as who waits for it sees it.
fn timed(mut command: Command) -> f64 {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status().expect("the command runs");
    assert!(status.success(), "{command:?} fails");
    began.elapsed().as_secs_f64() * 1000.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
