//! The forecast of the recorded courses that are for judging, as `cargo bench --bench forecast` measures it, must not
//! become worse. The limits are a little above what was measured.

#[path = "../../benches/forecast/course.rs"]
mod course;
#[path = "../../benches/forecast/score.rs"]
mod score;

use course::{Course, courses};
use cowbell::forecast::Risk;
use score::{Alarms, Event, EventScore, VerdictScore, percentile};

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
    for (event, median, width) in [(Event::Done, 0.03, 0.15), (Event::Full, 0.09, 0.6)] {
        let (mut score, mut line) = (EventScore::of(&own, event), EventScore::of(&line, event));
        assert!(
            percentile(&mut score.all, 0.5) <= median,
            "{}",
            percentile(&mut score.all, 0.5)
        );
        assert!(percentile(&mut score.all, 0.5) <= percentile(&mut line.all, 0.5));
        assert!(
            (0.86..=0.94).contains(&score.share_in(0)),
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
