//! A progress bar on standard error, if it is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Characters of the bar.
const WIDTH: usize = 40;
/// The minimum time between two updates.
const PAUSE: Duration = Duration::from_millis(100);

/// A bar that is cleared when dropped.
pub struct Progress {
    is_terminal: bool,
    drawn: Option<Instant>,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            drawn: None,
        }
    }

    /// Shows a share from 0 to 1.
    pub fn show(&mut self, share: f64) {
        if self.is_terminal && self.drawn.is_none_or(|drawn| drawn.elapsed() >= PAUSE) {
            self.drawn = Some(Instant::now());
            write(&line(share));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            // Clears the line.
            write("\r\x1b[K");
        }
    }
}

fn line(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = (share * WIDTH as f64) as usize;
    format!("\r[{:<WIDTH$}] {:3.0} %", "#".repeat(full), share * 100.0)
}

/// Errors are ignored.
fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(line(0.0), format!("\r[{}]   0 %", " ".repeat(40)));
        assert_eq!(
            line(0.25),
            format!("\r[{}{}]  25 %", "#".repeat(10), " ".repeat(30))
        );
        assert_eq!(line(1.0), format!("\r[{}] 100 %", "#".repeat(40)));
    }
}
