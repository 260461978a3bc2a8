//! `quiet_hours` and `repeat` of a receiver.

use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::Time;
use serde::Deserialize;

/// The shortest time between two repeats.
const SHORTEST_REPEAT: Duration = Duration::from_secs(60);

/// A time of the day, which may include midnight, in the local time zone.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct QuietHours {
    from: Time,
    to: Time,
}

/// The time between two repeats; `None` for never.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub struct Repeat(pub Option<Duration>);

impl TryFrom<String> for Repeat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let length = text
            .parse::<SignedDuration>()
            .ok()
            .and_then(|length| Duration::try_from(length).ok());
        let length = length.filter(|length| *length >= SHORTEST_REPEAT);
        let expected = || {
            format!(
                "`repeat`: expected \"never\" or at least 1min, such as \"1h\", but found {text:?}"
            )
        };
        Ok(Self(Some(length.ok_or_else(expected)?)))
    }
}

impl TryFrom<String> for QuietHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
        let times = text
            .split_once('-')
            .and_then(|(from, to)| Some((time(from)?, time(to)?)));
        match times {
            Some((from, to)) if from != to => Ok(Self { from, to }),
            _ => Err(format!(
                "`quiet_hours`: expected times such as \"22:00-07:00\", but found {text:?}"
            )),
        }
    }
}

impl QuietHours {
    pub fn contains(self, time: Time) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&time)
        } else {
            time >= self.from || time < self.to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_may_include_midnight() {
        let hours = |text: &str| QuietHours::try_from(text.to_string()).unwrap();
        let at = |hour, minute| Time::constant(hour, minute, 0, 0);
        for (text, time, expected) in [
            ("22:00-07:00", at(23, 0), true),
            ("22:00-07:00", at(6, 59), true),
            ("22:00-07:00", at(7, 0), false),
            ("01:00-05:00", at(0, 59), false),
            ("01:00-05:00", at(1, 0), true),
        ] {
            assert_eq!(hours(text).contains(time), expected, "{text} {time}");
        }
    }
}
