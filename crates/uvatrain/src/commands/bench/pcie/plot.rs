//! The figures as a plot: efficiency by row size, and rates by multiprocessors.

use anyhow::anyhow;
use plotters::prelude::*;
use uva_bench::pcie::{Cell, GatherPartition, PcieReport};
use uva_rows::cuda::Kernel;

const SIZE: (u32, u32) = (900, 900);
/// One colour per kernel, in the order of [`Kernel::ALL`]. They are distinguishable with red-green colour blindness.
const COLOURS: [RGBColor; 5] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(0, 114, 178),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
];

/// The plot as the text of an SVG file.
///
/// # Errors
/// If plotters cannot draw it.
pub fn svg(report: &PcieReport) -> anyhow::Result<String> {
    let mut text = String::new();
    draw(report, SVGBackend::with_string(&mut text, SIZE)).map_err(|error| anyhow!("--svg: {error}"))?;
    Ok(text)
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(report: &PcieReport, backend: SVGBackend<'_>) -> Drawn {
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let title = if report.simulator { "SIMULATED: no figure means anything" } else { &report.device.name };
    let area = area.titled(title, ("sans-serif", 20))?;
    let (above, below) = area.split_vertically(SIZE.1 / 2);
    let shares = |kernel| -> Vec<(f64, f64)> {
        points(report, kernel, |cell| {
            (cell.multiprocessors == report.base.multiprocessors).then_some(cell.row_bytes as f64)
        })
        .into_iter()
        .map(|(x, rate)| (x, 100.0 * rate / report.copy_engine.peak_gb_per_second.max(1e-9)))
        .collect()
    };
    let all = f64::from(report.device.multiprocessors);
    let rates = |kernel| {
        points(report, kernel, |cell| {
            (cell.row_bytes == report.base.row_bytes).then(|| cell.multiprocessors.map_or(all, f64::from))
        })
    };
    chart(&above, "row bytes", "% of the copy engine's peak", &Kernel::ALL.map(shares))?;
    chart(&below, "multiprocessors (bounded grid)", "GB/s", &Kernel::ALL.map(rates))?;
    area.present()?;
    Ok(())
}

/// The rates of a kernel at the base point, along the axis that `x` reads from a cell.
fn points(report: &PcieReport, kernel: Kernel, x: impl Fn(&Cell) -> Option<f64>) -> Vec<(f64, f64)> {
    let base = &report.base;
    let of_axis = |cell: &Cell| {
        (cell.kernel, cell.pages, cell.table_bytes, cell.ids)
            == (kernel, base.pages, base.table_bytes, base.ids)
            && cell.partition == GatherPartition::Grid
    };
    let cells = report.cells.iter().filter(|figure| of_axis(&figure.cell));
    let mut points: Vec<(f64, f64)> =
        cells.filter_map(|figure| Some((x(&figure.cell)?, figure.gb_per_second))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    x: &str,
    y: &str,
    lines: &[Vec<(f64, f64)>],
) -> Drawn {
    let every = || lines.iter().flatten();
    let least = every().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = every().map(|point| point.0).fold(0.0, f64::max);
    let highest = every().map(|point| point.1).fold(0.0, f64::max);
    if highest <= 0.0 {
        return Ok(());
    }
    let mut chart = ChartBuilder::on(area)
        .margin(15)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((least..most.max(least * 2.0)).log_scale().base(2.0), 0.0..highest * 1.1)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc(x)
        .y_desc(y)
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 16))
        .x_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    for ((kernel, colour), points) in Kernel::ALL.iter().zip(COLOURS.iter().cycle()).zip(lines) {
        if points.is_empty() {
            continue;
        }
        let colour = *colour;
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(kernel.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
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
