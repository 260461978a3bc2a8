//! Sizes in lvcreate's syntax.

/// The argument of lvcreate's `--size` in bytes: `5G`, `1.5t`, `512` (MiB). `None` for percentages.
pub fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let amount: f64 = text[..end].parse().ok().filter(|amount| *amount > 0.0)?;
    let unit = text[end..].to_ascii_lowercase();
    let power: u64 = match unit
        .strip_suffix("ib")
        .or(unit.strip_suffix('b'))
        .unwrap_or(&unit)
    {
        "" if unit == "b" => 1,
        "" if unit.is_empty() => 1 << 20,
        "s" => 512,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        "p" => 1 << 50,
        "e" => 1 << 60,
        _ => return None,
    };
    Some((amount * power as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_match_lvcreate_of_lvm_2_03_16() {
        const MIB: u64 = 1 << 20;
        for (text, bytes) in [
            ("5G", Some(5120 * MIB)),
            ("5GiB", Some(5120 * MIB)),
            ("10mb", Some(10 * MIB)),
            ("10", Some(10 * MIB)),
            ("1.5g", Some(1536 * MIB)),
            (".5G", Some(512 * MIB)),
            ("+10M", Some(10 * MIB)),
            ("20480S", Some(10 * MIB)),
            ("10485760b", Some(10 * MIB)),
            ("20480K", Some(20 * MIB)),
            ("10%ORIGIN", None),
            ("100%FREE", None),
            ("-10M", None),
            ("0", None),
            ("", None),
            ("5x", None),
            ("10,5M", None),
            ("5G # small", None),
        ] {
            assert_eq!(size_bytes(text), bytes, "{text:?}");
        }
    }
}
