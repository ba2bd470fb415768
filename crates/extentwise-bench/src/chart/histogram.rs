//! Distributions as text, in powers of two, as tracing tools print them.

use std::fmt::Write as _;

/// Columns of the longest bar.
const WIDTH: usize = 40;

/// One line for each power of two from the shortest time to the longest.
pub(crate) fn text(title: &str, nanos: &[u64]) -> String {
    let mut counts = [0_usize; 64];
    for time in nanos {
        let power = time.checked_ilog2().unwrap_or(0) as usize;
        counts[power] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let mut text = format!("{title}\n");
    for (power, count) in counts.iter().enumerate().take(last + 1).skip(first) {
        let bar = "@".repeat((count * WIDTH).div_ceil(most));
        let label = format!("[{}, {})", shown(power), shown(power + 1));
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{label:>18} {count:>8} |{bar:<WIDTH$}|");
    }
    text
}

/// A power of two of nanoseconds.
fn shown(power: usize) -> String {
    match power {
        0..=9 => format!("{} ns", 1_u64 << power),
        10..=19 => format!("{} us", 1_u64 << (power - 10)),
        _ => format!("{} ms", 1_u64 << (power - 20).min(43)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_falls_into_its_power_of_two_and_gaps_are_shown() {
        let text = text("times", &[64, 127, 256]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].contains("[64 ns, 128 ns)        2 |@@@@"));
        assert!(lines[2].contains("[128 ns, 256 ns)        0 | "));
        assert!(lines[3].contains("[256 ns, 512 ns)        1 |@"));
    }

    #[test]
    fn no_times_and_times_of_zero_are_drawn_too() {
        assert!(text("none", &[]).contains('0'));
        assert!(text("zero", &[0, u64::MAX]).contains("ms"));
    }
}
