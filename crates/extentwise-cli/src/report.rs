//! How reports for people are written.

// Numbers are shown rounded.
#![allow(clippy::cast_precision_loss)]

use std::fmt::{self, Write as _};

/// A line: what it is about, and what there is to say.
pub(crate) fn row(f: &mut fmt::Formatter<'_>, title: &str, text: &str) -> fmt::Result {
    writeln!(f, "{title:<10} {text}")
}

/// A number of things.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let plural = match (number, thing.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {thing}{plural}", grouped(number))
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds in a unit that leaves one to three digits before the point.
pub(crate) fn duration(nanoseconds: u64) -> String {
    const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
    let mut value = nanoseconds as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let mut text = String::new();
    let precision = usize::from(unit > 0 && value < 100.0);
    let _ = write!(text, "{value:.precision$} {}", UNITS[unit]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let texts: Vec<_> = [0, 999, 1000, 1_234_567].map(grouped).to_vec();
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
