//! How large batches were, and what was moved for them.

use std::fmt::Write;

use uva_runtime::metrics::{CacheCounts, CacheOutcome};

use super::axis::Axis;
use super::chart::{Figure, figure, hovers, percent, stretched, thousandths, x_labels};
use super::histogram::Histogram;
use super::html::Table;
use super::run::Run;
use crate::ui::format;
use uva_runtime::spec::ByteSize;

/// Bars of a histogram, about.
const BARS: u64 = 24;
const HEIGHT: u32 = 130;

/// Input nodes and the edges of each layer, with the layers counted from the seeds.
fn histograms(run: &Run) -> Vec<(String, &Histogram)> {
    let layers = run.edges.iter().enumerate().map(|(layer, histogram)| {
        let of = match layer {
            0 => "at the seeds".to_owned(),
            _ => format!("hop {}", layer + 1),
        };
        (format!("Edges a batch, {of}"), histogram)
    });
    let mut all = vec![("Input nodes a batch".to_owned(), &run.input_nodes)];
    all.extend(layers);
    all.retain(|(_, histogram)| histogram.count() > 0);
    all
}

/// A picture for each, of no more layers than one looks at.
pub fn figures(run: &Run, id: &str) -> String {
    let all = histograms(run);
    all.iter()
        .take(7)
        .enumerate()
        .map(|(index, (name, of))| picture(name, of, &format!("{id}-size{index}")))
        .collect()
}

fn picture(name: &str, histogram: &Histogram, id: &str) -> String {
    let bars = histogram.bars(BARS);
    let (Some(first), Some(last)) = (bars.first(), bars.last()) else { return String::new() };
    let x = Axis::exactly(first.from as f64, last.to as f64, 3);
    let highest = bars.iter().map(|bar| bar.count).max().unwrap_or(1).max(1) as f64;
    let mut path = String::new();
    let mut told = Vec::new();
    for bar in bars.iter().filter(|bar| bar.count > 0) {
        let (from, to) = (x.place(bar.from as f64), x.place(bar.to as f64));
        // A gap between two bars, of a tenth of their width.
        let gap = if bars.len() > 1 { 0.05 * (to - from) } else { 0.0 };
        let top = thousandths(1.0 - bar.count as f64 / highest);
        let _ = write!(path, "M{} 1000V{top}H{}V1000Z", thousandths(from + gap), thousandths(to - gap));
        let share = format::percent(bar.count as f64 / histogram.count() as f64);
        let numbers = match bar.to - bar.from {
            1 => format::count(bar.from),
            _ => format!("{} to {}", format::count(bar.from), format::count(bar.to - 1)),
        };
        told.push((
            bar.from as f64,
            bar.to as f64,
            format!("{numbers}: {} batches, {share}", format::count(bar.count)),
        ));
    }
    let mut inner = stretched(&format!("<path class=\"bar\" d=\"{path}\"/>"), "0", "100%");
    if let Some(mean) = histogram.mean() {
        let place = percent(x.place(mean));
        let _ = write!(inner, "<line class=\"mean\" x1=\"{place}\" x2=\"{place}\" y1=\"0\" y2=\"100%\"/>");
    }
    inner += &hovers(&x, &told);
    let range = histogram.range().unwrap_or_default();
    figure(&Figure {
        id,
        title: name,
        description: &format!(
            "Histogram over {} batches, from {} to {}, mean {}.",
            format::count(histogram.count()),
            format::count(range.0),
            format::count(range.1),
            format::count(histogram.mean().unwrap_or_default().round() as u64)
        ),
        legend: "",
        height: HEIGHT,
        axes: &format!(
            "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"100%\" y2=\"100%\"/>{}",
            x_labels(&x, HEIGHT)
        ),
        inner: &inner,
        x_name: &format!("highest bar: {} batches", format::count(highest as u64)),
        wide: false,
    })
}

/// The same in numbers.
pub fn table(run: &Run) -> String {
    let mut table =
        Table::new("Sizes of batches", &["", "mean", "least", "5 %", "median", "95 %", "largest"]);
    for (name, histogram) in histograms(run) {
        let Some((least, most)) = histogram.range() else { continue };
        let quantile = |share| histogram.quantile(share).map_or("–".to_owned(), format::count);
        let mean = histogram.mean().unwrap_or_default().round() as u64;
        table.row(&[
            name,
            format::count(mean),
            format::count(least),
            quantile(0.05),
            quantile(0.5),
            quantile(0.95),
            format::count(most),
        ]);
    }
    table.html()
}

/// Which epochs the caches were chosen by: in these they are hit more than in others.
pub fn counted_beforehand(epochs: u32) -> String {
    match epochs {
        1 => "epoch 1, counted beforehand".to_owned(),
        _ => format!("epochs 1 to {epochs}, counted beforehand"),
    }
}

/// What was read for the batches: rows and their bytes, from the cache and from the table, and reads of lists.
pub fn moved(run: &Run) -> String {
    let totals = &run.totals;
    let size = |rows: u64| match run.row_bytes() {
        Some(bytes) => ByteSize::from_bytes(rows.saturating_mul(bytes)).to_string(),
        None => "–".to_owned(),
    };
    let share = |part: u64, whole: u64| match whole {
        0 => "–".to_owned(),
        _ => format::percent(part as f64 / whole as f64).to_string(),
    };
    let batches = totals.batches.max(1);
    let mut table = Table::new("Feature rows read", &["", "rows", "share", "bytes", "bytes a batch"]);
    let mut row = |name: &str, rows: u64| {
        let cells = [format::count(rows), share(rows, totals.input_nodes), size(rows), size(rows / batches)];
        table.row(&[&[name.to_owned()], &cells[..]].concat());
    };
    row("gathered", totals.input_nodes);
    let Some(cache) = totals.cache else { return table.html() };
    let row_hits = cache.all().row_hits;
    row("from the cache", row_hits);
    row("from the table", totals.input_nodes.saturating_sub(row_hits));
    let mut hits = Table::new("Hits of the caches", &["cache", "reads", "hits", "hit rate", "expected"]);
    let expected = run.end.as_ref().and_then(|end| end.cache.as_ref());
    let expected = |of: fn(&CacheOutcome) -> f64| {
        expected.map_or("–".to_owned(), |outcome| format::percent(of(outcome)).to_string())
    };
    let mut add = |counts: CacheCounts, which: &str, expected: [String; 2]| {
        if counts == CacheCounts::default() {
            return;
        }
        let CacheCounts { list_reads, list_hits, rows, row_hits } = counts;
        let [lists_expected, rows_expected] = expected;
        for (name, reads, found, expected) in [
            ("neighbour lists (visits and picks)", list_reads, list_hits, lists_expected),
            ("feature rows", rows, row_hits, rows_expected),
        ] {
            let rate = share(found, reads);
            hits.row(&[format!("{name}{which}"), format::count(reads), format::count(found), rate, expected]);
        }
    };
    let of_others = [
        expected(|outcome| outcome.expected_list_hit_rate),
        expected(|outcome| outcome.expected_row_hit_rate),
    ];
    add(cache.others, "", of_others);
    // What was expected is of batches that the choice was not made by.
    let which = format!(", {}", counted_beforehand(run.counted_epochs()));
    add(cache.counted, &which, ["–", "–"].map(str::to_owned));
    table.html() + &hits.html()
}
