//! Comparisons as text: Markdown to paste, CSV to count with.
//!
//! Names come from whoever named a job, and are shown as they are: what would be markup, end a cell or be run by a
//! spreadsheet is made harmless. What is not known is empty, or a dash.

use super::compare::{Cell, Comparison, Difference, Oddity, Ratio, Remark, Row, SetBody};
use crate::job::statistics::{Bounds, Moments};
use crate::units::{Prefix, three_figures};

/// What CSV rows have, one for each figure of each set; amounts are in the unit that is named.
const CSV_HEAD: &str = "figure,unit,set,runs,mean,sd,ratio,ratio_low,ratio_high,difference\r\n";
/// A factor below it is not told to the figure.
const LEAST_FACTOR: f64 = 0.001;
/// A bound above it says only that the runs are too unlike one another to bound anything.
const MOST_FACTOR: f64 = 1000.0;
/// Letters of Markdown and of HTML that mean something within a line.
const MARKUP: &str = "\\`*_[]|~#$";

/// A table of every figure, and what is to be said of it.
pub fn markdown(of: &Comparison, prefix: Prefix) -> String {
    let mut text = head(of);
    for row in &of.rows {
        text.push_str(&markdown_row(row, prefix));
    }
    for remark in &of.remarks {
        text.push_str(&format!("\n{}\n", inline(&sentence(remark))));
    }
    if let Some(basis) = basis(of, inline) {
        text.push_str(&format!("\n{basis}\n"));
    }
    text.push_str(&besides(of));
    text
}

/// What the ratios are to, and how sure they are; `None` where there is one set only.
pub fn basis(of: &Comparison, shown: impl Fn(&str) -> String) -> Option<String> {
    let [first, _, ..] = &of.sets[..] else { return None };
    let mut ratios = of.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.ratio);
    let says = match ratios.any(|ratio| ratio.bounds.is_some()) {
        true => ", with 95 % bounds. Of so many figures one in twenty differs by chance alone.",
        false => "; of a single run nobody can say what is chance.",
    };
    Some(format!("Ratios are to {}{says}", shown(&first.name)))
}

/// A table of what else is not the same.
fn besides(of: &Comparison) -> String {
    if of.besides.is_empty() {
        return String::new();
    }
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let names = std::iter::once("what differs besides".to_string());
    let mut text = format!("\n{}", row(names.chain(of.sets.iter().map(|set| inline(&set.name))).collect()));
    text.push_str(&format!("|{}\n", " --- |".repeat(of.sets.len() + 1)));
    for besides in &of.besides {
        let values = besides.values.iter().map(|values| match &values[..] {
            [] => "-".into(),
            values => inline(&values.join("; ")),
        });
        text.push_str(&row(std::iter::once(inline(&besides.fact)).chain(values).collect()));
    }
    text
}

/// A row for each figure of each set, as RFC 4180 has it.
pub fn csv(of: &Comparison) -> String {
    let rows = of
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().zip(&of.sets).map(move |(cell, set)| csv_row(row, &set.name, cell)));
    std::iter::once(CSV_HEAD.to_string()).chain(rows).collect()
}

fn head(of: &Comparison) -> String {
    let mut names = vec!["figure".to_string()];
    for (place, set) in of.sets.iter().enumerate() {
        names.push(inline(&set_text(set)));
        if place > 0 {
            names.push("ratio".into());
        }
    }
    format!("| {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len()))
}

/// A set's name, and how many runs it has.
pub fn set_text(set: &SetBody) -> String {
    let runs = if set.runs == 1 { "1 run".to_string() } else { format!("{} runs", set.runs) };
    format!("{}, {runs}", set.name)
}

fn markdown_row(row: &Row, prefix: Prefix) -> String {
    let mut cells = vec![inline(&row.figure)];
    for (place, cell) in row.cells.iter().enumerate() {
        cells.push(cell.moments.map_or_else(|| "-".into(), |moments| moments_text(row, moments, prefix)));
        if place > 0 {
            cells.push(cell.ratio.map_or_else(|| "-".into(), ratio_text));
        }
    }
    format!("| {} |\n", cells.join(" | "))
}

pub fn moments_text(row: &Row, moments: Moments, prefix: Prefix) -> String {
    let text = |value| row.unit.text(value, prefix);
    match moments.sd {
        Some(sd) => format!("{} ± {}", text(moments.mean), text(sd)),
        None => text(moments.mean),
    }
}

pub fn ratio_text(ratio: Ratio) -> String {
    let bounds = ratio_bounds_text(ratio);
    let bounds = if bounds.is_empty() { bounds } else { format!(" ({bounds})") };
    let note = match ratio.difference {
        Difference::Larger | Difference::Smaller => "",
        Difference::NotSeen => ", no difference can be seen",
        Difference::OneRun => " (one run)",
    };
    format!("{}{bounds}{note}", factor_text(ratio.ratio))
}

/// How many times as much: what is small is not shown as nothing.
pub fn factor_text(factor: f64) -> String {
    match factor {
        0.0 => "0".into(),
        _ if factor.abs() < LEAST_FACTOR => format!("under {LEAST_FACTOR}"),
        _ if factor.abs() < 0.00995 => format!("{factor:.4}"),
        _ => three_figures(factor),
    }
}

/// Such as `1.18 to 1.22`; empty of a single run.
pub fn ratio_bounds_text(ratio: Ratio) -> String {
    let bound = |factor| match factor {
        _ if factor > MOST_FACTOR => format!("over {MOST_FACTOR}"),
        _ => factor_text(factor),
    };
    let text = |bounds: Bounds| format!("{} to {}", bound(bounds.low), bound(bounds.high));
    ratio.bounds.map_or_else(String::new, text)
}

/// A remark, as people read it.
pub fn sentence(remark: &Remark) -> String {
    let Remark { run, set, figure, .. } = remark;
    match remark.oddity {
        Oddity::ColdFirst => format!(
            "Run {run}, the first of {set}, was slower by far than the others ({figure}): caches may have been cold."
        ),
        Oddity::Outlier => {
            format!("Run {run} of {set} lies far from the others ({figure}). It is in all means.")
        }
    }
}

fn csv_row(row: &Row, set: &str, cell: &Cell) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let bounds = cell.ratio.and_then(|ratio| ratio.bounds);
    let fields = [
        field(&row.figure),
        field(row.unit.name()),
        field(set),
        cell.moments.map_or(0, |moments| moments.n).to_string(),
        number(cell.moments.map(|moments| moments.mean)),
        number(cell.moments.and_then(|moments| moments.sd)),
        number(cell.ratio.map(|ratio| ratio.ratio)),
        number(bounds.map(|bounds| bounds.low)),
        number(bounds.map(|bounds| bounds.high)),
        cell.ratio.map_or("", |ratio| difference_word(ratio.difference)).to_string(),
    ];
    fields.join(",") + "\r\n"
}

fn difference_word(difference: Difference) -> &'static str {
    match difference {
        Difference::Larger => "larger",
        Difference::Smaller => "smaller",
        Difference::NotSeen => "not_seen",
        Difference::OneRun => "one_run",
    }
}

/// Text of one line, in which nothing is markup.
pub(super) fn inline(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '&' => shown.push_str("&amp;"),
            _ if letter.is_control() => shown.push(' '),
            _ if MARKUP.contains(letter) => shown.extend(['\\', letter]),
            _ => shown.push(letter),
        }
    }
    shown
}

/// Quoted where it holds what would end it; a spreadsheet takes what begins like a formula for one.
fn field(text: &str) -> String {
    let text =
        if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.into() };
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::{Run, Set, compare};
    use crate::report::figure::{Figure, Unit};

    fn set(name: &str, speeds_mb: &[f64]) -> Set {
        let run = |mb: &f64| Run {
            name: format!("{name} at {mb}"),
            figures: vec![Figure { name: "read speed mean".into(), unit: Unit::Rate, value: Some(mb * 1e6) }],
            facts: Vec::new(),
        };
        Set { name: name.into(), runs: speeds_mb.iter().map(run).collect() }
    }

    #[test]
    fn a_comparison_is_a_table() {
        let found = compare(&[set("64k", &[100.0, 100.0]), set("16k", &[150.0, 150.0]), set("4k", &[90.0])]);
        assert_eq!(
            markdown(&found, Prefix::Decimal),
            "| figure | 64k, 2 runs | 16k, 2 runs | ratio | 4k, 1 run | ratio |\n\
             | --- | --- | --- | --- | --- | --- |\n\
             | read speed mean | 100 MB/s ± 0 B/s | 150 MB/s ± 0 B/s | 1.50 (1.50 to 1.50) | 90.0 MB/s | 0.90 (one run) |\n\n\
             Ratios are to 64k, with 95 % bounds. Of so many figures one in twenty differs by chance alone.\n"
        );
    }

    #[test]
    fn the_same_as_csv_has_a_row_for_each_figure_of_each_set() {
        let found = compare(&[set("a, \"b\"", &[100.0]), set("=cmd()", &[50.0]), set("none", &[])]);
        assert_eq!(
            csv(&found),
            "figure,unit,set,runs,mean,sd,ratio,ratio_low,ratio_high,difference\r\n\
             read speed mean,B/s,\"a, \"\"b\"\"\",1,100000000,,,,,\r\n\
             read speed mean,B/s,'=cmd(),1,50000000,,0.5,,,one_run\r\n\
             read speed mean,B/s,none,0,,,,,,\r\n"
        );
    }

    #[test]
    fn what_is_small_is_not_nothing_and_what_bounds_nothing_is_short() {
        let text = |factor| factor_text(factor);
        assert_eq!(
            [0.0, 0.00002, 0.0047, 0.05, 1205.0].map(text),
            ["0", "under 0.001", "0.0047", "0.05", "1205"]
        );
        let ratio = |low, high| Ratio {
            ratio: 0.33,
            bounds: Some(Bounds { low, high }),
            difference: Difference::NotSeen,
        };
        assert_eq!(
            ratio_text(ratio(3.3e-27, 3.2e25)),
            "0.33 (under 0.001 to over 1000), no difference can be seen"
        );
    }

    #[test]
    fn a_name_is_never_markup() {
        assert_eq!(inline("a|b <b>*x*</b>\n# & `c`"), "a\\|b &lt;b&gt;\\*x\\*&lt;/b&gt; \\# &amp; \\`c\\`");
    }

    #[test]
    fn odd_runs_are_told_below_the_table() {
        let found = compare(&[set("a_b", &[60.0, 118.0, 121.0, 120.0, 119.0])]);
        let text = markdown(&found, Prefix::Decimal);
        assert!(
            text.ends_with(
                "\nRun a\\_b at 60, the first of a\\_b, was slower by far than the others (read speed mean): caches may \
                 have been cold.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_an_empty_table() {
        assert_eq!(markdown(&compare(&[]), Prefix::Decimal), "| figure |\n| --- |\n");
        assert_eq!(csv(&compare(&[])), CSV_HEAD);
    }
}
