//! `cowbell size VG/LV`: how large a snapshot has to be.

use anyhow::bail;

use super::job::Form;
use super::terminal::wrapped;
use super::{Daemon, TIME_LIMIT, parsed};
use crate::sizing::SizeAdvice;
use crate::table::Style;
use crate::web::escaped;

/// The advice for a volume, `VG/LV` or its path.
pub async fn size(daemon: &Daemon, volume: &str, form: Form) -> anyhow::Result<String> {
    let advice = ask(daemon, volume, None).await?;
    Ok(match form {
        Form::Json => serde_json::to_string(&advice)? + "\n",
        _ => wrapped(&text(&advice)),
    })
}

/// The daemon's answer; `planned` is the size of the next snapshot in bytes.
pub async fn ask(
    daemon: &Daemon,
    volume: &str,
    planned: Option<u64>,
) -> anyhow::Result<SizeAdvice> {
    let name = volume.strip_prefix("/dev/").unwrap_or(volume);
    let Some((vg, lv)) = name
        .split_once('/')
        .filter(|(vg, lv)| !vg.is_empty() && !lv.is_empty())
    else {
        bail!(
            "cannot tell the size of a snapshot of `{volume}`: expected a volume such as vg0/mysql"
        );
    };
    let planned: Vec<(&str, String)> = planned
        .map(|bytes| ("planned", bytes.to_string()))
        .into_iter()
        .collect();
    let path = format!("/api/v1/volumes/{}/{}/size", escaped(vg), escaped(lv));
    parsed(&daemon.ask(&path, &planned, TIME_LIMIT).await?)
}

/// The sentences, the table, and the line to set.
fn text(advice: &SizeAdvice) -> String {
    let planned = advice.planned.as_ref().map(|planned| &planned.text);
    let hours = advice.hours.as_ref().map(|hours| &hours.text);
    let mut text = String::new();
    for line in [planned, advice.remedy.as_ref(), advice.room.as_ref(), hours]
        .into_iter()
        .flatten()
    {
        text += &format!("{line}\n");
    }
    let table = advice.table().write(Style::Plain);
    text + &format!("\n{table}\n{}\n{}\n", advice.basis, advice.limits)
}
