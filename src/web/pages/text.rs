//! How pages write numbers, times and sentences. An unknown value is a dash, never a zero.

use jiff::Timestamp;

use crate::quantity::Unit;
use crate::sentence::{Sentence, SentencePart};
use crate::series::Range;
use crate::units::{bytes_text, number_text, percent_text, size_text};
use crate::web::zone;

pub const DASH: &str = "–";
/// A command with more bytes scrolls on a telephone, so it has to have the focus for those who scroll by keys.
pub const WIDE_COMMAND: usize = 40;

pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| DASH.into())
}

/// The known parts on one line.
pub fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

pub fn size(bytes: Option<u64>) -> String {
    or_dash(bytes.map(size_text))
}

pub fn percent(percent: Option<f64>) -> String {
    or_dash(percent.map(percent_text))
}

/// Bytes per second.
pub fn rate(bytes: Option<f64>) -> String {
    value(Unit::BytesPerSecond, bytes)
}

/// A value whose heading names its unit, but for bytes.
pub fn value(unit: Unit, value: Option<f64>) -> String {
    let text = |value| match unit {
        Unit::BytesPerSecond => format!("{}/s", bytes_text(value)),
        Unit::Bytes => bytes_text(value),
        Unit::Share => format!("{:.1}", value * 100.0),
        _ => number_text(value),
    };
    or_dash(value.map(text))
}

/// The time of day where the reader is, with the date if it is not today.
pub fn moment(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (zone::local(at), zone::local(now));
    let is_today = at.date() == now.date();
    let format = if is_today {
        "%H:%M:%S"
    } else {
        "%-d %b %Y %H:%M"
    };
    at.strftime(format).to_string()
}

/// `02:00 UTC`, with the day if it is not today, for what is planned.
pub fn zoned_minute(at: Timestamp, now: Timestamp) -> String {
    let (local, today) = (zone::local(at), zone::local(now).date());
    let format = if local.date() == today {
        "%H:%M"
    } else {
        "%-d %b %H:%M"
    };
    format!("{} {}", local.strftime(format), zone_name(at))
}

/// With the zone, for a sentence.
pub fn zoned_moment(at: Timestamp, now: Timestamp) -> String {
    format!("{} {}", moment(at, now), zone_name(at))
}

/// The reader's zone as beside a time: `UTC`, `CET`, or `+03` where a zone has no letters.
pub fn zone_name(at: Timestamp) -> String {
    let zone = zone::current();
    zone.to_offset_info(at).abbreviation().to_string()
}

pub fn span_text(range: Range) -> String {
    let [from, to] = [range.from, range.to].map(zone::local);
    let [from_day, to_day] = [&from, &to].map(|at| at.strftime("%-d %b %Y").to_string());
    let until = if from_day == to_day {
        String::new()
    } else {
        format!("{to_day}, ")
    };
    format!(
        "{from_day}, {} to {until}{} {}",
        from.strftime("%H:%M"),
        to.strftime("%H:%M"),
        zone_name(range.to)
    )
}

/// A sentence whose times are as on the rest of the page: without the date if that is today.
pub fn told(sentence: &Sentence, now: Timestamp) -> Sentence {
    let mut told = Sentence::default();
    for part in sentence.parts() {
        match part {
            SentencePart::Time(at) => told.push(zoned_moment(*at, now)),
            other => told.push(other.clone()),
        }
    }
    told
}

/// A part of a sentence as a template writes it.
pub enum SentencePiece {
    Text(String),
    Command(String),
    Line,
}

/// The parts of a sentence for a template. Times are those of the reader.
pub fn pieces(sentence: &Sentence) -> Vec<SentencePiece> {
    let piece = |part: &SentencePart| match part {
        SentencePart::Command(command) => SentencePiece::Command(command.clone()),
        SentencePart::Time(at) => {
            let time = zone::local(*at).strftime("%F %T");
            SentencePiece::Text(format!("{time} {}", zone_name(*at)))
        }
        SentencePart::Text(text) | SentencePart::Volume(text) => SentencePiece::Text(text.clone()),
        SentencePart::Line => SentencePiece::Line,
    };
    sentence.parts().iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentence;
    use crate::sentence::{command, volume};

    #[test]
    fn unknown_values_are_dashes() {
        let units = [Unit::BytesPerSecond, Unit::Share, Unit::Count];
        assert_eq!(units.map(|unit| value(unit, None)), [DASH, DASH, DASH]);
    }

    #[test]
    fn numbers_have_three_figures_or_commas() {
        for (unit, number, expected) in [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 12.34, "12.3"),
            (Unit::Count, 1_234_567.0, "1,234,567"),
            (Unit::Share, 0.783, "78.3"),
            (Unit::BytesPerSecond, 1_572_864.0, "1.50 MiB/s"),
        ] {
            assert_eq!(value(unit, Some(number)), expected);
        }
    }

    #[test]
    fn a_sentence_has_its_commands_apart_and_times_without_the_date_of_today() {
        let now = Timestamp::from_second(86_400).unwrap();
        let sentence = sentence![
            "Grow ",
            volume("vg0/snap"),
            " by ",
            now,
            ": ",
            command("lvextend x"),
            "."
        ];
        let pieces = pieces(&sentence);
        let are_commands = pieces
            .iter()
            .map(|piece| matches!(piece, SentencePiece::Command(_)));
        assert!(are_commands.eq([false, false, false, false, false, true, false]));
        assert_eq!(
            told(&sentence, now).to_string(),
            "Grow vg0/snap by 00:00:00 UTC: `lvextend x`."
        );
    }
}
