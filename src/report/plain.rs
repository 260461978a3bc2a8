//! Comparisons as plain text in columns, for a terminal.

use std::fmt::Write as _;

use super::compare::{Comparison, Row};
use super::text::{basis, moments_text, ratio_text, sentence, set_text};
use crate::units::Prefix;

/// A table of every figure, what is to be said of it, and what differs besides.
pub fn plain(of: &Comparison, prefix: Prefix) -> String {
    let mut text = columns(&figures(of, prefix));
    for remark in &of.remarks {
        let _ = write!(text, "\n{}\n", sentence(remark));
    }
    if let Some(basis) = basis(of, str::to_string) {
        let _ = write!(text, "\n{basis}\n");
    }
    if !of.besides.is_empty() {
        let head = std::iter::once("WHAT DIFFERS BESIDES".to_string());
        let head = head.chain(of.sets.iter().map(|set| set.name.clone())).collect();
        let values = of.besides.iter().map(|besides| {
            let values = besides.values.iter().map(|values| known(values.join("; ")));
            std::iter::once(besides.fact.clone()).chain(values).collect()
        });
        let _ = write!(text, "\n{}", columns(&std::iter::once(head).chain(values).collect::<Vec<_>>()));
    }
    // A name may hold what a terminal takes for a command.
    text.replace(|letter: char| letter.is_control() && letter != '\n', " ")
}

fn figures(of: &Comparison, prefix: Prefix) -> Vec<Vec<String>> {
    let mut head = vec!["FIGURE".to_string()];
    for (place, set) in of.sets.iter().enumerate() {
        head.push(set_text(set));
        head.extend((place > 0).then(|| "RATIO".to_string()));
    }
    std::iter::once(head).chain(of.rows.iter().map(|row| figure(row, prefix))).collect()
}

fn figure(row: &Row, prefix: Prefix) -> Vec<String> {
    let mut cells = vec![row.figure.clone()];
    for (place, cell) in row.cells.iter().enumerate() {
        cells
            .push(known(cell.moments.map_or_else(String::new, |moments| moments_text(row, moments, prefix))));
        cells.extend((place > 0).then(|| known(cell.ratio.map_or_else(String::new, ratio_text))));
    }
    cells
}

fn known(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

/// Rows as lines, in columns that are as wide as their widest cell.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::{Run, Set, compare};
    use crate::report::facts::Fact;
    use crate::report::figure::{Figure, Unit};

    fn set(name: &str, chunk: &str, speeds_mb: &[f64]) -> Set {
        let run = |mb: &f64| Run {
            name: String::new(),
            figures: vec![Figure { name: "read speed mean".into(), unit: Unit::Rate, value: Some(mb * 1e6) }],
            facts: vec![Fact { name: "chunk size", value: Some(chunk.into()) }],
        };
        Set { name: name.into(), runs: speeds_mb.iter().map(run).collect() }
    }

    #[test]
    fn a_comparison_is_columns_and_says_what_differs_besides() {
        let found = compare(&[set("a\u{1b}", "4 KiB", &[100.0]), set("b", "64 KiB", &[50.0])]);
        assert_eq!(
            plain(&found, Prefix::Decimal),
            "FIGURE           a , 1 run  b, 1 run   RATIO\n\
             read speed mean  100 MB/s   50.0 MB/s  0.50 (one run)\n\n\
             Ratios are to a ; of a single run nobody can say what is chance.\n\n\
             WHAT DIFFERS BESIDES  a      b\n\
             chunk size            4 KiB  64 KiB\n"
        );
    }
}
