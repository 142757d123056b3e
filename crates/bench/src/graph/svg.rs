//! The graph as SVG: readable on a light and on a dark page, and without colours.

use std::fmt::Write as _;

use super::chart::{Chart, Line, Point, Scale};
use super::{delay, rate};

/// The width of the whole, and the size of a panel and of the space around it.
const WIDTH: f64 = 960.0;
const PANEL: (f64, f64) = (370.0, 150.0);
const LEFT: f64 = 74.0;
const GAP: f64 = 96.0;
/// The height of a chart: title, panels, labels of the load.
const CHART: f64 = 252.0;
const TOP: f64 = 58.0;
/// The side of the mark at a point.
const MARK: f64 = 4.0;

/// Colours by the preference of the reader. The lines differ in their marks and dashes as well.
const STYLE: &str = "
  svg { --paper: #ffffff; --ink: #1f2328; --faint: #d1d9e0; --ours: #0969da; --peer: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #e6edf3; --faint: #3d444d; --ours: #58a6ff; --peer: #f0883e; }
  }
  text { font: 12px sans-serif; fill: var(--ink); }
  .title { font-weight: bold; font-size: 13px; }
  .grid { stroke: var(--faint); stroke-width: 1; }
  .line { fill: none; stroke-width: 2; }
  .ours { stroke: var(--ours); }
  .peer { stroke: var(--peer); stroke-dasharray: 6 4; }
  .mark { fill: var(--paper); stroke-width: 2; stroke-dasharray: none; }
";

/// Draws the charts below each other.
pub(super) fn draw(charts: &[Chart], caption: &str) -> String {
    let height = TOP + CHART * charts.len() as f64;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>Throughput and delay as the load grows, beside the peer</title>\n\
         <desc>{}</desc>\n\
         <style>{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"var(--paper)\"/>",
        escape(caption)
    );
    text(&mut svg, (16.0, 24.0), ("start", ""), caption);
    text(
        &mut svg,
        (16.0, 42.0),
        ("start", ""),
        "Left: acknowledged or seen per second. Right: 99 of 100 within this time. All scales are \
         logarithmic.",
    );
    for (number, chart) in charts.iter().enumerate() {
        draw_chart(&mut svg, chart, TOP + CHART * number as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

/// What a vertical axis shows of a point, and how its labels read.
type Axis = (fn(&Point) -> f64, fn(f64) -> String);

fn draw_chart(svg: &mut String, chart: &Chart, top: f64) {
    text(svg, (16.0, top + 16.0), ("start", "title"), &chart.title);
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let loads = Scale::of(points().map(|point| point.load));
    let panels: [Axis; 2] = [(|point| point.per_second, rate), (|point| point.p99, delay)];
    for (number, (value, label)) in panels.into_iter().enumerate() {
        let corner = (LEFT + (PANEL.0 + GAP) * number as f64, top + 32.0);
        let values = Scale::of(points().map(value));
        draw_grid(svg, corner, (loads, values), label);
        let center = (corner.0 + PANEL.0 / 2.0, corner.1 + PANEL.1 + 32.0);
        text(svg, center, ("middle", ""), chart.load);
        let place = |point: &Point| {
            let x = corner.0 + PANEL.0 * loads.place(point.load);
            (x, corner.1 + PANEL.1 * (1.0 - values.place(value(point))))
        };
        for (line, class) in chart.lines.iter().zip(["ours", "peer"]) {
            draw_line(svg, line, class, place);
        }
    }
    for (number, (line, class)) in chart.lines.iter().zip(["ours", "peer"]).enumerate() {
        let (x, y) = (LEFT + 250.0 * number as f64, top + 32.0 + PANEL.1 + 54.0);
        let _ = writeln!(svg, "<path class=\"line {class}\" d=\"M{x} {y}h36\"/>");
        mark(svg, (x + 18.0, y), class);
        text(svg, (x + 44.0, y + 4.0), ("start", ""), &line.name);
    }
}

/// Draws the powers of ten of both axes with their labels.
fn draw_grid(
    svg: &mut String,
    (left, top): (f64, f64),
    (loads, values): (Scale, Scale),
    label: fn(f64) -> String,
) {
    for tick in loads.ticks() {
        let x = left + PANEL.0 * loads.place(tick);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {top:.1}v{}\"/>", PANEL.1);
        let number = crate::figure::thousands(tick);
        text(svg, (x, top + PANEL.1 + 16.0), ("middle", ""), &number);
    }
    for tick in values.ticks() {
        let y = top + PANEL.1 * (1.0 - values.place(tick));
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{left:.1} {y:.1}h{}\"/>", PANEL.0);
        text(svg, (left - 8.0, y + 4.0), ("end", ""), &label(tick));
    }
}

fn draw_line(svg: &mut String, line: &Line, class: &str, place: impl Fn(&Point) -> (f64, f64)) {
    let places: Vec<(f64, f64)> = line.points.iter().map(place).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    if !path.is_empty() {
        let _ = writeln!(svg, "<path class=\"line {class}\" d=\"M{}\"/>", path.join("L"));
    }
    places.into_iter().for_each(|at| mark(svg, at, class));
}

/// Draws a circle for our side, and a square for the peer.
fn mark(svg: &mut String, (x, y): (f64, f64), class: &str) {
    let _ = match class {
        "ours" => {
            writeln!(
                svg,
                "<circle class=\"mark {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{MARK}\"/>"
            )
        }
        _ => {
            let (left, top, side) = (x - MARK, y - MARK, 2.0 * MARK);
            writeln!(
                svg,
                "<rect class=\"mark {class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{side}\" \
                 height=\"{side}\"/>"
            )
        }
    };
}

fn text(svg: &mut String, (x, y): (f64, f64), (anchor, class): (&str, &str), words: &str) {
    let words = escape(words);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>"
    );
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, per_second: f64) -> Line {
        let points = [(8.0, 0.002), (2048.0, 0.2)];
        let points = points.map(|(load, p99)| Point { load, per_second: per_second * load, p99 });
        Line { name: name.to_string(), points: points.to_vec() }
    }

    #[test]
    fn both_sides_are_in_both_panels_and_within_them() {
        let lines = vec![line("ours <1>", 1000.0), line("peer & co", 10.0)];
        let chart = Chart { title: "1. Work".into(), load: "calls", lines };
        let svg = draw(&[chart], "a machine");
        for (part, times) in [
            ("class=\"line ours\"", 3),
            ("class=\"line peer\"", 3),
            ("<circle", 5),
            ("class=\"mark peer\"", 5),
            ("ours &lt;1&gt;", 1),
            ("peer &amp; co", 1),
            ("prefers-color-scheme: dark", 1),
        ] {
            assert_eq!(svg.matches(part).count(), times, "{part} in\n{svg}");
        }
        let marks =
            svg.lines().filter_map(|line| line.strip_prefix("<circle class=\"mark ours\" cx=\""));
        for x in marks.filter_map(|rest| rest.split('"').next()) {
            let x: f64 = x.parse().unwrap();
            assert!((LEFT..=WIDTH).contains(&x), "{x}");
        }
    }

    #[test]
    fn a_chart_without_points_is_drawn() {
        let chart = Chart { title: "1. Work".into(), load: "calls", lines: Vec::new() };
        assert!(draw(&[chart], "").ends_with("</svg>\n"));
    }
}
