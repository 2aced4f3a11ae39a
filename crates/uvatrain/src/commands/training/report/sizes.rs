//! Sizes of batches, as histograms and as a table.

use plotters::prelude::*;

use super::chart::{Axes, ChartFigure, MEAN, hex, line};
use super::histogram::{Bar, Histogram};
use super::run::Run;
use crate::ui::format;

/// Approximate number of bars in a histogram.
const BARS: u64 = 24;
/// Maximum number of histograms.
const MOST: usize = 7;

/// Input nodes and the edges of each layer, with the layers counted from the seeds.
fn histograms(run: &Run) -> impl Iterator<Item = (String, &Histogram)> {
    let layers = run.edges.iter().enumerate().map(|(layer, histogram)| match layer {
        0 => ("Edges a batch, at the seeds".to_owned(), histogram),
        _ => (format!("Edges a batch, hop {}", layer + 1), histogram),
    });
    let all = [("Input nodes a batch".to_owned(), &run.input_nodes)].into_iter().chain(layers);
    all.filter(|(_, histogram)| histogram.count() > 0)
}

/// Rows of the table: a name, mean, least, 5 %, median, 95 %, largest.
pub fn table(run: &Run) -> Vec<(String, [Option<u64>; 6])> {
    let row = |(name, histogram): (String, &Histogram)| {
        let (least, most) = histogram.range().unzip();
        let mean = histogram.mean().map(|mean| mean.round() as u64);
        let [low, median, high] = [0.05, 0.5, 0.95].map(|share| histogram.quantile(share));
        (name, [mean, least, low, median, high, most])
    };
    histograms(run).map(row).collect()
}

/// A picture for each histogram.
///
/// # Errors
/// If plotters cannot draw.
pub fn figures(run: &Run, id: &str) -> anyhow::Result<Vec<ChartFigure>> {
    let figure = |(index, (name, histogram))| figure(name, histogram, format!("{id}-size{index}"));
    histograms(run).take(MOST).enumerate().map(figure).collect()
}

fn figure(title: String, histogram: &Histogram, id: String) -> anyhow::Result<ChartFigure> {
    let bars = histogram.bars(BARS);
    let highest = bars.iter().map(|bar| bar.count).max().unwrap_or(1);
    let (least, most) = histogram.range().unwrap_or_default();
    let mean = histogram.mean().unwrap_or_default();
    let ends = |bar: &Bar| (bar.from as f64, bar.to as f64);
    let axes = Axes {
        size: (300, 166),
        x: bars.first().map_or(0.0, |bar| ends(bar).0)..bars.last().map_or(1.0, |bar| ends(bar).1),
        y: 0.0..highest as f64,
        x_ticks: 4,
        y_label: None,
    };
    let full = || bars.iter().filter(|bar| bar.count > 0);
    let told = full().map(|bar| {
        let numbers = match bar.to - bar.from {
            1 => format::count(bar.from),
            _ => format!("{} to {}", format::count(bar.from), format::count(bar.to - 1)),
        };
        let share = format::percent(bar.count as f64 / histogram.count() as f64);
        (ends(bar).0, ends(bar).1, format!("{numbers}: {} batches, {share}", format::count(bar.count)))
    });
    let picture = axes.draw(&told.collect::<Vec<_>>(), |chart| {
        chart.draw_series(full().map(|bar| {
            let (from, to) = ends(bar);
            // A gap between two bars, of a tenth of their width.
            let gap = if bars.len() > 1 { 0.05 * (to - from) } else { 0.0 };
            Rectangle::new([(from + gap, 0.0), (to - gap, bar.count as f64)], line(0).filled())
        }))?;
        chart.draw_series([PathElement::new([(mean, 0.0), (mean, highest as f64)], MEAN)])?;
        Ok(())
    })?;
    let counts = [histogram.count(), least, most, mean.round() as u64].map(format::count);
    let [batches, least, most, mean] = counts;
    Ok(ChartFigure {
        id,
        title,
        description: format!("Histogram over {batches} batches, from {least} to {most}, mean {mean}."),
        legend: vec![("area", hex(line(0)), "batches".to_owned()), ("line", hex(MEAN), "mean".to_owned())],
        pictures: vec![picture],
        axis: format!("highest bar: {} batches", format::count(highest)),
    })
}
