//! Comparisons as tables and sentences, for page and command line.

use super::compare::{
    ComparedCell, ComparedRow, Comparison, Difference, Oddity, Ratio, Remark, SetBody,
};
use crate::source::variant_name;
use crate::statistics::Bounds;
use crate::table::{Cell, Column, Style, Table};
use crate::units::{count_text, three_figures};

/// The columns of CSV rows, one row for each figure of each set; the first three are texts.
const CSV_COLUMNS: &str = "figure unit set runs mean sd ratio ratio_low ratio_high difference";
/// Smaller factors are shown as `under`.
const LEAST_FACTOR: f64 = 0.001;
/// Larger bounds are shown as `over`: the runs vary too much.
const MOST_FACTOR: f64 = 1000.0;

/// The tables, with remarks between them.
pub fn text(of: &Comparison, style: Style) -> String {
    let mut text = figures(of).write(style);
    for sentence in of.remarks.iter().map(sentence).chain(basis(of)) {
        text += &format!("\n{}\n", style.line(&sentence));
    }
    let others = other_differences(of);
    if !others.is_empty() {
        text += &format!("\n{}", others.write(style));
    }
    text
}

/// The base and the confidence of the ratios; `None` with one set.
pub fn basis(of: &Comparison) -> Option<String> {
    let [first, _, ..] = &of.sets[..] else {
        return None;
    };
    let cells = of.rows.iter().flat_map(|row| &row.cells);
    let mut ratios = cells.filter_map(|cell| cell.ratio);
    let confidence = if ratios.any(|ratio| ratio.bounds.is_some()) {
        ", with 95 % bounds."
    } else {
        ". A single run has no confidence interval."
    };
    Some(format!("Ratios are to {}{confidence}", first.name))
}

/// Every figure of every set, with its ratio to the first.
pub fn figures(of: &Comparison) -> Table {
    let mut columns = vec![Column::name("Figure")];
    for (place, set) in of.sets.iter().enumerate() {
        let runs = count_text(set.runs as u64, "run", "runs");
        columns.push(Column::number(format!("{}, {runs}", set.name)));
        if place > 0 {
            columns.push(Column::number("Ratio"));
        }
    }
    Table::new("Figures", columns, of.rows.iter().map(figure_row))
        .class("ratios")
        .stacked()
}

fn figure_row(row: &ComparedRow) -> Vec<Cell> {
    let mut cells = vec![row.figure.clone().into()];
    for (place, cell) in row.cells.iter().enumerate() {
        let mean = cell.moments.map(|moments| row.unit.text(moments.mean));
        let spread = cell.moments.and_then(|moments| moments.sd);
        let spread = spread.map(|sd| format!("± {}", row.unit.text(sd)));
        cells.push(Cell::known(mean).small(spread.unwrap_or_default()));
        if place > 0 {
            cells.push(cell.ratio.map(ratio).unwrap_or_default());
        }
    }
    cells
}

/// The facts that differ.
pub fn other_differences(of: &Comparison) -> Table {
    let mut columns = vec![Column::name("What differs besides")];
    columns.extend(of.sets.iter().map(|set| Column::text(&set.name)));
    let rows = of.other_differences.iter().map(|diff| {
        let mut cells = vec![diff.fact.clone().into()];
        for values in &diff.values {
            cells.push(Cell::known((!values.is_empty()).then(|| values.join("; "))));
        }
        cells
    });
    Table::new("", columns, rows)
}

/// A row for each figure of each set, with plain numbers.
pub fn csv(of: &Comparison) -> Table {
    let mut columns = Vec::new();
    for (place, name) in CSV_COLUMNS.split(' ').enumerate() {
        columns.push(if place < 3 {
            Column::text(name)
        } else {
            Column::number(name)
        });
    }
    let mut rows = Vec::new();
    for row in &of.rows {
        for (cell, set) in row.cells.iter().zip(&of.sets) {
            rows.push(csv_row(row, cell, set));
        }
    }
    Table::new("", columns, rows)
}

fn csv_row(row: &ComparedRow, cell: &ComparedCell, set: &SetBody) -> Vec<Cell> {
    let number = |value: Option<f64>| Cell::known(value.map(|value| value.to_string()));
    let (moments, ratio) = (cell.moments, cell.ratio);
    let bounds = ratio.and_then(|ratio| ratio.bounds);
    let difference = ratio.map(|ratio| variant_name(ratio.difference));
    vec![
        row.figure.clone().into(),
        row.unit.name().into(),
        set.name.clone().into(),
        moments.map_or(0, |moments| moments.n).to_string().into(),
        number(moments.map(|moments| moments.mean)),
        number(moments.and_then(|moments| moments.sd)),
        number(ratio.map(|ratio| ratio.ratio)),
        number(bounds.map(|bounds| bounds.low)),
        number(bounds.map(|bounds| bounds.high)),
        difference.unwrap_or_default().into(),
    ]
}

fn ratio(ratio: Ratio) -> Cell {
    let (class, note) = match ratio.difference {
        Difference::Larger | Difference::Smaller => ("seen", ""),
        Difference::NotSeen => ("quiet", "not significant"),
        Difference::OneRun => ("quiet", "(one run)"),
    };
    Cell::class(factor_text(ratio.ratio), class)
        .small(bounds_text(ratio))
        .small(note)
}

fn factor_text(factor: f64) -> String {
    match factor {
        0.0 => "0".into(),
        _ if factor.abs() < LEAST_FACTOR => format!("under {LEAST_FACTOR}"),
        _ if factor.abs() < 0.00995 => format!("{factor:.4}"),
        _ => three_figures(factor),
    }
}

/// `(1.18 to 1.22)`; empty for a single run.
fn bounds_text(ratio: Ratio) -> String {
    let Some(Bounds { low, high }) = ratio.bounds else {
        return String::new();
    };
    let bound = |factor: f64| {
        if factor > MOST_FACTOR {
            return format!("over {MOST_FACTOR}");
        }
        factor_text(factor)
    };
    format!("({} to {})", bound(low), bound(high))
}

pub fn sentence(remark: &Remark) -> String {
    let Remark {
        run, set, figure, ..
    } = remark;
    match remark.oddity {
        Oddity::ColdFirst => format!(
            "Run {run}, the first of {set}, was much slower than the others ({figure}): caches may have been cold."
        ),
        Oddity::Outlier => {
            format!("Run {run} of {set} is far from the others ({figure}). All means include it.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::{ComparedRun, ComparedSet, compare};
    use crate::report::figure::{Figure, FigureUnit};
    use crate::report::sets::Fact;

    fn set(name: &str, speeds_mb: &[f64]) -> ComparedSet {
        let run = |mb: &f64| ComparedRun {
            name: format!("{name} at {mb}"),
            figures: vec![Figure {
                name: "read speed mean".into(),
                unit: FigureUnit::Rate,
                value: Some(mb * 1024.0 * 1024.0),
            }],
            facts: Vec::new(),
        };
        ComparedSet {
            name: name.into(),
            runs: speeds_mb.iter().map(run).collect(),
        }
    }

    fn markdown(of: &Comparison) -> String {
        text(of, Style::Markdown)
    }

    fn csv_text(of: &Comparison) -> String {
        String::from_utf8(csv(of).csv().unwrap()).unwrap()
    }

    #[test]
    fn a_comparison_is_a_table() {
        let found = compare(&[
            set("64k", &[100.0, 100.0]),
            set("16k", &[150.0, 150.0]),
            set("4k", &[90.0]),
        ]);
        assert_eq!(
            markdown(&found),
            "| Figure | 64k, 2 runs | 16k, 2 runs | Ratio | 4k, 1 run | Ratio |\n\
             | --- | ---: | ---: | ---: | ---: | ---: |\n\
             | read speed mean | 100 MiB/s ± 0 B/s | 150 MiB/s ± 0 B/s | 1.50 (1.50 to 1.50) | 90.0 MiB/s | 0.90 (one run) |\n\n\
             Ratios are to 64k, with 95 % bounds.\n"
        );
    }

    #[test]
    fn plain_text_shows_facts_that_differ() {
        let mut sets = [set("a\u{1b}", &[100.0]), set("b", &[50.0])];
        for (set, chunk) in sets.iter_mut().zip(["4 KiB", "64 KiB"]) {
            set.runs[0].facts = vec![Fact {
                name: "chunk size",
                value: Some(chunk.into()),
            }];
        }
        assert_eq!(
            text(&compare(&sets), Style::Plain),
            "Figure           a , 1 run    b, 1 run      Ratio\n\
             read speed mean  100 MiB/s  50.0 MiB/s       0.50\n                                        (one run)\n\n\
             Ratios are to a . A single run has no confidence interval.\n\n\
             What differs besides  a      b\n\
             chunk size            4 KiB  64 KiB\n"
        );
    }

    #[test]
    fn csv_has_a_row_for_each_figure_of_each_set() {
        let found = compare(&[
            set("a, \"b\"", &[100.0]),
            set("=cmd()", &[50.0]),
            set("none", &[]),
        ]);
        assert_eq!(
            csv_text(&found),
            "figure,unit,set,runs,mean,sd,ratio,ratio_low,ratio_high,difference\r\n\
             read speed mean,B/s,\"a, \"\"b\"\"\",1,104857600,,,,,\r\n\
             read speed mean,B/s,'=cmd(),1,52428800,,0.5,,,one_run\r\n\
             read speed mean,B/s,none,0,,,,,,\r\n"
        );
    }

    #[test]
    fn extreme_factors_are_short() {
        let text = |factor| factor_text(factor);
        assert_eq!(
            [0.0, 0.00002, 0.0047, 0.05, 1205.0].map(text),
            ["0", "under 0.001", "0.0047", "0.05", "1205"]
        );
        let wide = Ratio {
            ratio: 0.33,
            bounds: Some(Bounds {
                low: 3.3e-27,
                high: 3.2e25,
            }),
            difference: Difference::NotSeen,
        };
        let expected = Cell::class("0.33", "quiet").small("(under 0.001 to over 1000)");
        assert_eq!(ratio(wide), expected.small("not significant"));
    }

    #[test]
    fn remarks_follow_the_table() {
        let found = compare(&[set("a_b", &[60.0, 118.0, 121.0, 120.0, 119.0])]);
        let text = markdown(&found);
        assert!(
            text.ends_with(
                "\nRun a\\_b at 60, the first of a\\_b, was much slower than the others (read speed mean): caches may \
                 have been cold.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_an_empty_table() {
        assert_eq!(markdown(&compare(&[])), "| Figure |\n| --- |\n");
        assert_eq!(
            csv_text(&compare(&[])),
            CSV_COLUMNS.replace(' ', ",") + "\r\n"
        );
    }
}
