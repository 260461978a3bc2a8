//! A table and its writers: plain text in columns, Markdown, CSV and HTML.
//!
//! Names come from users, so markup, separators, formulas and control characters are escaped.

use std::borrow::Cow;
use std::io::Write;

use askama::Template;

use crate::sentence::{Sentence, SentencePart};

/// Special characters of Markdown, except `<`, `>` and `&`.
const MARKUP: &str = "\\`*_[]|~#$";
/// Bytes of a word that may not fit on a line.
const LONG_WORD: usize = 24;
/// Pixels of a trend.
const TREND_HEIGHT: f64 = 14.0;
const TREND_STEP: usize = 3;

/// Columns and rows.
#[derive(Clone, Debug, PartialEq, Template)]
#[template(path = "table.html")]
pub struct Table {
    /// Caption and class are shown on pages only.
    caption: &'static str,
    class: &'static str,
    /// Whether small text is below the other text, also in plain text.
    is_stacked: bool,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    name: String,
    kind: ColumnKind,
    /// `less` and `least` hide the column on narrow screens.
    class: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    /// The heading of a row.
    Name,
    Text,
    /// Aligned right.
    Number,
}

/// Empty if the value is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell(Vec<(CellPart, String)>);

/// A part of a cell: how its text looks on a page.
#[derive(Clone, Debug, PartialEq)]
enum CellPart {
    Plain,
    Small,
    Code,
    Class(String),
    /// With its address.
    Link(String),
    /// A sign of this class, with the address of what its text is about.
    Sign(String, &'static str),
    /// A checkbox with its field and value.
    Choice(&'static str, String),
    Bar(Bar),
    /// Small bars next to each other; a gap is unknown.
    Trend(Vec<Option<f64>>),
}

/// A bar of 100 parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    pub from: f64,
    pub width: f64,
    pub class: &'static str,
    /// A line across it.
    pub mark: Option<f64>,
}

/// A text without HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Markdown,
}

impl Bar {
    /// How full a volume of this grade is.
    pub fn of_fill(percent: f64, grade: &'static str) -> Self {
        Self {
            width: percent.min(100.0),
            class: if grade == "ok" { "used" } else { grade },
            ..Self::default()
        }
    }
}

impl Column {
    pub fn name(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: ColumnKind::Name,
            class: "",
        }
    }

    pub fn text(name: impl Into<String>) -> Self {
        Self {
            kind: ColumnKind::Text,
            ..Self::name(name)
        }
    }

    pub fn number(name: impl Into<String>) -> Self {
        Self {
            kind: ColumnKind::Number,
            ..Self::name(name)
        }
    }

    pub fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    fn classes(&self) -> String {
        let number = if self.kind == ColumnKind::Number {
            "n"
        } else {
            ""
        };
        format!("{number} {}", self.class).trim().into()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self(vec![(CellPart::Plain, text.into())])
    }
}

impl Cell {
    pub fn known(text: Option<String>) -> Self {
        text.map_or_else(Self::default, Self::from)
    }

    pub fn link(text: impl Into<String>, href: impl Into<String>) -> Self {
        Self(vec![(CellPart::Link(href.into()), text.into())])
    }

    /// A sign of a grade, as in the style sheet. Its text is shown by a pointer, and is read aloud.
    pub fn sign(text: impl Into<String>, href: String, grade: &'static str) -> Self {
        Self(vec![(CellPart::Sign(href, grade), text.into())])
    }

    /// `class` is one of the style sheet.
    pub fn class(text: impl Into<String>, class: &str) -> Self {
        Self(vec![(CellPart::Class(class.into()), text.into())])
    }

    pub fn state(word: &str, grade: &str) -> Self {
        Self::class(word, &format!("state {grade}"))
    }

    pub fn choice(text: impl Into<String>, field: &'static str, value: impl Into<String>) -> Self {
        Self(vec![(CellPart::Choice(field, value.into()), text.into())])
    }

    /// With its commands as code.
    pub fn sentence(sentence: &Sentence) -> Self {
        let part = |part: &SentencePart| match part {
            SentencePart::Command(command) => (CellPart::Code, command.clone()),
            other => (CellPart::Plain, other.to_string()),
        };
        Self(sentence.parts().iter().map(part).collect())
    }

    /// Appends small text.
    pub fn small(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.0.push((CellPart::Small, text));
        }
        self
    }

    pub fn bar(mut self, bar: Bar) -> Self {
        self.0.push((CellPart::Bar(bar), String::new()));
        self
    }

    /// The course of a value; nothing if it is known at most once.
    pub fn trend(mut self, values: Vec<Option<f64>>) -> Self {
        if values.iter().flatten().count() > 1 {
            self.0.push((CellPart::Trend(values), String::new()));
        }
        self
    }

    pub fn then(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }

    /// `None` if it is unknown.
    fn text(&self) -> Option<String> {
        let mut text: Option<String> = None;
        let mut was_small = false;
        for (look, part) in &self.0 {
            if matches!(look, CellPart::Bar(_) | CellPart::Trend(_)) {
                continue;
            }
            let text = text.get_or_insert_default();
            let is_small = *look == CellPart::Small;
            if is_small {
                *text += if was_small { ", " } else { " " };
            }
            *text += part;
            was_small = is_small;
        }
        text
    }
}

/// A table in the making. A column is one line: its heading, and what it says of a row.
///
/// ```ignore
/// Table::of("Gaps", gaps)
///     .column(Column::number("Ticks"), |gap| gap.ticks.to_string())
///     .column(Column::text("Reason"), |gap| gap.reason.clone())
///     .done()
/// ```
pub struct ColumnByColumn<Subject> {
    table: Table,
    /// What the rows are about.
    subjects: Vec<Subject>,
}

impl<Subject> ColumnByColumn<Subject> {
    pub fn column<C: Into<Cell>>(mut self, column: Column, cell: impl Fn(&Subject) -> C) -> Self {
        for (row, subject) in self.table.rows.iter_mut().zip(&self.subjects) {
            row.push(cell(subject).into());
        }
        self.table.columns.push(column);
        self
    }

    pub fn done(self) -> Table {
        self.table
    }
}

impl Table {
    /// A table with a row for each of these.
    pub fn of<Subject>(
        caption: &'static str,
        subjects: impl IntoIterator<Item = Subject>,
    ) -> ColumnByColumn<Subject> {
        let subjects: Vec<Subject> = subjects.into_iter().collect();
        let rows = subjects.iter().map(|_| Vec::new());
        ColumnByColumn {
            table: Self::new(caption, [], rows),
            subjects,
        }
    }

    pub fn new(
        caption: &'static str,
        columns: impl IntoIterator<Item = Column>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let (columns, rows) = (columns.into_iter().collect(), rows.into_iter().collect());
        Self {
            caption,
            class: "",
            is_stacked: false,
            columns,
            rows,
        }
    }

    /// `class` is one of the style sheet.
    pub fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    pub fn stacked(self) -> Self {
        Self {
            is_stacked: true,
            ..self
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Leaves out rows of which only the name is known.
    pub fn without_unknown_rows(mut self) -> Self {
        self.rows
            .retain(|row| row.iter().skip(1).any(|cell| !cell.0.is_empty()));
        self
    }

    /// With the rows that have this text, in letters of either case.
    pub fn filtered(mut self, text: &str) -> Self {
        let text = text.trim().to_lowercase();
        let has_text = |cell: &Cell| {
            let found = cell.text().unwrap_or_default();
            found.to_lowercase().contains(&text)
        };
        self.rows
            .retain(|row| text.is_empty() || row.iter().any(has_text));
        self
    }

    /// Appends a row, whose last cells are blank.
    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize_with(self.columns.len(), || " ".into());
        self.rows.push(row);
    }

    /// Without the columns that narrow screens hide, until the text has at most `width` columns; 0 is any width.
    pub fn fitted(&self, width: usize) -> Self {
        let mut table = self.clone();
        let widest = |table: &Self| {
            table
                .write(Style::Plain)
                .lines()
                .map(|line| line.chars().count())
                .max()
        };
        for class in ["least", "less"] {
            let is_hidden = |column: &Column| column.class == class;
            while width > 0 && widest(&table) > Some(width) {
                let Some(place) = table.columns.iter().rposition(is_hidden) else {
                    break;
                };
                table.columns.remove(place);
                for row in &mut table.rows {
                    row.remove(place);
                }
            }
        }
        table
    }

    fn has_head(&self) -> bool {
        self.columns.iter().any(|column| !column.name.is_empty())
    }

    /// The table as text; an unknown value is a dash.
    pub fn write(&self, style: Style) -> String {
        let names = self.columns.iter().map(|column| style.line(&column.name));
        let mut lines: Vec<Vec<String>> = vec![names.collect()];
        if style == Style::Markdown {
            let rules = self.columns.iter().map(|column| match column.kind {
                ColumnKind::Number => "---:".into(),
                ColumnKind::Name | ColumnKind::Text => "---".into(),
            });
            lines.push(rules.collect());
        }
        for row in &self.rows {
            if self.is_stacked && style == Style::Plain {
                lines.extend(stack(row).iter().map(|line| style.texts(line)));
            } else {
                lines.push(style.texts(row));
            }
        }
        if style == Style::Plain {
            self.pad(&mut lines);
        }
        let mut text = String::new();
        for cells in &lines {
            match style {
                Style::Plain => text += cells.join("  ").trim_end(),
                Style::Markdown => text += &format!("| {} |", cells.join(" | ")),
            }
            text.push('\n');
        }
        text
    }

    /// Pads each cell to the width of its column.
    fn pad(&self, lines: &mut [Vec<String>]) {
        for (place, column) in self.columns.iter().enumerate() {
            let cells = lines.iter().filter_map(|cells| cells.get(place));
            let width = cells.map(|cell| cell.chars().count()).max();
            let width = width.unwrap_or_default();
            for cell in lines.iter_mut().filter_map(|cells| cells.get_mut(place)) {
                *cell = if column.kind == ColumnKind::Number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:width$}")
                };
            }
        }
    }

    /// CSV as in RFC 4180. An unknown value is empty, and formulas get a leading quote.
    pub fn csv(&self) -> csv::Result<Vec<u8>> {
        let mut writer = csv_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|column| &column.name))?;
        for row in &self.rows {
            let fields = row.iter().zip(&self.columns).map(|(cell, column)| {
                let text = cell.text().unwrap_or_default();
                match column.kind {
                    ColumnKind::Number => text,
                    ColumnKind::Name | ColumnKind::Text => no_formula(&text).into(),
                }
            });
            writer.write_record(fields)?;
        }
        writer
            .into_inner()
            .map_err(|error| error.into_error().into())
    }
}

/// A row in lines: first the text that is not small, then each small text.
fn stack(row: &[Cell]) -> Vec<Vec<Cell>> {
    let mut lines = vec![Vec::new()];
    for (place, cell) in row.iter().enumerate() {
        let parts = cell.0.iter().cloned();
        let (small, large): (Vec<_>, _) = parts.partition(|(look, _)| *look == CellPart::Small);
        lines[0].push(Cell(large));
        for (depth, (_, text)) in (1..).zip(small) {
            if lines.len() == depth {
                lines.push(vec![Cell::from(""); row.len()]);
            }
            lines[depth][place] = text.into();
        }
    }
    lines
}

/// Text for a field of CSV; a formula gets a leading quote.
pub fn no_formula(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}").into()
    } else {
        text.into()
    }
}

/// A CSV writer with the line ends of RFC 4180.
pub fn csv_writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(out)
}

/// Pieces of a text between which a line may break: long names break after their separators.
pub fn breakable(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let [mut start, mut end] = [0, 0];
    for word in text.split_inclusive(' ') {
        if word.len() < LONG_WORD {
            end += word.len();
            continue;
        }
        for piece in word.split_inclusive(['_', '/', '-', '.']) {
            end += piece.len();
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    if start < text.len() {
        pieces.push(&text[start..]);
    }
    pieces
}

/// Left edges and heights of the bars of a trend.
fn trend_bars(values: &[Option<f64>]) -> Vec<(usize, f64)> {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    let mut bars = Vec::new();
    for (place, value) in values.iter().enumerate() {
        if let Some(value) = value {
            // A small value is still a line.
            let height = (value / highest * TREND_HEIGHT).max(1.0);
            bars.push((place * TREND_STEP, height));
        }
    }
    bars
}

impl Style {
    fn texts(self, cells: &[Cell]) -> Vec<String> {
        let mut texts = Vec::new();
        for cell in cells {
            texts.push(self.line(cell.text().as_deref().unwrap_or("-")));
        }
        texts
    }

    /// Text on one line, with markup escaped and control characters replaced.
    pub fn line(self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter {
                _ if letter.is_control() => shown.push(' '),
                _ if self == Self::Plain => shown.push(letter),
                '<' => shown.push_str("&lt;"),
                '>' => shown.push_str("&gt;"),
                '&' => shown.push_str("&amp;"),
                _ if MARKUP.contains(letter) => shown.extend(['\\', letter]),
                _ => shown.push(letter),
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            Column::name("Name"),
            Column::number("Took").class("less"),
            Column::text("Of"),
        ];
        let rows = [
            vec![
                Cell::link("a|b\n", "/a?b&c").small("<1>").small("2"),
                "9.50 s".into(),
                "".into(),
            ],
            vec![
                Cell::sentence(&Sentence::with_commands("=run `x`, \"y\"")),
                "12 min".into(),
                Cell::default(),
            ],
        ];
        Table::new("", columns, rows)
    }

    #[test]
    fn plain_text_has_columns_with_numbers_right_aligned() {
        let text = "Name           Took  Of\na|b  <1>, 2  9.50 s\n=run x, \"y\"  12 min  -\n";
        assert_eq!(table().write(Style::Plain), text);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let fitted = |width| table().fitted(width).write(Style::Plain);
        assert_eq!(fitted(23), table().write(Style::Plain));
        assert_eq!(
            fitted(22),
            "Name         Of\na|b  <1>, 2\n=run x, \"y\"  -\n"
        );
        assert_eq!(fitted(1), fitted(22));
        assert_eq!(fitted(0), fitted(23));
    }

    #[test]
    fn markdown_is_escaped() {
        let text = "| Name | Took | Of |\n| --- | ---: | --- |\n| a\\|b  &lt;1&gt;, 2 | 9.50 s |  |\n\
                    | =run x, \"y\" | 12 min | - |\n";
        assert_eq!(table().write(Style::Markdown), text);
        assert_eq!(
            Style::Markdown.line("a|b <b>*x*</b>\n# & `c`"),
            "a\\|b &lt;b&gt;\\*x\\*&lt;/b&gt; \\# &amp; \\`c\\`"
        );
    }

    #[test]
    fn csv_is_quoted_without_formulas() {
        let text = String::from_utf8(table().csv().unwrap()).unwrap();
        assert_eq!(
            text,
            "Name,Took,Of\r\n\"a|b\n <1>, 2\",9.50 s,\r\n\"'=run x, \"\"y\"\"\",12 min,\r\n"
        );
    }

    #[test]
    fn long_names_break_after_separators() {
        for (text, expected) in [
            ("", vec![]),
            (
                "vg0/data_snapshot is full",
                vec!["vg0/data_snapshot is full"],
            ),
            (
                "Volume vg_production/mysql_data_1 is full.",
                vec![
                    "Volume vg_",
                    "production/",
                    "mysql_",
                    "data_",
                    "1 ",
                    "is full.",
                ],
            ),
        ] {
            assert_eq!(breakable(text), expected);
        }
    }

    #[test]
    fn html_has_links_states_and_bars() {
        let html = table().render().unwrap();
        for part in [
            "<table>\n<thead><tr><th>Name</th><th class=\"n less\">Took</th><th>Of</th></tr></thead>\n<tbody>\n<tr>",
            "<tr><th scope=\"row\"><a href=\"/a?b&#38;c\">a|b\n</a> <small>&#60;1&#62;</small> <small>2</small></th>",
            "<th scope=\"row\">=run <code>x</code>, &#34;y&#34;</th><td class=\"n less\">12 min</td><td>–</td></tr>",
        ] {
            assert!(html.contains(part), "{html}");
        }
        let bar = Bar {
            width: 12.345,
            class: "used",
            mark: Some(90.0),
            ..Bar::default()
        };
        let row = vec![
            Cell::state("ok", "ok")
                .then(Cell::default().bar(bar))
                .then("12 %"),
        ];
        let html = Table::new("Fills", [Column::text("Fill")], [row]).class("fills");
        let expected = "<td><span class=\"state ok\">ok</span><svg class=\"bar\" viewBox=\"0 0 100 10\" \
                        preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"used\" x=\"0.00\" \
                        width=\"12.35\" height=\"10\"/><path class=\"mark\" d=\"M90.00 0v10\"/></svg> 12 %</td>";
        let html = html.render().unwrap();
        assert!(
            html.contains(expected)
                && html.starts_with("<table class=\"fills\"><caption>Fills</caption>"),
            "{html}"
        );
    }
}
