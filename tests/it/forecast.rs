//! The forecast of the recorded courses that are for judging, as `cargo bench --bench forecast` measures it, must not
//! become worse. The limits are a little above what was measured.

#[path = "../../benches/forecast/course.rs"]
mod course;
#[path = "../../benches/forecast/score.rs"]
mod score;

use course::{Course, courses};
use cowbell::forecast::Risk;
use score::{Alarms, Event, EventScore, VerdictScore, percentile};

use crate::daemon::Start;

/// A debug build takes a second for every tenth tick.
const EVERY: usize = 10;

#[test]
fn the_forecast_is_as_good_as_it_was() {
    let all = courses();
    let judging: Vec<&Course> = all
        .iter()
        .filter(|course| course.is_for_judging())
        .collect();
    let kinds: std::collections::BTreeSet<&str> = all.iter().map(|course| &*course.kind).collect();
    assert!(all.len() >= 40 && kinds.len() >= 10 && judging.len() * 2 == all.len());
    let own = score::polls(&judging, EVERY, |course| score::forecast(course, EVERY));
    let line = score::polls(&judging, EVERY, |course| score::line(course, 20.0, false));
    for (event, median, width) in [(Event::Done, 0.03, 0.2), (Event::Full, 0.09, 0.6)] {
        let (mut score, mut line) = (EventScore::of(&own, event), EventScore::of(&line, event));
        assert!(
            percentile(&mut score.all, 0.5) <= median,
            "{}",
            percentile(&mut score.all, 0.5)
        );
        assert!(percentile(&mut score.all, 0.5) <= percentile(&mut line.all, 0.5));
        assert!(
            (0.86..=0.95).contains(&score.share_in(0)),
            "{}",
            score.share_in(0)
        );
        assert!(
            percentile(&mut score.widths, 0.5) <= width,
            "{}",
            percentile(&mut score.widths, 0.5)
        );
        assert!(score.silent_share() <= 0.1, "{}", score.silent_share());
    }
    // Here the disk is the limit, so the read speed changes.
    let mut slowing = judging.clone();
    slowing.retain(|course| course.kind == "slowing");
    let polls = score::polls(&slowing, 1, |course| score::forecast(course, 1));
    let share = EventScore::of(&polls, Event::Done).share_in(0);
    assert!(share >= 0.87, "{share}");
    let mut verdicts = VerdictScore::of(&own);
    assert!(
        verdicts.wrong_share() <= 0.01,
        "{} of {}",
        verdicts.wrong,
        verdicts.right
    );
    assert!(verdicts.open_share() <= 0.42, "{}", verdicts.open);
    assert!(verdicts.unsaid * 10 <= own.len(), "{}", verdicts.unsaid);
    assert!(percentile(&mut verdicts.leads_s, 0.5) >= 60.0);
    let mut races = Alarms::of(&own, Risk::Race);
    assert_eq!(
        races.warned, races.lost,
        "every lost backup was a race before"
    );
    assert!(percentile(&mut races.leads_s, 0.5) >= 60.0);
    let high = Alarms::of(&own, Risk::High);
    assert!(
        high.warned == high.lost && high.false_alarms * 3 <= high.good,
        "{} {}",
        high.warned,
        high.false_alarms
    );
    let (held, width) = score::growth(&own);
    assert!(held >= 0.95 && width <= 1.8, "{held} {width}");
}

/// At each poll with an advice: whether the backup is saved by it, if its growth was recorded to the end.
fn is_saved(poll: &score::Poll) -> Option<bool> {
    let add = poll.said.growth?.add_bytes.filter(|add| *add > 0)?;
    let done_s = poll.course.done_s?;
    let ticks = &poll.course.ticks;
    let last = ticks.iter().take_while(|tick| tick.at_s <= done_s).last()?;
    let tick = &ticks[poll.tick];
    Some(tick.total + add as f64 >= last.used)
}

#[test]
fn an_extension_that_is_followed_saves_the_backup() {
    let all = courses();
    let all: Vec<&Course> = all.iter().collect();
    let polls = score::polls(&all, EVERY, |course| score::forecast(course, EVERY));
    let saved: Vec<bool> = polls.iter().filter_map(is_saved).collect();
    let lost = saved.iter().filter(|is_saved| !**is_saved).count();
    println!("{lost} of {} advices lose the backup", saved.len());
    assert!(saved.len() > 50 && lost == 0, "{lost} of {}", saved.len());
}

/// Of a row of the overview: the name, the grade, the growth, and when it is full.
fn fill_rows(page: &str) -> Vec<[String; 4]> {
    let table = page.split("<table class=\"fills\">").nth(1);
    let table = table.and_then(|rest| rest.split("</table>").next());
    let rows = table.unwrap_or_default().split("<tr>").skip(2);
    let text = |row: &str, tag: &str| {
        let cell = row.split(tag).nth(1).unwrap_or_default();
        let end = cell.find("</t").unwrap_or(cell.len());
        let parts = cell[..end]
            .split('<')
            .map(|part| part.split('>').next_back().unwrap());
        parts.collect::<String>().trim().to_string()
    };
    let tags = [
        "<th scope=\"row\"",
        "<span class=\"state ",
        "<td class=\"n least\"",
        "<td class=\"n eta\"",
    ];
    rows.map(|row| tags.map(|tag| text(row, tag))).collect()
}

/// Replays a recording, and looks at the overview all the while.
fn growth_and_time_agree_in(recording: &str, speed: &str) {
    let daemon = Start::with(&["serve", "--replay", recording, "--speed", speed]).start();
    let (mut forecasts, mut looks) = (0, 0);
    loop {
        let has_ended = daemon.log().contains("the recording is at its end");
        for row in fill_rows(&daemon.get("/").body) {
            // The last one counts the quiet ones.
            if row[2].is_empty() {
                continue;
            }
            let [name, grade, growth, full] = &row;
            let grows = !["–", "0 B/min"].contains(&growth.as_str());
            let is_forecast = full.starts_with(|first: char| first.is_ascii_digit());
            assert!(grows || !is_forecast, "full without growth: {row:?}");
            let has_reason = is_forecast || full.len() > "–".len();
            assert!(
                !grows || has_reason,
                "growth without a time or reason: {row:?}"
            );
            // Within ten minutes is critical by default.
            let latest = full.rsplit(' ').collect::<Vec<_>>();
            let is_soon = is_forecast
                && match latest[..] {
                    ["s", ..] => true,
                    ["min", minutes, ..] => minutes.parse::<u32>().unwrap() <= 10,
                    _ => false,
                };
            assert!(grade != "ok" || !is_soon, "{name} is {grade}: {row:?}");
            forecasts += usize::from(is_forecast);
        }
        looks += 1;
        if has_ended {
            break;
        }
    }
    assert!(
        forecasts > 0 && looks > 10,
        "{forecasts} forecasts in {looks} looks"
    );
}

#[test]
fn growth_and_time_until_full_agree_in_every_row() {
    for (recording, speed) in [
        ("tests/fixtures/many-volumes.cowbell", "8"),
        ("tests/fixtures/long-names.cowbell", "8"),
        ("web/demo.cowbell", "100"),
    ] {
        let recording = format!("{}/{recording}", env!("CARGO_MANIFEST_DIR"));
        growth_and_time_agree_in(&recording, speed);
    }
}
