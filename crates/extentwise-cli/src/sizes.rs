//! Sizes as the command line takes them: `4096`, `64k`, `2M`, `1GiB`.

/// A size in bytes; the units count in 1024s.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits_len);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(RULE.to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| RULE.to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("must be at most {} bytes", u64::MAX))
}

/// A size as messages show it: with the largest unit that divides it.
pub(crate) fn shown(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let exponent = (bytes.trailing_zeros() as usize / 10).min(UNITS.len() - 1);
    let exponent = if bytes == 0 { 0 } else { exponent };
    format!("{}{}", bytes >> (10 * exponent), UNITS[exponent])
}

const RULE: &str = "must be a number of bytes, or one with a unit of 1024s: 4096, 64k, 2M, 1G";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_count_in_1024s_in_any_case() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("64k", 65_536),
            ("64K", 65_536),
            ("2M", 2 << 20),
            ("2MiB", 2 << 20),
            ("1g", 1 << 30),
            ("1T", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_rule() {
        for text in [
            "",
            "k",
            "4x",
            "-1",
            "+1",
            "1 k",
            "1.5M",
            "0x10",
            "4kk",
            "18446744073709551616",
        ] {
            assert_eq!(parse(text), Err(RULE.to_owned()), "{text}");
        }
        assert_eq!(
            parse("16777216T"),
            Err("must be at most 18446744073709551615 bytes".to_owned())
        );
    }

    #[test]
    fn a_shown_size_parses_back() {
        for bytes in [0, 1, 512, 1000, 4096, 65_536, 2 << 20, 3 << 40, u64::MAX] {
            assert_eq!(parse(&shown(bytes)), Ok(bytes));
        }
        assert_eq!(shown(2 << 20), "2M");
    }
}
