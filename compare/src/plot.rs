//! Charts as one SVG file, drawn by `plotters`: what the tables say, as lines.
//!
//! A logarithmic axis is a linear one of logarithms whose marks say what they stand for.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::{Outcome, Report};
use crate::sample::Moment;
use crate::systems::Result;
use crate::workload::Workload;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 320;

/// Colours that stay apart for most people.
const COLOURS: [RGBColor; 10] = [
    RGBColor(11, 110, 153),
    RGBColor(209, 73, 91),
    RGBColor(102, 161, 130),
    RGBColor(141, 106, 159),
    RGBColor(237, 174, 73),
    RGBColor(68, 68, 68),
    RGBColor(0, 61, 91),
    RGBColor(160, 90, 44),
    RGBColor(120, 190, 210),
    RGBColor(200, 130, 180),
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    Linear,
    Log,
}

/// A name and its points.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Lines over a common horizontal axis.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    pub x: &'static str,
    /// Of the horizontal axis; the vertical one is logarithmic if it spans much.
    pub scale: Scale,
    pub lines: Vec<Line>,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(1e-3).log10(),
        }
    }

    fn text(self, place: f64) -> String {
        match self {
            Scale::Linear => number(place),
            Scale::Log => number(10_f64.powf(place)),
        }
    }
}

/// The charts of reports: latencies of each workload, and speed against live ids where several
/// numbers of them were measured.
pub fn of_reports(reports: &[Report]) -> Vec<Chart> {
    let mut charts = vec![speed_against_live(reports)];
    charts.extend(reports.iter().map(latencies));
    charts.retain(|c| c.lines.iter().any(|l| !l.points.is_empty()));
    charts
}

/// Ids a second of every run of new batches of a thousand, by how many were live.
fn speed_against_live(reports: &[Report]) -> Chart {
    let mut lines: Vec<Line> = Vec::new();
    let about = |r: &&Report| r.workload.live().is_some() || r.workload == Workload::NewBatch1000;
    for outcome in reports.iter().filter(about).flat_map(|r| &r.outcomes) {
        let Some(speed) = outcome.median("ids_per_s") else {
            continue;
        };
        let point = (outcome.size.preload.max(1) as f64, speed);
        let name = outcome.system.name();
        match lines.iter_mut().find(|l| l.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name,
                points: vec![point],
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Chart {
        title: "new_batch1000: ids a second against live ids".to_owned(),
        x: "live ids",
        scale: Scale::Log,
        lines,
    }
}

/// Percentiles of a batch.
fn latencies(report: &Report) -> Chart {
    let line = |outcome: &Outcome| {
        // One in two, in a hundred, in a thousand.
        let percentiles = [("p50_us", 2.0), ("p99_us", 100.0), ("p999_us", 1000.0)];
        let point = |(name, one_in)| Some((one_in, outcome.median(name)?));
        Line {
            name: outcome.system.name(),
            points: percentiles.into_iter().filter_map(point).collect(),
        }
    };
    Chart {
        title: format!("{}: microseconds of a batch", report.workload.name()),
        x: "the slowest of so many (2: p50, 100: p99, 1000: p99.9)",
        scale: Scale::Log,
        lines: report.outcomes.iter().map(line).collect(),
    }
}

/// How a steady run went on.
pub fn of_moments(title: &str, moments: &[Moment]) -> Chart {
    let line = |(name, of): (&str, &str)| Line {
        name: name.to_owned(),
        points: moments.iter().map(|m| (m["s"], m[of])).collect(),
    };
    let lines = [
        ("p50", "p50_us"),
        ("p99", "p99_us"),
        ("p99.9", "p999_us"),
        ("max", "max_us"),
    ];
    Chart {
        title: format!("{title}: microseconds of a batch, from when it was due"),
        x: "seconds",
        scale: Scale::Linear,
        lines: lines.map(line).into(),
    }
}

/// Draws charts one below the other.
///
/// # Errors
///
/// There is nothing to draw, or the file can't be written.
pub fn draw(charts: &[Chart], file: &Path) -> Result<()> {
    if charts.is_empty() {
        return Err("there is nothing to plot".into());
    }
    let mut text = String::new();
    {
        let size = (WIDTH, HEIGHT * charts.len() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(said)?;
        for (chart, area) in charts.iter().zip(root.split_evenly((charts.len(), 1))) {
            draw_one(chart, &area)?;
        }
        root.present().map_err(said)?;
    }
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()).into())
}

fn said(error: impl std::fmt::Display) -> String {
    format!("the plot: {error}")
}

fn draw_one(chart: &Chart, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
    let points = || chart.lines.iter().flat_map(|l| &l.points).copied();
    let (least, most) = bounds(points().map(|p| p.1));
    // Much more than a linear axis can show.
    let upright = if least > 0.0 && most / least > 20.0 {
        Scale::Log
    } else {
        Scale::Linear
    };
    let (left, right) = bounds(points().map(|p| chart.scale.place(p.0)));
    let margin = ((right - left) * 0.03).max(0.05);
    let (bottom, top) = match upright {
        Scale::Linear => (0.0, most.max(1e-9) * 1.1),
        Scale::Log => (upright.place(least) - 0.1, upright.place(most) + 0.2),
    };
    let mut drawn = ChartBuilder::on(area)
        .caption(&chart.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d((left - margin)..(right + margin), bottom..top)
        .map_err(said)?;
    drawn
        .configure_mesh()
        .x_desc(chart.x)
        .x_label_formatter(&|x| chart.scale.text(*x))
        .y_label_formatter(&|y| upright.text(*y))
        .light_line_style(WHITE)
        .draw()
        .map_err(said)?;
    for (line, colour) in chart.lines.iter().zip(COLOURS.iter().cycle()) {
        let place = |p: &(f64, f64)| (chart.scale.place(p.0), upright.place(p.1));
        let places: Vec<(f64, f64)> = line.points.iter().map(place).collect();
        let dots = places.iter().map(|p| Circle::new(*p, 3, colour.filled()));
        if places.len() <= 20 {
            drawn.draw_series(dots).map_err(said)?;
        }
        drawn
            .draw_series(LineSeries::new(places, colour.stroke_width(2)))
            .map_err(said)?
            .label(&line.name)
            .legend(|(x, y)| Rectangle::new([(x, y - 4), (x + 10, y + 4)], colour.filled()));
    }
    drawn
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()
        .map_err(said)?;
    Ok(())
}

/// The least and the greatest; of nothing, what an empty axis shows.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let span = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| {
        (least.min(v), most.max(v))
    });
    if span.0 <= span.1 { span } else { (0.0, 1.0) }
}

/// A number for an axis.
fn number(n: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units
        .into_iter()
        .find(|(size, _)| n.abs() >= *size * 0.9995);
    let (n, unit) = unit.map_or((n, ""), |(size, unit)| (n / size, unit));
    let text = format!("{n:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    /// What every reader of XML asks: one root, and what is opened is closed in order.
    fn assert_balanced(svg: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut roots = 0;
        for tag in svg.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').unwrap_or((tag, ""));
            let name = tag.split([' ', '\n', '/']).find(|w| !w.is_empty());
            let name = name.unwrap_or_default();
            if tag.starts_with(['?', '!']) || tag.ends_with('/') {
                continue;
            } else if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else {
                roots += usize::from(open.is_empty());
                open.push(name);
            }
        }
        assert_eq!((roots, open.len()), (1, 0));
    }

    #[test]
    fn a_plot_is_svg_with_every_name_in_it() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("plot.svg");
        let moment = |s: f64| -> Moment {
            let figures = [
                ("s", s),
                ("p50_us", 3.0),
                ("p99_us", 30.0),
                ("p999_us", 50.0),
                ("max_us", 9e5),
            ];
            figures.map(|(n, v)| (n.to_owned(), v)).into()
        };
        let mut charts = of_reports(&[report()]);
        assert_eq!(charts.len(), 2);
        charts.push(of_moments("a < b", &[moment(1.0), moment(2.0)]));
        draw(&charts, &file)?;
        let svg = std::fs::read_to_string(&file)?;
        assert_balanced(&svg);
        assert!(svg.starts_with("<svg") && svg.matches("<polyline").count() >= 8 + 4);
        for word in ["firstseen", "rocksdb_best", "p99.9", "live ids", "a &lt; b"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        Ok(())
    }

    #[test]
    fn nothing_to_plot_and_nowhere_to_write_are_errors() {
        assert!(draw(&[], Path::new("/tmp/none.svg")).is_err());
        let charts = of_reports(&[report()]);
        let why = draw(&charts, Path::new("/no/such/dir/plot.svg"));
        assert!(why.is_err_and(|e| e.to_string().contains("/no/such/dir")));
    }

    #[test]
    fn axes_have_short_numbers() {
        let texts = [0.0, 2.5, 999.9, 1500.0, 2e6, 0.126].map(number);
        assert_eq!(texts, ["0", "2.5", "1k", "1.5k", "2M", "0.13"]);
        assert_eq!(Scale::Log.text(Scale::Log.place(1e7)), "10M");
        assert_eq!(bounds([].into_iter()), (0.0, 1.0));
    }
}
