//! Sentences on a terminal, wrapped at its width. Elsewhere each remains one line, for scripts.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

use crate::table::{Style, Table};

/// Text with this indentation is code.
const CODE: &str = "    ";

/// A table for standard output. Columns that do not fit are left out, as on a narrow screen.
pub fn table(table: &Table) -> String {
    table
        .fitted(columns_of(&std::io::stdout()))
        .write(Style::Plain)
}

/// Text for standard output.
pub fn wrapped(text: &str) -> String {
    fitted(&std::io::stdout(), text)
}

/// Writes a line to standard error. Failure is ignored, so that it does not change the exit status.
pub fn complain(line: &str) {
    let error = std::io::stderr();
    let _ = (&error).write_all(fitted(&error, line).as_bytes());
}

fn fitted(out: &(impl IsTerminal + AsFd), text: &str) -> String {
    let width = columns_of(out);
    text.lines().fold(String::new(), |mut all, line| {
        all.extend([&*folded(line, width), "\n"]);
        all
    })
}

/// The width of a terminal, or 0.
fn columns_of(out: &(impl IsTerminal + AsFd)) -> usize {
    let columns = || tcgetwinsize(out).map_or(0, |size| usize::from(size.ws_col));
    if out.is_terminal() { columns() } else { 0 }
}

/// A line without control characters, in parts of at most `width` columns, aligned with the first word after a gap. Code
/// and rows of tables, whose last gap is far to the right, remain as they are, and so does everything at a width of 0.
fn folded(line: &str, width: usize) -> String {
    let line = &*line.replace(char::is_control, " ");
    let columns = |text: &str| text.chars().count();
    let indent = line.rfind("  ").map_or(0, |gap| columns(&line[..gap + 2]));
    if width == 0 || columns(line) <= width || indent > width / 2 || line.starts_with(CODE) {
        return line.into();
    }
    let (start, rest) = line.split_at(
        line.char_indices()
            .nth(indent)
            .map_or(0, |(place, _)| place),
    );
    let (mut text, mut used) = (start.to_string(), indent);
    for word in words(rest) {
        let length = columns(&word);
        if used > indent && used + 1 + length > width {
            let _ = write!(text, "\n{:indent$}", "");
            used = indent;
        } else if used > indent {
            text.push(' ');
            used += 1;
        }
        text.push_str(&word);
        used += length;
    }
    text
}

/// The words of a sentence. A command in backticks is one, so that it can be copied as a whole; a backtick alone, as in the
/// name of a job, begins none.
fn words(text: &str) -> Vec<String> {
    if text.matches('`').count() % 2 == 1 {
        return text.split(' ').map(String::from).collect();
    }
    text.split(' ')
        .fold(Vec::new(), |mut words: Vec<String>, part| {
            match words
                .last_mut()
                .filter(|word| word.matches('`').count() % 2 == 1)
            {
                Some(command) => command.extend([" ", part]),
                None => words.push(part.into()),
            }
            words
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_between_words() {
        for (line, expected) in [
            ("one two three", "one two\nthree"),
            ("short", "short"),
            ("ok  one two three", "ok  one\n    two\n    three"),
            ("  one two three", "  one two\n  three"),
            ("averylongword and", "averylongword\nand"),
            ("ü é ä ö ß ñ", "ü é ä ö ß\nñ"),
            ("    code of any length", "    code of any length"),
            ("a row of  a table", "a row of  a table"),
            ("run `a b c d`, then", "run\n`a b c d`,\nthen"),
            ("a ` of a name", "a ` of a\nname"),
            ("a\u{1b}[2J", "a [2J"),
            ("", ""),
        ] {
            assert_eq!(folded(line, 9), expected);
        }
        assert_eq!(folded("one two three", 0), "one two three");
    }
}
