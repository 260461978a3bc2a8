//! The comparisons in figures, each with its goal.

use crate::campaign::{Comparison, Mode};
use crate::cases::{KIB, Place};

/// A figure and whether it is as good as it should be.
pub struct Figures {
    pub missed: usize,
}

impl Figures {
    pub fn goal(&mut self, what: &str, goal: &str, measured: &str, is_met: bool) {
        self.missed += usize::from(!is_met);
        println!(
            "| {what} | {goal} | {measured} | {} |",
            if is_met { "met" } else { "**missed**" }
        );
    }

    pub fn beside(&self, what: &str, measured: &str) {
        println!("| {what} | – | {measured} | |");
    }
}

pub fn head() {
    println!("| what | goal | measured | |\n|---|---|---|---|");
}

/// Of the values in order.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let index = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    values.get(index).copied().unwrap_or(f64::NAN)
}

fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

impl Comparison {
    fn error(&self) -> f64 {
        self.row.median_bytes as f64 / self.used as f64 - 1.0
    }

    /// By how many chunks the counters and the snapshot are apart.
    fn apart(&self) -> f64 {
        (self.window - self.used as f64) / self.chunk as f64
    }

    fn too_large(&self) -> f64 {
        self.row.suggested_bytes as f64 / self.used as f64 - 1.0
    }

    fn is_held(&self) -> bool {
        self.row.suggested_bytes >= self.used
    }

    /// Whether the interval around what was said holds what came.
    fn is_within(&self) -> bool {
        self.error().abs() <= self.row.error_percent.unwrap_or(0.0) / 100.0 * (1.0 + self.error())
    }

    /// Whether the interval of the window in which it lived holds it.
    fn window_is_within(&self) -> bool {
        (self.window_ends.0..=self.window_ends.1).contains(&(self.used as f64))
    }

    fn has_file_system(&self) -> bool {
        matches!(self.case.place, Place::File(_) | Place::Database)
    }

    fn line(&self) -> String {
        let Comparison {
            case,
            mode,
            night,
            chunk,
            age_min,
            row,
            used,
            written,
            before,
            ..
        } = self;
        format!(
            "{}\t{mode:?}\t{night}\t{}\t{age_min}\t{}\t{}\t{used}\t{:+.2}\t{:+.1}\t{:.0}\t{}\t{}\t{}\t{:.0}\t{}\t{}",
            case.name,
            chunk / KIB,
            row.windows,
            row.median_bytes,
            self.error() * 100.0,
            row.error_percent.unwrap_or(0.0),
            self.apart(),
            if self.window_is_within() {
                "within"
            } else {
                "OUTSIDE"
            },
            row.suggested_bytes,
            if self.is_held() { "held" } else { "OVERFLOW" },
            self.too_large() * 100.0,
            written,
            before.map_or("-".into(), |before| before.to_string()),
        )
    }
}

/// All of them, for a closer look.
pub fn lines(comparisons: &[Comparison]) -> String {
    let head = "case\tmode\tnight\tchunk KiB\tage min\twindows\tmedian\tused\terror %\tinterval %\tapart chunks\twindow\tsuggested\theld\ttoo large %\twritten\tnight before";
    let lines = comparisons.iter().map(Comparison::line);
    std::iter::once(head.to_string())
        .chain(lines)
        .map(|line| line + "\n")
        .collect()
}

pub fn print(all: &[Comparison], figures: &mut Figures) {
    let of = |mode: Mode, is_steady: bool| {
        all.iter()
            .filter(move |one| one.mode == mode && one.case.is_steady == is_steady)
            .collect::<Vec<_>>()
    };
    let (exact, sampled) = (of(Mode::Exact, true), of(Mode::Sampled, true));
    touched(all, figures);
    errors(&exact, &sampled, figures);
    suggestions("exact", &exact, figures);
    suggestions("sampled", &sampled, figures);
    for (what, bursts) in [
        ("bursts, exact", of(Mode::Exact, false)),
        ("bursts, sampled", of(Mode::Sampled, false)),
    ] {
        let errors: Vec<f64> = bursts.iter().map(|one| one.error().abs()).collect();
        figures.beside(&format!("{what}: error, median and worst"), &two(&errors));
        figures.beside(&format!("{what}: suggested size"), &held(&bursts));
    }
    for chunk in [4, 64, 512] {
        let is_meant = |one: &&&Comparison| one.chunk == chunk * KIB && !one.case.is_thin();
        let of_chunk: Vec<&Comparison> = exact.iter().filter(is_meant).copied().collect();
        today(&format!("{chunk} KiB"), &of_chunk, figures);
    }
    let bursts: Vec<&Comparison> = of(Mode::Exact, false);
    today("bursts", &bursts, figures);
}

fn touched(all: &[Comparison], figures: &mut Figures) {
    let exact = || all.iter().filter(|one| one.mode == Mode::Exact);
    let is_plain = |one: &&Comparison| !one.has_file_system() && !one.case.is_thin();
    let plain: Vec<&Comparison> = exact().filter(is_plain).collect();
    let thin: Vec<&Comparison> = exact().filter(|one| one.case.is_thin()).collect();
    let file_systems: Vec<&Comparison> = exact().filter(|one| one.has_file_system()).collect();
    for (what, goal, most, cases) in [
        ("on thick volumes", "all", 0.0, plain),
        ("in thin pools", "all", 0.0, thin),
        (
            "on XFS and under MariaDB",
            "at most 5 apart",
            5.0,
            file_systems,
        ),
    ] {
        let apart: Vec<f64> = cases.iter().map(|one| one.apart().abs()).collect();
        let (equal, worst) = (
            apart.iter().filter(|apart| **apart == 0.0).count(),
            percentile(&apart, 1.0),
        );
        let measured = format!("{equal} of {}, most {worst:.0} apart", apart.len());
        figures.goal(
            &format!("touched = exceptions {what}"),
            goal,
            &measured,
            worst <= most,
        );
    }
}

fn errors(exact: &[&Comparison], sampled: &[&Comparison], figures: &mut Figures) {
    let count = exact.len().min(sampled.len());
    let measured = format!("{} exact, {} sampled", exact.len(), sampled.len());
    figures.goal(
        "steady comparisons with later snapshots",
        "30 each",
        &measured,
        count >= 30,
    );
    let of = |cases: &[&Comparison]| {
        cases
            .iter()
            .map(|one| one.error().abs())
            .collect::<Vec<f64>>()
    };
    let (errors, sampled_errors) = (of(exact), of(sampled));
    let median = percentile(&errors, 0.5);
    figures.goal(
        "exact: median error",
        "2 %",
        &percent(median),
        median <= 0.02,
    );
    figures.beside(
        "exact: 95 % of the errors are below",
        &percent(percentile(&errors, 0.95)),
    );
    let worst = percentile(&errors, 1.0);
    figures.goal(
        "exact: worst error",
        "8 %",
        &format!("{} ({})", percent(worst), worst_of(exact)),
        worst <= 0.08,
    );
    let median = percentile(&sampled_errors, 0.5);
    figures.goal(
        "sampled: median error",
        "5 %",
        &percent(median),
        median <= 0.05,
    );
    let high = percentile(&sampled_errors, 0.95);
    figures.goal(
        "sampled: 95 % of the errors are below",
        "20 %",
        &percent(high),
        high <= 0.2,
    );
    figures.beside(
        "sampled: worst",
        &format!(
            "{} ({})",
            percent(percentile(&sampled_errors, 1.0)),
            worst_of(sampled)
        ),
    );
    for (what, within) in [
        (
            "of a snapshot's own window holds it",
            sampled.iter().filter(|one| one.window_is_within()).count(),
        ),
        (
            "said before holds the later snapshot",
            sampled.iter().filter(|one| one.is_within()).count(),
        ),
    ] {
        let share = percent(within as f64 / sampled.len() as f64);
        let measured = format!("{within} of {} ({share})", sampled.len());
        let is_met = within * 30 >= 26 * sampled.len();
        figures.goal(
            &format!("sampled: the interval {what}"),
            "26 of 30 (86.7 %)",
            &measured,
            is_met,
        );
    }
    let widths: Vec<f64> = sampled
        .iter()
        .filter_map(|one| Some(one.row.error_percent? / 100.0))
        .collect();
    figures.beside(
        "sampled: half width of the interval, median and most",
        &two(&widths),
    );
}

fn worst_of(cases: &[&Comparison]) -> String {
    let worst = cases
        .iter()
        .max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()));
    worst.map_or(String::new(), |one| {
        format!(
            "{}, {} KiB, {} min",
            one.case.name,
            one.chunk / KIB,
            one.age_min
        )
    })
}

fn suggestions(mode: &str, cases: &[&Comparison], figures: &mut Figures) {
    let held = cases.iter().filter(|one| one.is_held()).count();
    let measured = format!("{held} of {}", cases.len());
    figures.goal(
        &format!("{mode}: the suggested size held"),
        "all",
        &measured,
        held == cases.len(),
    );
    let too_large: Vec<f64> = cases.iter().map(|one| one.too_large()).collect();
    let median = percentile(&too_large, 0.5);
    let measured = format!(
        "{} (p95 {})",
        percent(median),
        percent(percentile(&too_large, 0.95))
    );
    figures.goal(
        &format!("{mode}: too large at the median"),
        "35 %",
        &measured,
        median <= 0.35,
    );
}

fn held(cases: &[&Comparison]) -> String {
    let held = cases.iter().filter(|one| one.is_held()).count();
    let too_large: Vec<f64> = cases.iter().map(|one| one.too_large()).collect();
    format!(
        "held in {held} of {}; too large by {} at the median",
        cases.len(),
        percent(percentile(&too_large, 0.5))
    )
}

fn two(values: &[f64]) -> String {
    format!(
        "{}, {}",
        percent(percentile(values, 0.5)),
        percent(percentile(values, 1.0))
    )
}

/// What people do today: the bytes written, and twice the last peak.
fn today(what: &str, cases: &[&Comparison], figures: &mut Figures) {
    let say = |sizes: Vec<(f64, f64)>| {
        let held = sizes.iter().filter(|(size, used)| size >= used).count();
        let errors: Vec<f64> = sizes.iter().map(|(size, used)| size / used - 1.0).collect();
        format!(
            "held in {held} of {}; off by {:+.0} % at the median, {:+.0} to {:+.0} %",
            sizes.len(),
            percentile(&errors, 0.5) * 100.0,
            percentile(&errors, 0.0) * 100.0,
            percentile(&errors, 1.0) * 100.0
        )
    };
    let written = cases
        .iter()
        .map(|one| (one.written as f64, one.used as f64))
        .collect();
    figures.beside(&format!("beside it, {what}: bytes written"), &say(written));
    let twice = |one: &&&Comparison| Some((2.0 * one.before? as f64, one.used as f64));
    figures.beside(
        &format!("beside it, {what}: twice the last peak"),
        &say(cases.iter().filter_map(|one| twice(&one)).collect()),
    );
    let said = cases.iter().filter(|one| one.before.is_some());
    figures.beside(
        &format!("beside it, {what}: cowbell, the same nights"),
        &say(said
            .map(|one| (one.row.suggested_bytes as f64, one.used as f64))
            .collect()),
    );
}
