//! What the store costs: `cargo bench --bench store -- SUITE…`, the suites being those of [`SUITES`].
//!
//! A simulated machine's ticks go through the store as the program's own do. Nothing here is asserted: machines differ.
//! `$FOLDER` says where databases are made, by default where temporary files are; on a device that nobody else writes to,
//! the device's own counter tells what the file system adds. Results are kept in `benches/RESULTS.md`.

mod chance;
mod device;
mod exposed;
mod feed;
mod job;
mod limit;
mod machine;
mod meter;
mod pages;
mod plain_rows;
mod prometheus;
mod reads;
mod suites;

const SUITES: &str = "\
day         24 h of 30 devices and 10 volumes in a fast loop: size, processor time, reading back, export (the default)
written     6 h of the same: bytes written
weeks       six weeks, so that the ticks of two are rolled up
year        a year of 3 devices
thousand    1,000 devices for an hour
real        at one tick a second for $MINUTES (22) minutes, Prometheus beside it where it is installed
rows        half an hour as plain SQLite rows
prometheus  24 h as blocks of Prometheus, made by promtool
job         12 h, and what a job of 11 of them cost: how long it takes to say
pages       a day of 24 devices, of which 8 are PVs: how long pages take, and what open pages cost
month       30 days, a tick every 30 s: how long pages take
limit       24 h: how small the counters can be at all";

fn main() {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let suites = if named.is_empty() {
        vec!["day".to_string()]
    } else {
        named
    };
    // As the daemon has it: the loop on the main thread, the rest on one other.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    for suite in suites {
        println!("\n## {suite} (load before: {})\n", meter::load());
        runtime.block_on(run(&suite));
        println!("\nload after: {}", meter::load());
    }
}

async fn run(suite: &str) {
    match suite {
        "day" => suites::day().await,
        "written" => suites::written().await,
        "weeks" => suites::long(machine::Size::USUAL, 42).await,
        "year" => suites::long(machine::Size::SMALL, 365).await,
        "thousand" => suites::thousand().await,
        "real" => suites::real().await,
        "rows" => suites::rows().await,
        "prometheus" => suites::prometheus(),
        "job" => suites::job().await,
        "pages" => suites::pages(1).await,
        "month" => suites::pages(30).await,
        "limit" => suites::limit(),
        _ => println!("there is no suite `{suite}`; these are:\n{SUITES}"),
    }
}
