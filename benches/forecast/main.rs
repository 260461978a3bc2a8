//! How good the forecast is: `cargo bench --bench forecast`, or `-- tuning`, `-- all`, `-- judging kinds`.
//!
//! It forecasts after each second of the recorded courses, and compares with what came; beside it, straight lines. The
//! results are in `benches/RESULTS.md`.

mod course;
mod score;

use std::collections::BTreeSet;
use std::time::Instant;

use course::{Course, courses};
use cowbell::forecast::Risk;
use score::{Alarms, Event, EventScore, Poll, Said, VerdictScore, percentile};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let all = courses();
    let is_wanted = |course: &&Course| has("all") || course.is_for_judging() != has("tuning");
    let wanted: Vec<&Course> = all.iter().filter(is_wanted).collect();
    let start = Instant::now();
    let own = score::polls(&wanted, 1, |course| score::forecast(course, 1));
    let took_ms = start.elapsed().as_secs_f64() * 1e3 / own.len() as f64;
    println!(
        "{} courses, {} polls, {took_ms:.3} ms each\n",
        wanted.len(),
        own.len()
    );
    for (name, event) in [("done", Event::Done), ("full", Event::Full)] {
        println!(
            "| {name} | 10 % | 25 % | 50 % | 75 % | all | in the range | below, above | width | nothing said |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        row("cowbell", &own, event);
        for (name, seconds, is_fitted) in LINES {
            row(
                name,
                &score::polls(&wanted, 1, |course| score::line(course, seconds, is_fitted)),
                event,
            );
        }
        println!();
    }
    verdicts(&own);
    alarms(&own);
    let (held, width) = score::growth(&own);
    println!(
        "growth until done: {:.1} % below the upper end, which is {width:.2} times what came (median)",
        held * 100.0
    );
    if has("kinds") {
        kinds(&own);
    }
}

const LINES: [(&str, f64, bool); 4] = [
    ("line through 20 s", 20.0, false),
    ("line through 60 s", 60.0, false),
    ("`predict_linear`, 1 min", 60.0, true),
    ("`predict_linear`, 10 min", 600.0, true),
];

/// Median and 90th percentile of the errors.
fn row(name: &str, polls: &[Poll], event: Event) {
    let mut score = EventScore::of(polls, event);
    let mut columns: Vec<String> = score.errors.iter_mut().map(|errors| two(errors)).collect();
    columns.push(two(&mut score.all));
    columns.extend(match score.widths.iter().any(|width| width.is_finite()) {
        true => [
            format!("{:.1} %", score.share_in(0) * 100.0),
            format!(
                "{:.1} %, {:.1} %",
                score.share_in(1) * 100.0,
                score.share_in(2) * 100.0
            ),
            format!("{:.0} %", percentile(&mut score.widths, 0.5) * 100.0),
        ],
        false => ["–".into(), "–".into(), "–".into()],
    });
    columns.push(format!("{:.1} %", score.silent_share() * 100.0));
    println!("| {name} | {} |", columns.join(" | "));
}

/// `12.0 (54)`
fn two(errors: &mut [f64]) -> String {
    format!(
        "{:.1} ({:.0})",
        percentile(errors, 0.5) * 100.0,
        percentile(errors, 0.9) * 100.0
    )
}

fn verdicts(polls: &[Poll]) {
    let mut score = VerdictScore::of(polls);
    println!(
        "verdicts: {} right, {} wrong ({:.1} %), {} undecided ({:.1} %: {} in the {} polls of close races, {} with a time unknown), {} too early; the first right one {:.0} s before the event (median)",
        score.right,
        score.wrong,
        score.wrong_share() * 100.0,
        score.open,
        score.open_share() * 100.0,
        score.close,
        score.races,
        score.unknown,
        score.unsaid,
        percentile(&mut score.leads_s, 0.5),
    );
}

fn alarms(polls: &[Poll]) {
    for (name, risk) in [("a race", Risk::Race), ("a high risk", Risk::High)] {
        let mut alarms = Alarms::of(polls, risk);
        println!(
            "{name} for 10 s: in {} of {} lost backups, {:.0} s before the end (median), and in {} of {} good ones",
            alarms.warned,
            alarms.lost,
            percentile(&mut alarms.leads_s, 0.5),
            alarms.false_alarms,
            alarms.good
        );
    }
}

fn kinds(polls: &[Poll]) {
    let kinds: BTreeSet<&str> = polls.iter().map(|poll| poll.course.kind.as_str()).collect();
    for kind in kinds {
        let of_kind: Vec<Poll> = polls
            .iter()
            .filter(|poll| poll.course.kind == kind)
            .map(|poll| Poll {
                course: poll.course,
                tick: poll.tick,
                said: Said { ..poll.said },
            })
            .collect();
        println!();
        row(&format!("{kind}, done"), &of_kind, Event::Done);
        row(&format!("{kind}, full"), &of_kind, Event::Full);
        verdicts(&of_kind);
    }
}
