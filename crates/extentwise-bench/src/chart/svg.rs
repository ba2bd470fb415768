//! Lines over two logarithmic axes, as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 370.0;
const COLOURS: [&str; 6] = [
    "#1b6ca8", "#c8553d", "#4c8c4a", "#8a4f9e", "#b8860b", "#555555",
];

/// A line of a picture.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Folio size in bytes, and nanoseconds.
    pub(crate) points: Vec<(u64, f64)>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(u64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
        }
    }
}

/// Times over folio sizes; both axes are logarithmic.
pub(crate) fn over_folio_size(title: &str, all: &[Series]) -> String {
    let points = || all.iter().flat_map(|series| &series.points);
    let sizes = points().map(|(size, _)| (*size).max(1).ilog2());
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(1));
    let tens = points().map(|(_, nanos)| nanos.max(1.0).log10());
    let low = tens.clone().fold(f64::INFINITY, f64::min).floor();
    let high = tens.fold(low + 1.0, f64::max).ceil();
    let x = |power: f64| {
        let span = f64::from(most - least).max(1.0);
        LEFT + (power - f64::from(least)) / span * (RIGHT - LEFT)
    };
    let y = |ten: f64| BOTTOM - (ten - low) / (high - low) * (BOTTOM - TOP);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    let mut line = |text: String| {
        svg += &text;
        svg.push('\n');
    };
    for power in least..=most {
        let at = x(f64::from(power));
        line(format!(
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{BOTTOM}\" stroke=\"#eee\"/>"
        ));
        if (power - least) % 2 == 0 {
            let label = size_shown(1 << power);
            line(format!(
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                BOTTOM + 18.0
            ));
        }
    }
    for ten in low as i32..=high as i32 {
        let at = y(f64::from(ten));
        line(format!(
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>"
        ));
        let label = time_shown(10_f64.powi(ten));
        line(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            at + 4.0
        ));
    }
    line(format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">size of the folio</text>",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 38.0
    ));
    for (nth, series) in all.iter().enumerate() {
        let colour = COLOURS[nth % COLOURS.len()];
        let mut path = String::new();
        for (size, nanos) in &series.points {
            let (at, height) = (x((*size as f64).log2()), y(nanos.max(1.0).log10()));
            // Writing into a String cannot fail.
            let _ = write!(path, "{at:.1},{height:.1} ");
            line(format!(
                "<circle cx=\"{at:.1}\" cy=\"{height:.1}\" r=\"3\" fill=\"{colour}\"/>"
            ));
        }
        line(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.trim()
        ));
        let at = TOP + 18.0 * nth as f64;
        line(format!(
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            RIGHT + 14.0,
            at + 10.0,
            escaped(&series.name)
        ));
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn size_shown(bytes: u64) -> String {
    match bytes {
        ..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn time_shown(nanos: f64) -> String {
    if nanos < 1e3 {
        format!("{nanos} ns")
    } else if nanos < 1e6 {
        format!("{} µs", nanos / 1e3)
    } else {
        format!("{} ms", nanos / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_inside_the_axes() {
        let points = vec![(4096, 12.0), (65536, 900.0), (1 << 24, 2e6)];
        let svg = over_folio_size("a < b", &[Series::new("one & two", points)]);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("a &lt; b") && svg.contains("one &amp; two"));
        for circle in svg.split("cy=\"").skip(1) {
            let height: f64 = circle.split('"').next().unwrap().parse().unwrap();
            assert!((TOP..=BOTTOM).contains(&height), "{height}");
        }
    }

    #[test]
    fn a_picture_of_nothing_is_still_one() {
        assert!(over_folio_size("nothing", &[]).ends_with("</svg>\n"));
    }
}
