//! A plan's curves as a plot.

use anyhow::anyhow;
use plotters::prelude::*;
use uva_plan::{CachePlan, CurvePoint, PlanShare};

const SIZE: (u32, u32) = (900, 800);
/// Distinguishable with red-green colour blindness.
const LISTS: RGBColor = RGBColor(213, 94, 0);
const ROWS: RGBColor = RGBColor(0, 114, 178);
const MIB: f64 = (1 << 20) as f64;

/// The plot as the text of an SVG file.
///
/// # Errors
/// If plotters cannot draw it.
pub fn svg(plan: &CachePlan) -> anyhow::Result<String> {
    let mut text = String::new();
    draw(plan, SVGBackend::with_string(&mut text, SIZE)).map_err(|error| anyhow!("--svg: {error}"))?;
    Ok(text)
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A curve, and the point on it that was chosen.
struct Curve {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
    chosen: Option<(f64, f64)>,
}

fn draw(plan: &CachePlan, backend: SVGBackend<'_>) -> Drawn {
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let title = format!(
        "{}: caches of {:.1} MiB by {}",
        plan.dataset.name,
        plan.budget_bytes as f64 / MIB,
        plan.policy
    );
    let area = area.titled(&title, ("sans-serif", 20))?;
    let (above, below) = area.split_vertically(SIZE.1 / 2);
    let model = &plan.model;
    let hit_rate = |_: bool, point: f64| Some(100.0 * point);
    // One cache grows while the other keeps its planned size.
    let cost = |lists: bool, point: f64| {
        let (lists, rows) = if lists { (point, plan.rows.hit_rate) } else { (plan.lists.hit_rate, point) };
        model.batch_ms(lists, rows).or_else(|| Some(model.predict(lists, rows).link_bytes / MIB))
    };
    let timed = model.batch_ms(0.0, 0.0).is_some();
    let unit = if timed { "ms a batch expected" } else { "MiB a batch over the link expected" };
    chart(&above, "% of reads that hit", &curves(plan, hit_rate))?;
    chart(&below, unit, &curves(plan, cost))?;
    area.present()?;
    Ok(())
}

/// The curves of both caches, with `value` of a hit rate on the vertical axis. The first argument of `value` is true
/// for lists.
fn curves(plan: &CachePlan, value: impl Fn(bool, f64) -> Option<f64>) -> [Curve; 2] {
    let end = plan.budget_bytes.saturating_mul(2);
    let curve = |name, colour, lists: bool, points: &[CurvePoint], share: &PlanShare| Curve {
        name,
        colour,
        points: points
            .iter()
            .filter(|point| point.bytes <= end)
            .filter_map(|point| Some((point.bytes as f64 / MIB, value(lists, point.hit_rate)?)))
            .collect(),
        chosen: (share.count > 0)
            .then(|| Some((share.bytes as f64 / MIB, value(lists, share.hit_rate)?)))
            .flatten(),
    };
    [
        curve("lists", LISTS, true, &plan.curves.lists, &plan.lists),
        curve("rows", ROWS, false, &plan.curves.rows, &plan.rows),
    ]
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    unit: &str,
    curves: &[Curve; 2],
) -> Drawn {
    let every = || curves.iter().flat_map(|curve| &curve.points);
    let widest = every().map(|point| point.0).fold(0.0, f64::max);
    let highest = every().map(|point| point.1).fold(0.0, f64::max);
    if widest <= 0.0 || highest <= 0.0 {
        return Ok(());
    }
    let mut chart = ChartBuilder::on(area)
        .margin(15)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..widest, 0.0..highest * 1.1)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc("MiB of the one cache, the other as planned")
        .y_desc(unit)
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .draw()?;
    for curve in curves {
        let colour = curve.colour;
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        chart.draw_series(curve.chosen.iter().map(|&point| Circle::new(point, 6, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .label_font(("sans-serif", 15))
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .position(SeriesLabelPosition::LowerRight)
        .draw()?;
    Ok(())
}
