//! Comparisons as tables and sentences, for page and command line.

use super::compare::{
    ComparedCell, ComparedRow, Comparison, Difference, Oddity, Ratio, Remark, SetBody,
};
use crate::source::variant_name;
use crate::statistics::Bounds;
use crate::table::{Cell, Column, Style, Table};
use crate::units::{count_text, three_figures};

/// The columns of CSV rows, one row for each figure of each set.
const CSV_COLUMNS: [&str; 10] = [
    "figure",
    "unit",
    "set",
    "runs",
    "mean",
    "sd",
    "ratio",
    "ratio_low",
    "ratio_high",
    "difference",
];
/// Smaller factors are shown as `under`.
const LEAST_FACTOR: f64 = 0.001;
/// Larger bounds are shown as `over`: the runs vary too much.
const MOST_FACTOR: f64 = 1000.0;

/// The tables, with remarks between them.
pub fn text(of: &Comparison, style: Style) -> String {
    let sentences = of.remarks.iter().map(sentence).chain(basis(of));
    let sentences: String = sentences
        .map(|sentence| format!("\n{}\n", style.line(&sentence)))
        .collect();
    let other_differences = other_differences(of);
    let other_differences = if other_differences.is_empty() {
        String::new()
    } else {
        format!("\n{}", other_differences.write(style))
    };
    format!("{}{sentences}{other_differences}", figures(of).write(style))
}

/// The base and the confidence of the ratios; `None` with one set.
pub fn basis(of: &Comparison) -> Option<String> {
    let [first, _, ..] = &of.sets[..] else {
        return None;
    };
    let mut ratios = of
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .filter_map(|cell| cell.ratio);
    let confidence = match ratios.any(|ratio| ratio.bounds.is_some()) {
        true => ", with 95 % bounds.",
        false => ". A single run has no confidence interval.",
    };
    Some(format!("Ratios are to {}{confidence}", first.name))
}

/// Every figure of every set, with its ratio to the first.
pub fn figures(of: &Comparison) -> Table {
    let set = |(place, set): (usize, &SetBody)| {
        let ratio = (place > 0).then(|| Column::number("Ratio"));
        std::iter::once(Column::number(set_text(set))).chain(ratio)
    };
    let columns = of.sets.iter().enumerate().flat_map(set);
    let cell = |row: &ComparedRow, (place, figure): (usize, &ComparedCell)| {
        let text = |value| row.unit.text(value);
        let spread = figure
            .moments
            .and_then(|moments| moments.sd)
            .map(|sd| format!("± {}", text(sd)));
        let mean = Cell::known(figure.moments.map(|moments| text(moments.mean)));
        let ratio = (place > 0).then(|| figure.ratio.map_or_else(Cell::default, ratio));
        std::iter::once(mean.small(spread.unwrap_or_default())).chain(ratio)
    };
    let row = |row: &ComparedRow| {
        let cells = row
            .cells
            .iter()
            .enumerate()
            .flat_map(|figure| cell(row, figure));
        std::iter::once(row.figure.clone().into())
            .chain(cells)
            .collect()
    };
    let columns = std::iter::once(Column::name("Figure")).chain(columns);
    Table::new("Figures", columns, of.rows.iter().map(row))
        .class("ratios")
        .stacked()
}

/// The facts that differ.
pub fn other_differences(of: &Comparison) -> Table {
    let columns = of.sets.iter().map(|set| Column::text(&set.name));
    let rows = of.other_differences.iter().map(|diff| {
        let values = diff.values.iter();
        let values =
            values.map(|values| Cell::known((!values.is_empty()).then(|| values.join("; "))));
        std::iter::once(diff.fact.clone().into())
            .chain(values)
            .collect()
    });
    Table::new(
        "",
        std::iter::once(Column::name("What differs besides")).chain(columns),
        rows,
    )
}

/// A row for each figure of each set, with plain numbers.
pub fn csv(of: &Comparison) -> Table {
    let columns = CSV_COLUMNS.iter().enumerate();
    let column = |(place, name): (usize, &&str)| {
        if place < 3 {
            Column::text(*name)
        } else {
            Column::number(*name)
        }
    };
    let rows = of.rows.iter().flat_map(|row| {
        row.cells
            .iter()
            .zip(&of.sets)
            .map(move |of| csv_row(row, of))
    });
    Table::new("", columns.map(column), rows)
}

fn csv_row(row: &ComparedRow, (figure, set): (&ComparedCell, &SetBody)) -> Vec<Cell> {
    let number = |value: Option<f64>| Cell::known(value.map(|value| value.to_string()));
    let bounds = figure.ratio.and_then(|ratio| ratio.bounds);
    vec![
        row.figure.clone().into(),
        row.unit.name().into(),
        set.name.clone().into(),
        figure
            .moments
            .map_or(0, |moments| moments.n)
            .to_string()
            .into(),
        number(figure.moments.map(|moments| moments.mean)),
        number(figure.moments.and_then(|moments| moments.sd)),
        number(figure.ratio.map(|ratio| ratio.ratio)),
        number(bounds.map(|bounds| bounds.low)),
        number(bounds.map(|bounds| bounds.high)),
        figure
            .ratio
            .map(|ratio| variant_name(ratio.difference))
            .unwrap_or_default()
            .into(),
    ]
}

fn set_text(set: &SetBody) -> String {
    format!(
        "{}, {}",
        set.name,
        count_text(set.runs as u64, "run", "runs")
    )
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
    let bound = |factor| match factor {
        _ if factor > MOST_FACTOR => format!("over {MOST_FACTOR}"),
        _ => factor_text(factor),
    };
    let text = |bounds: Bounds| format!("({} to {})", bound(bounds.low), bound(bounds.high));
    ratio.bounds.map_or_else(String::new, text)
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
        assert_eq!(csv_text(&compare(&[])), CSV_COLUMNS.join(",") + "\r\n");
    }
}
