//! Charts as SVG within the page.
//!
//! What is drawn is stretched to the width there is, and what is written is not: the outer picture has no view box, so
//! its places are percentages and its sizes those of the page; the shapes are in an inner one that is stretched.

use std::fmt::Write;

use super::axis::Axis;
use super::html::escape;

/// Colours told apart, with dashes for those who see few of them; both begin anew behind so many.
pub const STYLES: usize = 8;

/// Lines over one pair of axes.
pub struct Chart<'c> {
    /// Names the picture within the page; no other has it.
    pub id: &'c str,
    pub title: &'c str,
    /// What it shows, for who does not see it.
    pub description: String,
    pub x: Axis,
    pub x_name: &'c str,
    pub y: Axis,
    pub curves: Vec<Curve>,
    /// Upright lines, at places where a resumed run went on.
    pub marks: Vec<f64>,
    /// What is told of a stretch when one points at it.
    pub hovers: Vec<(f64, f64, String)>,
}

/// A line, in pieces where nothing is known between.
pub struct Curve {
    pub name: String,
    /// Which of [`STYLES`].
    pub style: usize,
    pub pieces: Vec<Vec<(f64, f64)>>,
    /// From the least to the most, around the line.
    pub band: Vec<(f64, f64, f64)>,
    /// Whether each point is marked.
    pub dotted: bool,
}

impl Curve {
    /// Of what is known at places along the axis.
    pub fn of(name: &str, style: usize, points: impl IntoIterator<Item = (f64, Option<f64>)>) -> Self {
        let mut pieces = vec![Vec::new()];
        for (x, y) in points {
            match (y.filter(|y| y.is_finite()), pieces.last_mut()) {
                (Some(y), Some(piece)) => piece.push((x, y)),
                (None, Some(piece)) if !piece.is_empty() => pieces.push(Vec::new()),
                _ => {}
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        Self { name: name.to_owned(), style, pieces, band: Vec::new(), dotted: false }
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Every point.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.pieces.iter().flatten().copied()
    }
}

impl Chart<'_> {
    /// The figure.
    pub fn html(&self) -> String {
        let mut shapes = String::new();
        for curve in &self.curves {
            shapes += &self.band(curve);
        }
        for curve in &self.curves {
            shapes += &self.line(curve);
        }
        let mut inner = stretched(&shapes, "0", "100%");
        for mark in &self.marks {
            let x = percent(self.x.place(*mark));
            let _ = write!(inner, "<line class=\"mark\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"100%\"/>");
        }
        for curve in &self.curves {
            inner += &self.dots(curve);
        }
        inner += &hovers(&self.x, &self.hovers);
        let legend = if self.curves.len() > 1 { legend_of_lines(&self.curves) } else { String::new() };
        figure(&Figure {
            id: self.id,
            title: self.title,
            description: &self.description,
            legend: &legend,
            height: 200,
            axes: &(grid(&self.y) + &x_labels(&self.x, 200)),
            inner: &inner,
            x_name: self.x_name,
            wide: false,
        })
    }

    fn line(&self, curve: &Curve) -> String {
        let mut path = String::new();
        for piece in &curve.pieces {
            for (index, &(x, y)) in piece.iter().enumerate() {
                let command = if index == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{command}{}", self.point(x, y));
            }
            // A point alone is a dot: a line of no length with round ends.
            if let [(x, y)] = piece[..] {
                let _ = write!(path, "L{}", self.point(x, y));
            }
        }
        format!("<path class=\"line s{}\" d=\"{path}\"/>", curve.style % STYLES)
    }

    fn band(&self, curve: &Curve) -> String {
        if curve.band.is_empty() {
            return String::new();
        }
        let above = curve.band.iter().map(|&(x, _, most)| self.point(x, most));
        let below = curve.band.iter().rev().map(|&(x, least, _)| self.point(x, least));
        let path = above.chain(below).collect::<Vec<_>>().join("L");
        format!("<path class=\"band s{}\" d=\"M{path}Z\"/>", curve.style % STYLES)
    }

    fn dots(&self, curve: &Curve) -> String {
        let mut dots = String::new();
        for (x, y) in curve.points().filter(|_| curve.dotted) {
            let (x, y) = (percent(self.x.place(x)), percent(1.0 - self.y.place(y)));
            let style = curve.style % STYLES;
            let _ = write!(dots, "<circle class=\"dot s{style}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>");
        }
        dots
    }

    fn point(&self, x: f64, y: f64) -> String {
        format!("{} {}", thousandths(self.x.place(x)), thousandths(1.0 - self.y.place(y)))
    }
}

/// Parts of a figure, each made already.
pub struct Figure<'f> {
    pub id: &'f str,
    pub title: &'f str,
    pub description: &'f str,
    pub legend: &'f str,
    pub height: u32,
    /// Grid and numbers, which may stand outside of the picture.
    pub axes: &'f str,
    pub inner: &'f str,
    pub x_name: &'f str,
    /// Whether it takes the page's whole width.
    pub wide: bool,
}

/// The figure with its caption, its legend above and the axis' name below.
pub fn figure(parts: &Figure<'_>) -> String {
    let Figure { id, title, description, legend, height, axes, inner, x_name, wide } = parts;
    let (title, description, x_name) = (escape(title), escape(description), escape(x_name));
    let class = if *wide { " class=\"wide\"" } else { "" };
    format!(
        "<figure{class}><figcaption>{title}</figcaption>\n{legend}<div class=\"plot\">\
         <svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" width=\"100%\" height=\"{height}\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>\n\
         {axes}\n{inner}</svg></div>\
         <p class=\"axis\">{x_name}</p></figure>\n"
    )
}

/// Shapes in places from 0 to 1000 either way, stretched into a part of the picture's height.
pub fn stretched(shapes: &str, y: &str, height: &str) -> String {
    format!(
        "<svg x=\"0\" y=\"{y}\" width=\"100%\" height=\"{height}\" viewBox=\"0 0 1000 1000\" \
         preserveAspectRatio=\"none\" aria-hidden=\"true\">{shapes}</svg>\n"
    )
}

/// Lines across the picture with their numbers on the left.
fn grid(axis: &Axis) -> String {
    let mut grid = String::new();
    for tick in &axis.ticks {
        let (y, label) = (percent(1.0 - axis.place(*tick)), axis.label(*tick));
        let _ = write!(
            grid,
            "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>\
             <text x=\"-8\" y=\"{y}\" dy=\"4\" text-anchor=\"end\">{label}</text>"
        );
    }
    grid
}

/// Numbers below the picture. Those at its ends stay within its width.
pub fn x_labels(axis: &Axis, height: u32) -> String {
    let mut labels = String::new();
    for tick in &axis.ticks {
        let place = axis.place(*tick);
        let label = axis.label(*tick);
        let anchor = match place {
            0.97.. => "end",
            ..0.03 if label.len() > 1 => "start",
            _ => "middle",
        };
        let (x, end) = (percent(place), height + 6);
        let _ = write!(
            labels,
            "<line class=\"tick\" x1=\"{x}\" x2=\"{x}\" y1=\"{height}\" y2=\"{end}\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{label}</text>",
            height + 19
        );
    }
    labels
}

/// What is told of each stretch when one points at it.
pub fn hovers(axis: &Axis, stretches: &[(f64, f64, String)]) -> String {
    let mut html = String::new();
    for (from, to, text) in stretches {
        let (x, end) = (axis.place(*from), axis.place(*to));
        let (x, width, text) = (percent(x), percent(end - x), escape(text));
        let _ = writeln!(
            html,
            "<rect class=\"hover\" x=\"{x}\" width=\"{width}\" height=\"100%\"><title>{text}</title></rect>"
        );
    }
    html
}

/// Names of lines, each behind a piece of it.
pub fn legend_of_lines(curves: &[Curve]) -> String {
    let item = |curve: &Curve| format!("<li>{}{}</li>", sample(curve.style), escape(&curve.name));
    let items: String = curves.iter().map(item).collect();
    format!("<ul class=\"legend\">{items}</ul>\n")
}

/// A piece of a line in its style.
pub fn sample(style: usize) -> String {
    let style = style % STYLES;
    format!(
        "<svg class=\"sample\" width=\"26\" height=\"10\" aria-hidden=\"true\">\
         <path class=\"line s{style}\" d=\"M1 5L25 5\"/></svg>"
    )
}

/// A share of the picture's width or height.
pub fn percent(share: f64) -> String {
    format!("{}%", trimmed(100.0 * share, 2))
}

/// A share of a stretched picture's width or height.
pub fn thousandths(share: f64) -> String {
    trimmed(1000.0 * share, 1)
}

fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_gap_where_nothing_is_known() {
        let points =
            [(0.0, Some(1.0)), (1.0, Some(3.0)), (2.0, None), (3.0, Some(f64::NAN)), (4.0, Some(2.0))];
        let curve = Curve::of("<a>", 9, points);
        assert_eq!(curve.pieces, [vec![(0.0, 1.0), (1.0, 3.0)], vec![(4.0, 2.0)]]);
        let chart = Chart {
            id: "c",
            title: "T & t",
            description: String::new(),
            x: Axis::exactly(0.0, 4.0, 4),
            x_name: "x",
            y: Axis::around(0.0, 4.0, 4),
            curves: vec![curve],
            marks: vec![2.0],
            hovers: vec![(0.0, 1.0, "<b>".to_owned())],
        };
        let html = chart.html();
        assert!(html.contains("<path class=\"line s1\" d=\"M0 750L250 250M1000 500L1000 500\"/>"), "{html}");
        assert!(html.contains("<line class=\"mark\" x1=\"50%\""), "{html}");
        assert!(html.contains("x=\"0%\" width=\"25%\" height=\"100%\"><title>&lt;b&gt;</title>"), "{html}");
        assert!(html.contains("<title id=\"c-t\">T &amp; t</title>"), "{html}");
    }

    #[test]
    fn places_have_no_more_digits_than_are_seen() {
        assert_eq!(
            (percent(1.0 / 3.0), percent(0.5), percent(-0.0)),
            ("33.33%".into(), "50%".into(), "0%".into())
        );
        assert_eq!((thousandths(0.12345), thousandths(1.0)), ("123.5".into(), "1000".into()));
    }
}
