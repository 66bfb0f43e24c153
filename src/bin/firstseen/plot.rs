//! Plots as SVG within a page: bars and lines, with axes that people can read.
//!
//! Text that comes from a store is escaped; nothing is fetched, nothing is run.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 220.0;
/// Room for the axes' text.
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 12.0;
/// Half of what a label takes.
const LABEL_HALF: f64 = 64.0;
/// The widest bar.
const BAR_MAX: f64 = 120.0;
/// Texts along the horizontal axis.
const TICKS: usize = 6;

/// Colours that stay apart for most people, also without colour.
/// The page says what they are, in light and dark.
const COLOURS: [&str; 4] = ["var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)"];

/// Text within HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A name and its values.
pub(crate) type Series<'a> = (&'a str, Vec<f64>);

/// Bars, one for each label.
pub(crate) fn bars(labels: &[String], values: &[f64], unit: &str) -> String {
    let top = ceiling(values.iter().copied().fold(0.0, f64::max));
    let mut svg = open(top, unit);
    let step = (WIDTH - LEFT) / values.len().max(1) as f64;
    for (at, value) in values.iter().enumerate() {
        let (x, y) = (LEFT + at as f64 * step, height(*value, top));
        let tall = HEIGHT - BOTTOM - y;
        let (label, wide) = (escape(&labels[at]), bar(step));
        let _ = write!(
            svg,
            "<rect x='{x:.1}' y='{y:.1}' width='{wide:.1}' height='{tall:.1}' style='fill:{}'>\
             <title>{label}: {}</title></rect>",
            COLOURS[0],
            number(*value)
        );
    }
    labelled(&mut svg, labels, |at| {
        LEFT + at as f64 * step + bar(step) / 2.0
    });
    svg + "</svg></div>"
}

/// How wide a bar is of so many to a step.
fn bar(step: f64) -> f64 {
    (step * 0.8).clamp(1.0, BAR_MAX)
}

/// Lines over the same labels.
pub(crate) fn lines(labels: &[String], series: &[Series<'_>], unit: &str) -> String {
    let all = series.iter().flat_map(|(_, values)| values.iter().copied());
    let top = ceiling(all.fold(0.0, f64::max));
    let mut svg = open(top, unit);
    let step = (WIDTH - LEFT - 10.0) / labels.len().saturating_sub(1).max(1) as f64;
    for ((_, values), colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let mut points = String::new();
        for (at, value) in values.iter().enumerate() {
            let (x, y) = (LEFT + at as f64 * step, height(*value, top));
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let points = points.trim_end();
        let _ = write!(
            svg,
            "<polyline points='{points}' style='fill:none;stroke:{colour};stroke-width:2'/>"
        );
    }
    labelled(&mut svg, labels, |at| LEFT + at as f64 * step);
    svg.push_str("</svg></div><p class='legend'>");
    for ((name, _), colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let name = escape(name);
        let _ = write!(
            svg,
            "<span><b style='color:{colour}'>&#9632;</b> {name}</span> "
        );
    }
    svg + "</p>"
}

fn open(top: f64, unit: &str) -> String {
    let mut svg = format!(
        "<div class='wide'><svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' \
         xmlns='http://www.w3.org/2000/svg'>"
    );
    for part in 0..=4 {
        let value = top * f64::from(part) / 4.0;
        let y = height(value, top);
        let (text, unit) = (number(value), escape(unit));
        let (x, right) = (LEFT - 6.0, WIDTH);
        let _ = write!(
            svg,
            "<line x1='{LEFT}' y1='{y:.1}' x2='{right}' y2='{y:.1}' class='grid'/>\
             <text x='{x}' y='{:.1}' text-anchor='end'>{text}{unit}</text>",
            y + 4.0
        );
    }
    svg
}

fn height(value: f64, top: f64) -> f64 {
    TOP + (HEIGHT - BOTTOM - TOP) * (1.0 - value / top)
}

/// The next of 1, 2 or 5 times a power of ten.
fn ceiling(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= most).unwrap_or(most)
}

/// A number for an axis.
fn number(n: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(size, _)| n >= *size);
    let (n, unit) = unit.map_or((n, ""), |(size, unit)| (n / size, unit));
    let text = format!("{n:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

fn labelled(svg: &mut String, labels: &[String], x: impl Fn(usize) -> f64) {
    let every = labels.len().div_ceil(TICKS).max(1);
    let mut free_from = 0.0;
    for (at, label) in labels.iter().enumerate().step_by(every) {
        // Within the picture, whatever stands at its ends, and never over another one.
        let x = x(at).min(WIDTH - LABEL_HALF);
        if x < free_from {
            continue;
        }
        free_from = x + 2.0 * LABEL_HALF;
        let (y, label) = (HEIGHT - 12.0, escape(label));
        let _ = write!(
            svg,
            "<text x='{x:.1}' y='{y}' text-anchor='middle'>{label}</text>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(
            [0.0, 0.3, 7.0, 1234.0].map(ceiling),
            [1.0, 0.5, 10.0, 2000.0]
        );
        let texts = [0.0, 2.5, 1500.0, 2e6, 0.126].map(number);
        assert_eq!(texts, ["0", "2.5", "1.5k", "2M", "0.13"]);
    }

    /// Labels of times, as wide as they are, stand side by side.
    #[test]
    fn labels_never_stand_over_each_other() {
        for count in 1..70 {
            let labels = vec!["2026-12-01 05:00:00".to_string(); count];
            let values = vec![1.0; count];
            for svg in [
                bars(&labels, &values, ""),
                lines(&labels, &[("x", values.clone())], ""),
            ] {
                let at = svg.split("<text x='").skip(1);
                let at = at.filter(|text| text.contains("text-anchor='middle'"));
                let at: Vec<f64> = at
                    .map(|text| text.split('\'').next().unwrap().parse().unwrap())
                    .collect();
                assert!(!at.is_empty() && at.len() <= TICKS, "{count}");
                let apart = at.windows(2).all(|w| w[1] - w[0] >= 2.0 * LABEL_HALF - 0.2);
                assert!(apart, "{count}: {at:?}");
                assert!(
                    at.iter().all(|x| *x <= WIDTH - LABEL_HALF),
                    "{count}: {at:?}"
                );
            }
        }
    }

    #[test]
    fn text_of_a_store_stays_text() {
        let svg = bars(&["<b>&\"".to_string()], &[2.0], "");
        assert!(svg.contains("&lt;b&gt;&amp;&quot;: 2</title>"), "{svg}");
        assert!(
            svg.starts_with("<div class='wide'><svg")
                && svg.ends_with("</svg></div>")
                && !svg.contains("<b>")
        );
    }

    #[test]
    fn no_values_are_no_plot_and_no_fault() {
        assert!(bars(&[], &[], "").contains("</svg>"));
        assert!(lines(&[], &[("none", Vec::new())], "").contains("none"));
    }
}
