//! No bytes stop the program: what real machines said, damaged in every way, goes through all that understands it.

use std::sync::LazyLock;

use cowbell::interval::Interval;
use cowbell::source::{Part, ReadResult, Reading};
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::captured::Captured;
use crate::host::Host;
use crate::observer::{Observer, reading, volume};

/// One reading of each captured machine, and of one of which every text is small.
static MACHINES: LazyLock<Vec<Reading>> = LazyLock::new(|| {
    let mut host = Host::new(&["sda", "sdb"]);
    let real = host.add_origin("data", &["sda", "sdb"], 614_400);
    host.add_snapshot("snap", &real, &["sdb"], 130_000, "snapshot 13000/130000 16");
    let pool = host.add(
        "pool",
        "tpool",
        &["sda"],
        131_072,
        "thin-pool 1 112/1024 162/1024 - rw - -",
    );
    host.layer("pool", "tpool").table = Some("253:1 253:2 128 0 0".into());
    host.add("thin", "", &[&pool], 409_600, "thin 20736 64127");
    let small = reading(
        0.0,
        vec![
            (Part::Diskstats, ReadResult::Text(host.diskstats())),
            (Part::Sysfs, ReadResult::Text(host.names())),
            (Part::Dm, ReadResult::Text(host.device_mapper())),
        ],
    );
    let captured = Captured::all()
        .iter()
        .map(|machine| machine.reading.clone());
    captured.chain([small]).collect()
});

/// What becomes of a word, a line or a whole text.
#[derive(Clone, Debug)]
enum Damage {
    Word(String),
    Letter(char),
    LineIsGone,
    LineIsTwice,
    LineOfAnother,
    BreaksOff,
    Result(ReadResult),
    IsGone,
}

fn damage() -> impl Strategy<Value = Damage> {
    let word = "0|1|-1|18446744073709551615|9223372036854775807|99999999999999999999|NaN|again|Invalid|Fail|-|/|:|\\PC{0,4}";
    prop_oneof![
        12 => word.prop_map(Damage::Word),
        4 => any::<char>().prop_map(Damage::Letter),
        2 => Just(Damage::LineIsGone),
        2 => Just(Damage::LineIsTwice),
        2 => Just(Damage::LineOfAnother),
        1 => Just(Damage::BreaksOff),
        1 => "(\\PC|\n|\t){0,40}".prop_map(|text| Damage::Result(ReadResult::Text(text))),
        1 => Just(Damage::Result(ReadResult::Error("it was not there".into()))),
        1 => Just(Damage::IsGone),
    ]
}

/// Damages one text of a reading, at places counted round and round.
fn apply(reading: &mut Reading, damage: &Damage, text: usize, line: usize, place: usize) {
    let other = reading.texts.iter().find_map(|text| match &text.result {
        ReadResult::Text(content) => content.lines().cycle().nth(place % 100).map(String::from),
        ReadResult::Error(_) | ReadResult::NotRoot => None,
    });
    let Some(index) = text.checked_rem(reading.texts.len()) else {
        return;
    };
    if matches!(damage, Damage::IsGone) {
        reading.texts.remove(index);
        return;
    }
    let text = &mut reading.texts[index];
    if let Damage::Result(content) = damage {
        text.result = content.clone();
    }
    let ReadResult::Text(content) = &mut text.result else {
        return;
    };
    let mut lines: Vec<String> = content.lines().map(String::from).collect();
    let Some(line) = line.checked_rem(lines.len()) else {
        return;
    };
    match damage {
        Damage::Word(word) => lines[line] = with_word(&lines[line], word, place),
        Damage::Letter(letter) => lines[line] = with_letter(&lines[line], *letter, place),
        Damage::LineIsGone => drop(lines.remove(line)),
        Damage::LineIsTwice => lines.insert(line, lines[line].clone()),
        Damage::LineOfAnother => lines[line] = other.unwrap_or_default(),
        Damage::BreaksOff => lines.truncate(line),
        Damage::Result(_) | Damage::IsGone => return,
    }
    *content = lines.join("\n") + "\n";
}

/// The line with another word at this place; words end at whatever may end one in any of the texts.
fn with_word(line: &str, word: &str, place: usize) -> String {
    let mut parts: Vec<&str> = line
        .split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .collect();
    let Some(place) = place.checked_rem(parts.len()) else {
        return word.into();
    };
    let end = parts[place]
        .chars()
        .last()
        .filter(|letter| !letter.is_alphanumeric());
    let word = word.to_string() + &end.map(String::from).unwrap_or_default();
    parts[place] = &word;
    parts.concat()
}

fn with_letter(line: &str, letter: char, place: usize) -> String {
    let mut letters: Vec<char> = line.chars().collect();
    if let Some(place) = place.checked_rem(letters.len()) {
        letters[place] = letter;
    }
    letters.into_iter().collect()
}

/// Asks for everything that pages, rules and the store ask for.
fn look_at(interval: &Interval) {
    interval.total();
    for (volume, state) in interval.volumes() {
        let fills = [state.fill, state.metadata, state.sync];
        for fill in fills.into_iter().flatten() {
            assert!(
                (0.0..=100.0).contains(&fill.percent()) || fill.used > fill.total,
                "{volume:?} {fill:?}"
            );
        }
        interval
            .copying(volume)
            .and_then(|copying| copying.write_cost());
    }
    for device in &interval.topology.devices {
        interval.share(device);
    }
}

/// Names are read one after the other, while devices come and go, and their numbers are used again.
#[test]
fn layers_that_go_round_in_circles_have_an_end() {
    let mut host = Host::new(&["sda"]);
    host.add("itself", "", &["dm-0", "sda"], 8_192, "linear ");
    host.add("one", "", &["dm-2"], 8_192, "linear ");
    host.add("other", "real", &["dm-1", "sda"], 8_192, "linear ");
    let texts = [
        (Part::Diskstats, host.diskstats()),
        (Part::Sysfs, host.names()),
        (Part::Dm, host.device_mapper()),
    ];
    let texts = texts
        .into_iter()
        .map(|(part, text)| (part, ReadResult::Text(text)))
        .collect();
    let interval = Observer::default().observe(&reading(0.0, texts));
    for lv in ["itself", "one"] {
        assert_eq!(volume(&interval, lv).0.pvs, ["sda"], "{lv}");
    }
}

proptest! {
    #![proptest_config(Config { cases: 150, failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_damage_to_what_a_machine_said_stops_the_program(
        machine in any::<prop::sample::Index>(),
        damages in prop::collection::vec(
            (0..4_usize, damage(), any::<usize>(), any::<usize>(), any::<usize>()), 0..24
        ),
    ) {
        let machine = machine.get(&MACHINES);
        let mut observer = Observer::default();
        for tick in 0..4 {
            let mut reading = Reading { uptime_us: 1_000_000 * (1 + tick as u64), ..machine.clone() };
            for (_, damage, text, line, place) in damages.iter().filter(|(when, ..)| *when == tick) {
                apply(&mut reading, damage, *text, *line, *place);
            }
            look_at(&observer.observe(&reading));
        }
    }
}
