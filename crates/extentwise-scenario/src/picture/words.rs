//! Numbers and names as people read them.

use std::fmt::Write as _;

const UNITS: [(u64, &str); 6] = [
    (1 << 60, "EiB"),
    (1 << 50, "PiB"),
    (1 << 40, "TiB"),
    (1 << 30, "GiB"),
    (1 << 20, "MiB"),
    (1 << 10, "KiB"),
];

/// A number of bytes or an offset, always exact: `16 KiB`, `16 TiB + 36 KiB`,
/// `10000`.
pub(crate) fn bytes(value: u64) -> String {
    const COMPOUND_MIN: u64 = 1 << 30;
    if value == 0 {
        return "0".to_owned();
    }
    let Some(&(unit, name)) = UNITS.iter().find(|(unit, _)| value >= *unit) else {
        return value.to_string();
    };
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return format!("{whole} {name}");
    }
    // One unit for the rest, or the number itself is easier to read.
    let of_rest = UNITS
        .iter()
        .find(|(unit, _)| rest.is_multiple_of(*unit))
        .filter(|(unit, _)| rest / unit < 100_000);
    match of_rest {
        Some((rest_unit, rest_name)) if value >= COMPOUND_MIN => {
            format!("{whole} {name} + {} {rest_name}", rest / rest_unit)
        }
        Some((small, small_name)) if value < COMPOUND_MIN => {
            format!("{} {small_name}", value / small)
        }
        _ => value.to_string(),
    }
}

/// A length: as [`bytes`], with its unit always named.
pub(crate) fn length(value: u64) -> String {
    let shown = bytes(value);
    if shown.ends_with('B') {
        shown
    } else {
        format!("{shown} bytes")
    }
}

/// The half-open range `[start, end)`.
pub(crate) fn span(start: u64, end: u64) -> String {
    format!("[{}, {})", bytes(start), bytes(end))
}

/// As [`span`], from a start and a length.
pub(crate) fn span_of(start: u64, len: u64) -> String {
    span(start, start.saturating_add(len))
}

/// The first few of many; the others are counted.
pub(crate) fn listed(items: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    const ITEMS_MAX: usize = 8;
    let more = items.len().saturating_sub(ITEMS_MAX);
    let listed: Vec<String> = items.take(ITEMS_MAX).collect();
    match more {
        0 => listed.join(separator),
        more => format!("{} and {more} more", listed.join(separator)),
    }
}

/// One line of text that cannot move a terminal's cursor.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() {
            // Writing to a String cannot fail.
            let _ = write!(line, "{}", char.escape_default());
        } else {
            line.push(char);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_exact_and_short() {
        for (value, shown) in [
            (0, "0"),
            (1000, "1000"),
            (4096, "4 KiB"),
            (10_000, "10000"),
            (1_052_672, "1028 KiB"),
            ((1 << 44) + 36_864, "16 TiB + 36 KiB"),
            (u64::MAX >> 1, "9223372036854775807"),
            (1 << 63, "8 EiB"),
        ] {
            assert_eq!(bytes(value), shown);
        }
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let items = |count: u32| (0..count).map(|item| item.to_string());
        assert_eq!(
            listed(items(3).collect::<Vec<_>>().into_iter(), ", "),
            "0, 1, 2"
        );
        let ten = listed(items(10).collect::<Vec<_>>().into_iter(), "+");
        assert_eq!(ten, "0+1+2+3+4+5+6+7 and 2 more");
    }

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }
}
