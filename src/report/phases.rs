//! The phases of a job as tables and as figures to compare. One table shows the phases, the other the PVs in each.

use super::figure::{Figure, FigureUnit};
use crate::job::figures::{PhasePv, PhaseWork};
use crate::table::{Cell, Column, Table};

pub const OF_WHOLE_TICKS: &str =
    "Only ticks that lie entirely inside a phase count. A dash means too few of them.";

/// The figures of these phases, with the phase in their names.
pub fn figures(phases: &[PhaseWork], of: &[String]) -> Vec<Figure> {
    let named = names(phases).into_iter().zip(phases);
    named
        .filter(|(name, _)| of.contains(name))
        .flat_map(|(name, phase)| figures_of(&name, phase))
        .collect()
}

/// The names of the phases that all jobs have, in the order of the first job.
pub fn shared<'a>(jobs: impl IntoIterator<Item = &'a [PhaseWork]>) -> Vec<String> {
    let mut jobs = jobs.into_iter().map(names);
    let first = jobs.next().unwrap_or_default();
    jobs.fold(first, |shared, names| {
        shared
            .into_iter()
            .filter(|name| names.contains(name))
            .collect()
    })
}

/// Unique names: a phase that returns gets a number.
fn names(phases: &[PhaseWork]) -> Vec<String> {
    let mut names = Vec::with_capacity(phases.len());
    for PhaseWork { name, .. } in phases {
        let numbered = (2_usize..).map(|number| format!("{name} ({number})"));
        names.extend(
            std::iter::once(name.clone())
                .chain(numbered)
                .find(|name| !names.contains(name)),
        );
    }
    names
}

fn figures_of(name: &str, phase: &PhaseWork) -> Vec<Figure> {
    let figure = |what: &str, unit, value| Figure {
        name: format!("{name}: {what}"),
        unit,
        value,
    };
    let mut list = vec![
        figure("duration", FigureUnit::Seconds, phase.seconds),
        figure("read speed mean", FigureUnit::Rate, phase.read_bytes_per_s),
        figure(
            "write speed mean",
            FigureUnit::Rate,
            phase.written_bytes_per_s,
        ),
    ];
    list.extend(phase.pvs.iter().map(|pv| {
        figure(
            &format!("{} busy", pv.name),
            FigureUnit::Share,
            pv.utilisation,
        )
    }));
    list
}

/// Tables of the phases, and of their PVs if any is known; empty for a job without phases.
pub fn tables(phases: &[PhaseWork]) -> Vec<Table> {
    let names = pvs(phases);
    let numbers = [
        "Began",
        "Took",
        "Read",
        "Read speed",
        "Written",
        "Write speed",
    ]
    .map(Column::number);
    let columns = std::iter::once(Column::name("Phase")).chain(numbers);
    let work = Table::new("", columns, phases.iter().map(|phase| work(phase)));
    let columns = names.iter().map(|name| Column::number(*name));
    let columns = std::iter::once(Column::name("Phase, busy PVs")).chain(columns);
    let row = |phase: &PhaseWork| {
        let cells = names.iter().map(|name| pv(phase.pv(name)));
        std::iter::once(phase.name.clone().into())
            .chain(cells)
            .collect()
    };
    let busy = (!names.is_empty()).then(|| Table::new("", columns, phases.iter().map(row)));
    std::iter::once(work)
        .chain(busy)
        .filter(|table| !table.is_empty())
        .collect()
}

/// The PVs with known values in any phase.
pub fn pvs(phases: &[PhaseWork]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for pv in phases.iter().flat_map(|phase| &phase.pvs) {
        let is_known = pv.utilisation.is_some() || pv.bytes_per_s().is_some();
        if is_known && !names.contains(&&*pv.name) {
            names.push(&pv.name);
        }
    }
    names
}

fn work(phase: &PhaseWork) -> Vec<Cell> {
    let text =
        |unit: FigureUnit, value: Option<f64>| Cell::known(value.map(|value| unit.text(value)));
    vec![
        phase.name.clone().into(),
        text(FigureUnit::Seconds, Some(phase.began_s)),
        text(FigureUnit::Seconds, phase.seconds),
        text(FigureUnit::Bytes, phase.read_bytes),
        text(FigureUnit::Rate, phase.read_bytes_per_s),
        text(FigureUnit::Bytes, phase.written_bytes),
        text(FigureUnit::Rate, phase.written_bytes_per_s),
    ]
}

/// `98 %, 5.80 MiB/s`
fn pv(pv: Option<&PhasePv>) -> Cell {
    let busy = pv
        .and_then(|pv| pv.utilisation)
        .map(|share| format!("{:.0} %", share * 100.0));
    let speed = pv
        .and_then(PhasePv::bytes_per_s)
        .map(|speed| FigureUnit::Rate.text(speed));
    let known: Vec<String> = busy.into_iter().chain(speed).collect();
    Cell::known((!known.is_empty()).then(|| known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Style;

    const MIB: f64 = 1024.0 * 1024.0;

    fn phase(name: &str, began_s: f64, busy: Option<f64>) -> PhaseWork {
        let pv = |name: &str, share: f64| PhasePv {
            name: name.into(),
            utilisation: busy.map(|busy| busy * share),
            read_bytes_per_s: busy.map(|_| 0.0),
            written_bytes_per_s: busy.map(|busy| busy * share * 6.0 * MIB),
        };
        PhaseWork {
            name: name.into(),
            began_s,
            seconds: Some(8.0),
            seen_seconds: busy.map_or(0.0, |_| 8.0),
            read_bytes: busy.map(|_| 0.0),
            read_bytes_per_s: busy.map(|_| 0.0),
            written_bytes: busy.map(|busy| busy * 48.0 * MIB),
            written_bytes_per_s: busy.map(|busy| busy * 6.0 * MIB),
            pvs: vec![pv("sda", 1.0), pv("sdb", 0.0)],
        }
    }

    #[test]
    fn phases_are_rows_of_tables() {
        let phases = [
            phase("writing", 0.5, Some(1.0)),
            phase("se|ek\u{1b}ing", 3_700.0, None),
        ];
        let written = tables(&phases)
            .into_iter()
            .map(|table| table.write(Style::Plain));
        assert_eq!(
            written.collect::<Vec<_>>(),
            [
                "Phase           Began    Took  Read  Read speed   Written  Write speed\n\
                 writing        0.50 s  8.00 s   0 B       0 B/s  48.0 MiB   6.00 MiB/s\n\
                 se|ek ing  1 h 01 min  8.00 s     -           -         -            -\n",
                "Phase, busy PVs                sda         sdb\n\
                 writing          100 %, 6.00 MiB/s  0 %, 0 B/s\n\
                 se|ek ing                        -           -\n",
            ]
        );
        assert!(tables(&[]).is_empty());
    }

    #[test]
    fn figures_have_the_name_of_their_phase() {
        let phases = [
            phase("writing", 0.0, Some(0.5)),
            phase("writing", 8.0, None),
            phase("idle", 16.0, None),
        ];
        let of = shared([&phases[..], &phases[..2]]);
        assert_eq!(of, ["writing", "writing (2)"]);
        let found: Vec<_> = figures(&phases, &of)
            .into_iter()
            .map(|figure| (figure.name, figure.value))
            .collect();
        let expected = [
            ("writing: duration", Some(8.0)),
            ("writing: read speed mean", Some(0.0)),
            ("writing: write speed mean", Some(3.0 * MIB)),
            ("writing: sda busy", Some(0.5)),
            ("writing: sdb busy", Some(0.0)),
            ("writing (2): duration", Some(8.0)),
            ("writing (2): read speed mean", None),
            ("writing (2): write speed mean", None),
            ("writing (2): sda busy", None),
            ("writing (2): sdb busy", None),
        ];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.to_string(), value))
        );
    }

    #[test]
    fn names_of_phases_are_unique() {
        let phases = ["a", "a (2)", "b", "a", "a"].map(|name| phase(name, 0.0, None));
        assert_eq!(shared([&phases[..]]), ["a", "a (2)", "b", "a (3)", "a (4)"]);
    }

    #[test]
    fn shared_phases_are_those_of_all_jobs() {
        let of = |names: &[&str]| {
            names
                .iter()
                .map(|name| phase(name, 0.0, None))
                .collect::<Vec<_>>()
        };
        let (one, other) = (of(&["a", "b", "c"]), of(&["c", "d", "b"]));
        assert_eq!(shared([&one[..], &other[..]]), ["b", "c"]);
        assert!(shared([&one[..], &[][..]]).is_empty() && shared([]).is_empty());
    }
}
