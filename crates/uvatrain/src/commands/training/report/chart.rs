//! Charts as SVG, drawn by plotters, and the parts of them that the page writes.
//!
//! plotters writes fixed colours. The page's style maps each colour of [`PALETTE`] to a variable, which has another
//! value in dark mode. Sizes of text and strokes come from the style as well, since pictures are scaled to the
//! available width.

use std::ops::Range;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use serde::Serialize;

/// Units of a picture for a pixel of the page: plotters places everything at whole units.
pub const UNIT: u32 = 4;
/// Every colour of a picture in the light theme, with the name of its variable in the style. Lines stay distinguishable
/// with red-green colour blindness. Their colours repeat after eight.
pub const PALETTE: [(&str, RGBColor); 15] = [
    ("s0", RGBColor(0, 114, 178)),
    ("s1", RGBColor(213, 94, 0)),
    ("s2", RGBColor(0, 143, 104)),
    ("s3", RGBColor(181, 85, 143)),
    ("s4", RGBColor(138, 109, 0)),
    ("s5", RGBColor(63, 155, 209)),
    ("s6", RGBColor(107, 78, 160)),
    ("s7", RGBColor(77, 88, 102)),
    ("working", RGBColor(11, 95, 165)),
    ("waiting-input", RGBColor(232, 163, 23)),
    ("waiting-output", RGBColor(179, 193, 212)),
    ("unknown", RGBColor(241, 243, 246)),
    ("rule", RGBColor(221, 226, 232)),
    ("mark", RGBColor(90, 102, 117)),
    ("text", RGBColor(28, 36, 48)),
];
pub const DOINGS: [RGBColor; 3] = [PALETTE[8].1, PALETTE[9].1, PALETTE[10].1];
pub const UNKNOWN: RGBColor = PALETTE[11].1;
/// Grid lines and axes.
pub const RULE: RGBColor = PALETTE[12].1;
/// Marks where a run was resumed.
const MARK: RGBColor = PALETTE[13].1;
/// The mean in a histogram.
pub const MEAN: RGBColor = PALETTE[14].1;

/// A colour as SVG writes it.
pub fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The colour of the line of this number.
pub fn line(number: usize) -> RGBColor {
    PALETTE[number % 8].1
}

/// An entry of a legend: `line`, `area` or `band`, its colour as SVG writes it, and its name.
pub type LegendEntry = (&'static str, String, String);

/// A figure of the page.
#[derive(Debug, Default, Serialize)]
pub struct ChartFigure {
    /// Prefix of the ids of its parts, unique on the page.
    pub id: String,
    pub title: String,
    /// A description for readers who cannot see the figure.
    pub description: String,
    pub legend: Vec<LegendEntry>,
    /// One picture, or one for wide screens and one for narrow screens.
    pub pictures: Vec<Picture>,
    /// The label below the horizontal axis.
    pub axis: String,
}

/// An SVG without its outermost element, and the tooltips of its rectangles (x, y, width, height).
#[derive(Debug, Serialize)]
pub struct Picture {
    width: u32,
    height: u32,
    svg: String,
    hovers: Vec<([i32; 4], String)>,
}

/// A stretch of the horizontal axis and its tooltip.
pub type Tooltip = (f64, f64, String);
/// The canvas for shapes.
pub type Canvas<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A pair of axes and their size on the page, in pixels.
pub struct Axes<'f> {
    pub size: (u32, u32),
    pub x: Range<f64>,
    pub y: Range<f64>,
    pub x_ticks: usize,
    /// Formats the numbers of the vertical axis, which is omitted without it.
    pub y_label: Option<&'f dyn Fn(&f64) -> String>,
}

impl Axes<'_> {
    /// Draws axes, grid and these shapes.
    ///
    /// # Errors
    /// If plotters cannot draw.
    pub fn draw(
        &self,
        told: &[Tooltip],
        shapes: impl FnOnce(&mut Canvas<'_, '_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Picture> {
        let (width, height) = (self.size.0 * UNIT, self.size.1 * UNIT);
        let (x, y) = (sound(&self.x), sound(&self.y));
        let mut svg = String::new();
        let mut hovers = Vec::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            let mut chart = ChartBuilder::on(&area)
                .margin_top(8 * UNIT)
                .margin_right(16 * UNIT)
                .margin_left(if self.y_label.is_some() { 0 } else { 2 * UNIT })
                .x_label_area_size(24 * UNIT)
                .y_label_area_size(if self.y_label.is_some() { 56 * UNIT } else { 0 })
                .build_cartesian_2d(x.clone(), y.clone())?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(RULE).axis_style(RULE);
            mesh.set_all_tick_mark_size(5 * UNIT).x_labels(self.x_ticks).x_label_formatter(&number);
            match self.y_label {
                Some(label) => mesh.y_labels(5).y_label_formatter(label),
                None => mesh.disable_y_mesh().disable_y_axis(),
            };
            mesh.draw()?;
            shapes(&mut chart)?;
            for (from, to, text) in told {
                let (left, top) = chart.backend_coord(&(from.clamp(x.start, x.end), y.end));
                let (right, bottom) = chart.backend_coord(&(to.clamp(x.start, x.end), y.start));
                hovers.push(([left, top, right - left, bottom - top], text.clone()));
            }
            area.present()?;
        }
        // The page writes the outermost element itself, with a role and a name.
        let inner = svg.split_once('>').and_then(|(_, rest)| rest.rsplit_once("</svg>"));
        let svg = inner.map_or(String::new(), |(inner, _)| inner.replace(" opacity=\"1\"", ""));
        Ok(Picture { width, height, svg, hovers })
    }
}

/// A valid range for an axis: finite, and wider than the precision of floats.
fn sound(range: &Range<f64>) -> Range<f64> {
    let (least, most) = (range.start, range.end);
    match range {
        _ if !(most - least).is_finite() => 0.0..1.0,
        _ if most - least > 1e-9 * least.abs().max(most.abs()) => least..most,
        _ if least == 0.0 => 0.0..1.0,
        _ => least - 0.1 * least.abs()..least + 0.1 * least.abs(),
    }
}

/// Lines over one pair of axes. Title, description, axis and names are given; the rest is drawn.
#[derive(Default)]
pub struct Chart {
    pub figure: ChartFigure,
    pub x: Range<f64>,
    /// Whether the horizontal axis has only whole numbers.
    pub whole: bool,
    /// The range of the vertical axis; by default that of the lines.
    pub y: Option<Range<f64>>,
    pub percent: bool,
    pub curves: Vec<Curve>,
    /// Positions where the run was resumed.
    pub marks: Vec<f64>,
    pub told: Vec<Tooltip>,
}

/// A line, interrupted where values are unknown.
pub struct Curve {
    pub name: String,
    pub colour: RGBColor,
    pub pieces: Vec<Vec<(f64, f64)>>,
    /// The band from the least to the largest value around the line.
    pub band: Vec<(f64, f64, f64)>,
    /// Whether each point is marked.
    pub dotted: bool,
}

impl Curve {
    /// The line with this number, through known points along the axis.
    pub fn of(name: &str, number: usize, points: impl IntoIterator<Item = (f64, Option<f64>)>) -> Self {
        let points: Vec<_> = points.into_iter().map(|(x, y)| (x, y.filter(|y| y.abs() < 1e300))).collect();
        let known = points.split(|(_, y)| y.is_none()).filter(|piece| !piece.is_empty());
        let pieces = known.map(|piece| piece.iter().filter_map(|&(x, y)| Some((x, y?))).collect()).collect();
        Self { name: name.to_owned(), colour: line(number), pieces, band: Vec::new(), dotted: false }
    }

    /// All points of the line.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> {
        self.pieces.iter().flatten().copied()
    }

    fn draw(&self, chart: &mut Canvas<'_, '_>) -> anyhow::Result<()> {
        let Self { colour, pieces, band, dotted, .. } = self;
        if !band.is_empty() {
            let above = band.iter().map(|&(x, _, most)| (x, most));
            let below = band.iter().rev().map(|&(x, least, _)| (x, least));
            chart.draw_series([Polygon::new(above.chain(below).collect::<Vec<_>>(), colour.mix(0.2))])?;
        }
        for piece in pieces {
            chart.draw_series(LineSeries::new(piece.iter().copied(), colour.stroke_width(2)))?;
            let dots = piece.iter().filter(|_| *dotted || piece.len() == 1);
            chart.draw_series(dots.map(|&point| Circle::new(point, 3 * UNIT, colour.filled())))?;
        }
        Ok(())
    }
}

impl Chart {
    /// The chart as a figure; `None` if it has no data.
    ///
    /// # Errors
    /// If plotters cannot draw.
    pub fn figure(self) -> anyhow::Result<Option<ChartFigure>> {
        let points = self.curves.iter().flat_map(Curve::points).map(|(_, y)| y);
        let bands =
            self.curves.iter().flat_map(|curve| &curve.band).flat_map(|&(_, least, most)| [least, most]);
        let (least, most) = points
            .chain(bands)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), y| (y.min(least), y.max(most)));
        if least > most {
            return Ok(None);
        }
        let margin = 0.06 * (most - least);
        let percent = |share: &f64| format!("{} %", number(&(100.0 * share)));
        let axes = Axes {
            size: (480, 224),
            x_ticks: if self.whole { (self.x.end - self.x.start + 1.0).min(7.0) as usize } else { 7 },
            x: self.x,
            y: self.y.unwrap_or(least - margin..most + margin),
            y_label: Some(if self.percent { &percent } else { &number }),
        };
        let picture = axes.draw(&self.told, |chart| {
            draw_marks(chart, &self.marks)?;
            self.curves.iter().try_for_each(|curve| curve.draw(chart))
        })?;
        let key = |curve: &Curve| ("line", hex(curve.colour), curve.name.clone());
        let mut legend: Vec<LegendEntry> = self.curves.iter().map(key).collect();
        let banded = self.curves.iter().filter(|curve| !curve.band.is_empty());
        legend.extend(banded.map(|curve| ("band", hex(curve.colour), "least to largest".to_owned())));
        legend.extend(key_of_marks(&self.marks));
        Ok(Some(ChartFigure { legend, pictures: vec![picture], ..self.figure }))
    }
}

/// Draws vertical lines where the run was resumed.
pub fn draw_marks(chart: &mut Canvas<'_, '_>, marks: &[f64]) -> anyhow::Result<()> {
    let y = chart.y_range();
    chart.draw_series(marks.iter().map(|&x| PathElement::new([(x, y.start), (x, y.end)], MARK)))?;
    Ok(())
}

/// The legend entry of these lines.
pub fn key_of_marks(marks: &[f64]) -> Option<LegendEntry> {
    (!marks.is_empty()).then(|| ("line", hex(MARK), "resumed".to_owned()))
}

/// A number on an axis, with no more digits than it has.
pub fn number(value: &f64) -> String {
    let (scaled, unit) = match value.abs() {
        1e15.. => return format!("{value:e}"),
        1e6.. => (value / 1e6, " M"),
        1e4.. => (value / 1e3, " k"),
        _ => (*value, ""),
    };
    let text = format!("{scaled:.9}");
    let text = text.trim_end_matches('0').trim_end_matches('.').replace('-', "−");
    if text == "−0" { "0".to_owned() } else { text + unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x: Range<f64>, points: &[(f64, Option<f64>)]) -> Option<ChartFigure> {
        let curves = vec![Curve::of("<a>", 9, points.iter().copied())];
        let told = vec![(0.0, 1.0, "<b>".to_owned())];
        Chart { x, curves, marks: vec![2.0], told, ..Chart::default() }.figure().unwrap()
    }

    #[test]
    fn a_line_has_a_gap_where_nothing_is_known() {
        let points =
            [(0.0, Some(1.0)), (1.0, Some(3.0)), (2.0, None), (3.0, Some(f64::NAN)), (4.0, Some(2.0))];
        let curve = Curve::of("a", 0, points);
        assert_eq!(curve.pieces, [vec![(0.0, 1.0), (1.0, 3.0)], vec![(4.0, 2.0)]]);
        let figure = chart(0.0..4.0, &points).unwrap();
        let picture = &figure.pictures[0];
        // A line with a single point is a dot. The resume mark has its own colour.
        let colour = hex(line(1));
        assert_eq!(picture.svg.matches("<circle cx=\"1855\"").count(), 1, "{}", picture.svg);
        assert!(picture.svg.contains(&format!("stroke=\"{colour}\"")) && picture.svg.contains(&hex(MARK)));
        let (area, text) = &picture.hovers[0];
        assert_eq!((area[0], area[2], text.as_str()), (224, 407, "<b>"));
        let names: Vec<&str> = figure.legend.iter().map(|key| key.2.as_str()).collect();
        assert_eq!(names, ["<a>", "resumed"]);
    }

    #[test]
    fn every_colour_of_a_picture_is_in_the_palette() {
        let figure = chart(0.0..4.0, &[(0.0, Some(1.0)), (1.0, Some(3.0)), (4.0, None)]).unwrap();
        for part in figure.pictures[0].svg.split('<').filter(|part| !part.starts_with("text")) {
            for colour in part.split("=\"#").skip(1).map(|rest| format!("#{}", &rest[..6])) {
                assert!(PALETTE.iter().any(|(_, known)| hex(*known) == colour), "{colour} of <{part}");
            }
        }
    }

    #[test]
    fn one_number_alone_and_hostile_ones_have_an_axis_too() {
        assert!(chart(0.0..0.0, &[]).is_none());
        for number in [3.0, 0.0, -1e-300, 1e299, -1e299, 1e16, 1e-12] {
            for other in [number, 1.0 + number, 0.0, -number, 2.0 * number] {
                let figure = chart(0.0..4.0, &[(0.0, Some(number)), (1.0, Some(other))]).unwrap();
                let svg = &figure.pictures[0].svg;
                assert!(svg.len() < 9000 && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
        assert!(chart(0.0..f64::MAX, &[(1.0, Some(f64::INFINITY)), (2.0, Some(2.0))]).is_some());
    }

    #[test]
    fn numbers_have_the_digits_that_tell_them_apart() {
        let told = [0.0, 0.30000000000000004, 1.25, -0.5, 20_000.0, 390_200.0, 3e7, 1e300, -0.0];
        let texts = ["0", "0.3", "1.25", "−0.5", "20 k", "390.2 k", "30 M", "1e300", "0"];
        assert_eq!(told.map(|value| number(&value)), texts);
    }
}
