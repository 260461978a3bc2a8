//! Is the size true that cowbell says a snapshot will need? `tests/lab/run sizing` runs this in the lab.
//!
//! Volumes of many kinds are written to for 27 virtual hours, and measured by the program's own code: regions, readings,
//! curves and advice. Then real snapshots are made, in two nights of three hours, with other random numbers. What was said
//! before is compared with what they needed. The results are in `benches/RESULTS.md`.
//!
//! A virtual minute is what is written in one; how long that takes does not matter.

mod aio;
mod campaign;
mod cases;
mod load;
mod machine;
mod overhead;
mod score;
mod workload;

use anyhow::bail;
use cases::{GIB, KIB};
use overhead::{Step, Volume};
use score::Figures;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut figures = Figures { missed: 0 };
    score::head();
    match words[..] {
        ["compare", seed, path] => {
            let campaign = campaign::run(seed.parse()?)?;
            std::fs::write(path, score::lines(&campaign.comparisons))?;
            score::print(&campaign.comparisons, &mut figures);
            let (took, areas) = campaign.reading;
            figures.beside(
                &format!("one reading of {areas} areas, the longest"),
                &format!("{:.0} ms", took.as_secs_f64() * 1e3),
            );
        }
        ["overhead"] => {
            let on_disk = Volume {
                lv: "on_disk",
                bytes: GIB,
            };
            let on_nothing = Volume {
                lv: "on_nothing",
                bytes: GIB,
            };
            overhead::compare(&on_disk, Step(4 * KIB), &mut figures, Some(0.03))?;
            overhead::compare(&on_disk, Step(16 * KIB), &mut figures, None)?;
            overhead::compare(&on_nothing, Step(4 * KIB), &mut figures, None)?;
            overhead::hold_up(&on_disk, &mut figures)?;
        }
        _ => bail!("expected `compare SEED FILE` or `overhead`; run it by `tests/lab/run sizing`"),
    }
    if figures.missed > 0 {
        bail!("{} goals were missed", figures.missed);
    }
    Ok(())
}
