//! When crontabs and systemd's timers start programs. Only what is certain: an expression that is not understood has no
//! start, and of commands only the names of programs are kept, since arguments may be secret.
//!
//! Sources: crontab(5) of Debian and RHEL; systemd.time(7).

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// Until the same date of the next year, and a leap day.
const MOST_DAYS: i64 = 367;
const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
const WEEKDAYS: &str = "sun mon tue wed thu fri sat sun";
/// Programs that run another one.
const WRAPPERS: &str = "sh bash dash nice ionice sudo env timeout chronic flock nohup setsid cowbell run-parts systemd-cat";

/// When programs start together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledStart {
    /// The last two, the earlier first.
    pub previous: Vec<Timestamp>,
    pub next: Option<Timestamp>,
    /// The names of the programs, and of commands under `cowbell run`.
    pub programs: Vec<String>,
}

impl ScheduledStart {
    /// The times of an expression before and after `now`.
    pub fn of(calendar: &Calendar, now: &Zoned, programs: Vec<String>) -> Self {
        Self {
            previous: calendar.previous(now),
            next: calendar.next(now),
            programs,
        }
    }

    /// A line `PREVIOUS…<TAB>NEXT<TAB>PROGRAM…`, with times in milliseconds.
    pub fn line(&self) -> String {
        let text = |times: &[Timestamp]| {
            let ms = times.iter().map(|at| at.as_millisecond().to_string());
            ms.collect::<Vec<_>>().join(" ")
        };
        let (previous, next) = (text(&self.previous), text(self.next.as_slice()));
        format!("{previous}\t{next}\t{}", self.programs.join(" "))
    }

    pub fn parse(line: &str) -> Option<Self> {
        let times = |text: &str| -> Option<Vec<Timestamp>> {
            let each = text.split_whitespace();
            each.map(|ms| Timestamp::from_millisecond(ms.parse().ok()?).ok())
                .collect()
        };
        let columns: Vec<&str> = line.split('\t').collect();
        let [previous, next, programs] = columns[..] else {
            return None;
        };
        Some(Self {
            previous: times(previous)?,
            next: times(next)?.pop(),
            programs: programs.split(' ').map(String::from).collect(),
        })
    }

    /// The starts of a program, whose name may be cut to 15 bytes, as the kernel does. `None` if several entries name it, of
    /// which one may back up another volume, or no backup at all.
    pub fn of_program<'a>(all: &'a [Self], program: &str) -> Option<&'a Self> {
        let is_it = |name: &String| name == program || name.get(..15) == Some(program);
        let mut found = all.iter().filter(|start| start.programs.iter().any(is_it));
        let only = found.next()?;
        found.next().is_none().then_some(only)
    }
}

/// The minutes at which something starts, in local time. Bit `n` of a field stands for the value `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Sunday is 0.
    weekdays: u64,
    /// cron: of a day of the month and a weekday, one is enough if both are restricted.
    is_either_day: bool,
}

impl Calendar {
    /// The five fields of a crontab, or a word such as `@daily`; and the rest of the line.
    pub fn of_cron(line: &str) -> Option<(Self, &str)> {
        if line.starts_with('@') {
            let (word, rest) = line.split_once(char::is_whitespace)?;
            let fields = match word {
                "@yearly" | "@annually" => "0 0 1 1 *",
                "@monthly" => "0 0 1 * *",
                "@weekly" => "0 0 * * 0",
                "@daily" | "@midnight" => "0 0 * * *",
                "@hourly" => "0 * * * *",
                _ => return None,
            };
            return Some((Self::of_cron(&format!("{fields} x"))?.0, rest.trim_start()));
        }
        let mut rest = line;
        let mut fields = [""; 5];
        for field in &mut fields {
            (*field, rest) = rest.split_once(char::is_whitespace)?;
            rest = rest.trim_start();
        }
        let [minute, hour, day, month, weekday] = fields;
        let weekdays = field(weekday, 0, 7, "-", WEEKDAYS)?;
        let calendar = Self {
            minutes: field(minute, 0, 59, "-", "")?,
            hours: field(hour, 0, 23, "-", "")?,
            days: field(day, 1, 31, "-", "")?,
            months: field(month, 1, 12, "-", MONTHS)?,
            // Sunday is also 7.
            weekdays: weekdays | weekdays >> 7,
            is_either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        Some((calendar, rest))
    }

    /// `OnCalendar=` of a timer: a word such as `daily`, or `[WEEKDAY…] [*-MONTH-DAY] [HOUR:MINUTE[:SECOND]]`.
    pub fn of_timer(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "hourly" => "*:00",
            "daily" => "00:00",
            "weekly" => "Mon 00:00",
            "monthly" => "*-*-01 00:00",
            "yearly" | "annually" => "*-01-01 00:00",
            other => other,
        };
        let (mut weekdays, mut date, mut time) = ("*", "*-*-*", "00:00:00");
        for word in text.split_whitespace() {
            match word {
                _ if word.contains(':') => time = word,
                _ if word.contains('-') => date = word,
                _ => weekdays = word,
            }
        }
        let (month, day) = date.strip_prefix("*-")?.split_once('-')?;
        let mut times = time.split(':');
        let (hour, minute) = (times.next()?, times.next()?);
        // The second is shorter than anything that is said of it.
        field(times.next().unwrap_or("0"), 0, 59, "..", "")?;
        Some(Self {
            minutes: field(minute, 0, 59, "..", "")?,
            hours: field(hour, 0, 23, "..", "")?,
            days: field(day, 1, 31, "..", "")?,
            months: field(month, 1, 12, "..", "")?,
            weekdays: field(weekdays, 0, 6, "..", WEEKDAYS)?,
            is_either_day: false,
        })
    }

    fn has_day(&self, date: Date) -> bool {
        let has = |field: u64, value: i8| field >> value & 1 == 1;
        let is_day = has(self.days, date.day());
        let is_weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let is_meant = if self.is_either_day {
            is_day || is_weekday
        } else {
            is_day && is_weekday
        };
        has(self.months, date.month()) && is_meant
    }

    /// The starts of a day, in order.
    fn starts(&self, date: Date, zone: &TimeZone) -> Vec<Timestamp> {
        let mut starts = Vec::new();
        if !self.has_day(date) {
            return starts;
        }
        for hour in (0..24).filter(|hour| self.hours >> hour & 1 == 1) {
            for minute in (0..60).filter(|minute| self.minutes >> minute & 1 == 1) {
                let time: DateTime = date.at(hour, minute, 0, 0);
                starts.extend(zone.to_timestamp(time).ok());
            }
        }
        starts
    }

    fn next(&self, now: &Zoned) -> Option<Timestamp> {
        (0..MOST_DAYS).find_map(|days| {
            let date = now.date().checked_add(Span::new().days(days)).ok()?;
            let starts = self.starts(date, now.time_zone());
            starts.into_iter().find(|start| *start > now.timestamp())
        })
    }

    /// The last two, the earlier first.
    fn previous(&self, now: &Zoned) -> Vec<Timestamp> {
        let mut found = Vec::new();
        for days in 0..MOST_DAYS {
            let Ok(date) = now.date().checked_sub(Span::new().days(days)) else {
                break;
            };
            let mut starts = self.starts(date, now.time_zone());
            starts.retain(|start| *start <= now.timestamp());
            starts.reverse();
            found.extend(starts);
            if found.len() >= 2 {
                break;
            }
        }
        found.truncate(2);
        found.reverse();
        found
    }
}

/// A list of values, ranges and steps as bits. Names stand for the numbers from `least` on.
fn field(text: &str, least: u64, most: u64, to: &str, names: &str) -> Option<u64> {
    let value = |text: &str| -> Option<u64> {
        let start = text.get(..3).unwrap_or(text).to_ascii_lowercase();
        let by_name = (least..).zip(names.split(' ').filter(|name| !name.is_empty()));
        let named = by_name.into_iter().find(|(_, name)| *name == start);
        let number = named.map(|(number, _)| number).or(text.parse().ok())?;
        (least..=most).contains(&number).then_some(number)
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().ok()?)),
            None => (part, None),
        };
        let (first, last) = match range.split_once(to) {
            _ if range == "*" => (least, most),
            Some((first, last)) => (value(first)?, value(last)?),
            None if step.is_some() => (value(range)?, most),
            None => (value(range)?, value(range)?),
        };
        if first > last || step == Some(0) {
            return None;
        }
        for number in (first..=last).step_by(step.unwrap_or(1)) {
            bits |= 1 << number;
        }
    }
    Some(bits)
}

/// The names of the programs that a command line runs: the first word of each of its commands, of wrappers the next one too,
/// what is named by a path, and the name that `cowbell run` gives.
pub fn programs(command: &str) -> Vec<String> {
    let is_wrapper = |name: &str| WRAPPERS.split(' ').any(|wrapper| wrapper == name);
    let mut programs = Vec::new();
    for simple in command.split([';', '|', '&', '(', ')', '"', '\'', '`']) {
        let mut before = "";
        let mut is_next = true;
        for word in simple.split_whitespace() {
            let name = word.rsplit('/').next().unwrap_or_default();
            let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
                && !name.contains(['=', ':', '@', '$', '*'])
                && before != "-u";
            if is_name && (is_next || word.starts_with(['/', '.']) || before == "--name") {
                is_next = is_wrapper(name) || name.ends_with(".lock");
                programs.push(name.to_string());
            }
            before = word;
        }
    }
    programs.retain(|name| !is_wrapper(name));
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times before and after Friday, 27 November 2026, 12:30 in Berlin.
    #[track_caller]
    fn check(calendar: Option<&Calendar>, expected: &str) {
        let now: Zoned = "2026-11-27T12:30[Europe/Berlin]".parse().unwrap();
        let text = |at: Option<Timestamp>| {
            let at = at.map(|at| at.to_zoned(now.time_zone().clone()));
            at.map_or("-".into(), |at| at.strftime("%m-%d %H:%M").to_string())
        };
        let found = calendar.map(|calendar| {
            let start = ScheduledStart::of(calendar, &now, vec!["x".into()]);
            assert_eq!(ScheduledStart::parse(&start.line()).as_ref(), Some(&start));
            format!(
                "{}, {}",
                text(start.previous.last().copied()),
                text(start.next)
            )
        });
        assert_eq!(found.as_deref().unwrap_or("unknown"), expected);
    }

    #[test]
    fn crontabs() {
        for (line, expected) in [
            ("0 2 * * * x", "11-27 02:00, 11-28 02:00"),
            ("*/20 * * * * x", "11-27 12:20, 11-27 12:40"),
            ("30 12 * * * x", "11-27 12:30, 11-28 12:30"),
            ("5 4 * * sun x", "11-22 04:05, 11-29 04:05"),
            ("5 4 * * 7 x", "11-22 04:05, 11-29 04:05"),
            ("5 4 * * 1-5 x", "11-27 04:05, 11-30 04:05"),
            ("0 3 1 * * x", "11-01 03:00, 12-01 03:00"),
            // Either the first or a Saturday.
            ("0 3 1 * 6 x", "11-21 03:00, 11-28 03:00"),
            ("0 0 29 2 * x", "-, -"),
            ("15 1,13 * mar-dec * x", "11-27 01:15, 11-27 13:15"),
            ("@daily x", "11-27 00:00, 11-28 00:00"),
            ("@reboot x", "unknown"),
            ("61 2 * * * x", "unknown"),
            ("0 5-2 * * * x", "unknown"),
            ("*/0 2 * * * x", "unknown"),
            ("0 2 * *", "unknown"),
        ] {
            let calendar = Calendar::of_cron(line);
            check(calendar.as_ref().map(|(calendar, _)| calendar), expected);
        }
        assert_eq!(
            Calendar::of_cron("0 2 * * *  root  a b").unwrap().1,
            "root  a b"
        );
    }

    #[test]
    fn timers() {
        for (text, expected) in [
            ("daily", "11-27 00:00, 11-28 00:00"),
            ("weekly", "11-23 00:00, 11-30 00:00"),
            ("*-*-* 02:30:00", "11-27 02:30, 11-28 02:30"),
            ("02:30", "11-27 02:30, 11-28 02:30"),
            ("Mon..Fri 03:00", "11-27 03:00, 11-30 03:00"),
            ("Sat,Sun *-*-* 03:00:15", "11-22 03:00, 11-28 03:00"),
            ("*-*-01,15 01:00", "11-15 01:00, 12-01 01:00"),
            ("*-*-* 00/6:15", "11-27 12:15, 11-27 18:15"),
            ("2027-01-01 00:00", "unknown"),
            ("*-*~01 02:00", "unknown"),
            ("*-*-* 02:00 UTC", "unknown"),
            ("nonsense", "unknown"),
        ] {
            check(Calendar::of_timer(text).as_ref(), expected);
        }
    }

    #[test]
    fn a_start_in_the_hour_that_a_clock_skips_is_moved() {
        let (calendar, _) = Calendar::of_cron("30 2 * * * x").unwrap();
        let now: Zoned = "2026-03-28T12:00[Europe/Berlin]".parse().unwrap();
        let next = calendar.next(&now).unwrap();
        assert_eq!(next.to_string(), "2026-03-29T01:30:00Z");
    }

    #[test]
    fn names_of_programs_and_no_arguments() {
        for (command, expected) in [
            ("/usr/bin/mylvmbackup", "mylvmbackup"),
            ("mylvmbackup --configfile=/etc/x.conf", "mylvmbackup"),
            ("mysqldump -pSecret --password Secret shop", "mysqldump"),
            (
                "cd /root && PASS=x ./nightly.sh secret >>/var/log/x.log",
                "cd root nightly.sh",
            ),
            ("bash /opt/nightly.sh", "nightly.sh"),
            ("nice -n 10 ionice -c3 mylvmbackup", "mylvmbackup"),
            (
                "cowbell run --name nightly -- /opt/x.sh",
                "run nightly x.sh",
            ),
            (
                "test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )",
                "test anacron cd cron.daily",
            ),
            (
                "sudo -u postgres flock -n /run/x.lock pg_dump secret",
                "x.lock pg_dump",
            ),
            ("rsync a user@host:/b/secret", "rsync"),
        ] {
            assert_eq!(programs(command).join(" "), expected, "{command}");
        }
    }
}
