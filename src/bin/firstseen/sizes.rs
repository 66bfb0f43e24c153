//! Sizes as the command line writes them: `500GB`, `2TiB`, `64MiB`, or bytes.

/// Bytes from text.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    const FORM: &str = "write bytes, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB";
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let factor: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(FORM.to_string()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(factor)
            .ok_or_else(|| "too large".to_string());
    }
    let number: f64 = number.parse().map_err(|_| FORM)?;
    let bytes = number * factor as f64;
    if !bytes.is_finite() || bytes >= 1e18 {
        return Err("too large".to_string());
    }
    Ok(bytes as u64)
}

/// Bytes for people, in powers of ten as disks are sold.
pub(crate) fn text(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let n = bytes as f64;
    let unit = units.into_iter().find(|(size, _)| n >= *size);
    match unit {
        None => format!("{bytes} B"),
        Some((size, name)) if n / size >= 100.0 => format!("{:.0} {name}", n / size),
        Some((size, name)) => format!("{:.1} {name}", n / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("512"), Ok(512));
        assert_eq!(parse("2TiB"), Ok(2 << 40));
        assert_eq!(parse("1.5GB"), Ok(1_500_000_000));
        assert_eq!(parse("3 kB"), Ok(3_000));
        for wrong in ["", "GB", "-1", "1XB", "1e99", "99999999999TB", "."] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(text(999), "999 B");
        assert_eq!(text(1_500), "1.5 kB");
        assert_eq!(text(245_000_000_000), "245 GB");
    }
}
