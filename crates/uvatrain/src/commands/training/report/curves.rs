//! Speed, loss, accuracy and hit rates over a run's time, of one run or of several in one chart.

use super::chart::{Chart, ChartFigure, Curve, Tooltip};
use super::run::{EpochStatistics, Run, TRAIN_ACCURACY, VALID_ACCURACY, VALID_MSE, VALID_ROC_AUC};
use super::stretches::SeriesSummary;
use super::timeline::Stretch;
use crate::ui::format;

/// The resolution of pictures. With many runs each run gets less, so that the page stays small enough for browsers.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Stretches of the pipeline's picture.
    pub windows: usize,
    /// Points of a line.
    pub points: usize,
    /// Stretches that have tooltips.
    pub hovers: usize,
}

impl Scale {
    /// For the given number of runs on a page.
    pub fn of(runs: usize) -> Self {
        let share = |all: usize, least: usize, most: usize| (all / runs.max(1)).clamp(least, most);
        Self { windows: share(600, 24, 120), points: share(1600, 40, 240), hovers: share(300, 12, 60) }
    }
}

type Named<'r> = [(String, &'r Run)];

/// The charts of these runs, in their order on the page. Ids begin with `id`.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn figures(runs: &Named<'_>, id: &str, scale: Scale) -> anyhow::Result<Vec<ChartFigure>> {
    let charts = [
        ("speed", speed(runs, scale)),
        ("loss", Some(loss(runs, scale))),
        ("validation", Some(validation(runs, scale))),
        ("hits", hits(runs, scale)),
    ];
    let figure = |(name, chart): (&str, Option<Chart>)| {
        let mut chart = chart?;
        chart.figure.id = format!("{id}-{name}");
        chart.figure().transpose()
    };
    charts.into_iter().filter_map(figure).collect()
}

/// The unit of time for this many microseconds: its name, and how many microseconds it has.
pub fn unit(microseconds: u64) -> (&'static str, f64) {
    match microseconds {
        0..500_000 => ("milliseconds", 1e3),
        500_000..300_000_000 => ("seconds", 1e6),
        300_000_000..10_800_000_000 => ("minutes", 60e6),
        _ => ("hours", 3600e6),
    }
}

fn figure(
    title: &str,
    axis: String,
    curves: &[Curve],
    says: impl Fn(&Curve) -> Option<String>,
) -> ChartFigure {
    let said = curves.iter().filter_map(|curve| Some(format!("{}: {}.", curve.name, says(curve)?)));
    let description = said.collect::<Vec<_>>().join(" ");
    ChartFigure { title: title.to_owned(), axis, description, ..ChartFigure::default() }
}

/// Batches a second, and the places where the run was resumed.
fn speed(runs: &Named<'_>, scale: Scale) -> Option<Chart> {
    let length = runs.iter().map(|(_, run)| run.timeline.length()).max()?;
    let (unit, microseconds) = unit(length);
    let curve = |(number, (name, run)): (usize, &(String, &Run))| {
        let stretches = enough(run, scale.points).into_iter();
        Curve::of(name, number, stretches.map(|s| ((s.from + s.to) / 2.0 / microseconds, s.speed())))
    };
    let curves: Vec<Curve> = runs.iter().enumerate().map(curve).collect();
    let range =
        |curve: &Curve| curve.points().fold((f64::INFINITY, 0.0), |(a, b), (_, y)| (y.min(a), y.max(b)));
    let told = |stretch: Stretch| {
        let speed = stretch.speed().map_or("no training".to_owned(), |speed| format!("{speed:.1} batches/s"));
        let text = format!("{}: {speed}", stretch.time());
        (stretch.from / microseconds, stretch.to / microseconds, text)
    };
    let mut chart = Chart {
        figure: figure(
            "Batches a second, while training",
            format!("{unit} since the first batch began"),
            &curves,
            |curve| Some(format!("from {:.1} to {:.1} batches a second", range(curve).0, range(curve).1)),
        ),
        x: 0.0..length as f64 / microseconds,
        y: Some(0.0..1.05 * curves.iter().map(|curve| range(curve).1).fold(0.0, f64::max)),
        curves,
        ..Chart::default()
    };
    if let [(_, run)] = runs {
        chart.told = enough(run, scale.hovers).into_iter().map(told).collect();
        chart.marks = run.timeline.resumed().iter().map(|mark| *mark as f64 / microseconds).collect();
    }
    Some(chart)
}

/// Losses of batches by epochs of training, or by batches if the number of batches per epoch is unknown.
fn loss(runs: &Named<'_>, scale: Scale) -> Chart {
    let by_epoch = runs.iter().all(|(_, run)| run.batches_an_epoch().is_some());
    let unit = |run: &Run| if by_epoch { run.batches_an_epoch().unwrap_or(1) as f64 } else { 1.0 };
    let mut told = Vec::new();
    let curve = |(number, (name, run)): (usize, &(String, &Run))| {
        let (width, losses) = run.losses.at_most(scale.points);
        let place = |index: usize| (index as f64 + 0.5) * width as f64 / unit(run);
        let points = losses.iter().enumerate().map(|(index, seen)| (place(index), seen.mean()));
        let mut curve = Curve::of(name, number, points);
        if runs.len() == 1 {
            told = told_of_losses(run, scale.hovers, unit(run));
            let finite = |seen: &SeriesSummary| seen.count > 0 && (seen.most - seen.least).is_finite();
            let known = losses.iter().enumerate().filter(|(_, seen)| width > 1 && finite(seen));
            curve.band = known.map(|(index, seen)| (place(index), seen.least, seen.most)).collect();
        }
        curve
    };
    let curves: Vec<Curve> = runs.iter().enumerate().map(curve).collect();
    let banded = curves.iter().any(|curve| !curve.band.is_empty());
    let title = if banded { "Loss of batches: mean, least and largest" } else { "Loss of batches" };
    let axis = if by_epoch { "epochs of training" } else { "batches" };
    let figure = figure(title, axis.to_owned(), &curves, |curve| {
        let (first, last) = (curve.points().next()?.1, curve.points().next_back()?.1);
        Some(format!("from {first:.4} to {last:.4}"))
    });
    let end = runs.iter().map(|(_, run)| run.trained as f64 / unit(run)).fold(0.0, f64::max);
    Chart { figure, x: 0.0..end, curves, told, ..Chart::default() }
}

fn told_of_losses(run: &Run, wanted: usize, unit: f64) -> Vec<Tooltip> {
    let (width, losses) = run.losses.at_most(wanted);
    let told = |(index, seen): (usize, &SeriesSummary)| {
        let from = index as u64 * width;
        let (first, last) = (format::count(from + 1), format::count(from + width));
        let (mean, least, most) = (seen.mean()?, seen.least, seen.most);
        let text = match seen.count {
            1 => format!("batch {first}: loss {mean:.4}"),
            _ => format!("batches {first} to {last}: mean loss {mean:.4}, from {least:.4} to {most:.4}"),
        };
        Some((from as f64 / unit, (from + width) as f64 / unit, text))
    };
    losses.iter().enumerate().filter_map(told).collect()
}

/// Validation results at the end of each epoch: accuracy and ROC-AUC, or the mean squared error if all runs are
/// regressions.
fn validation(runs: &Named<'_>, scale: Scale) -> Chart {
    let any =
        |run: &Run, of: usize| run.epochs.at_most(usize::MAX).1.iter().any(|epochs| epochs[of].count > 0);
    let errors = runs.iter().all(|(_, run)| any(run, VALID_MSE));
    let by_area = runs.iter().all(|(_, run)| any(run, VALID_ROC_AUC));
    // All lines of a single run; of several runs the first line that each has.
    let lines: &[(&str, usize, usize)] = match errors {
        true => &[("validation MSE", 0, VALID_MSE)],
        false => &[
            ("training", 1, TRAIN_ACCURACY),
            ("validation", 0, VALID_ACCURACY),
            ("validation ROC-AUC", 2, VALID_ROC_AUC),
        ],
    };
    let text = |value: f64| if errors { format::error(value) } else { format::percent(value).to_string() };
    let (mut curves, mut told) = (Vec::new(), Vec::new());
    for (number, (name, run)) in runs.iter().enumerate() {
        let (width, epochs) = run.epochs.at_most(scale.points);
        // Users see epochs counted from 1.
        let place = |index: usize| 1.0 + index as f64 * width as f64 + (width - 1) as f64 / 2.0;
        let curve = |name: &str, number: usize, of: &dyn Fn(&EpochStatistics) -> Option<f64>| {
            let points = epochs.iter().enumerate().map(|(index, epochs)| (place(index), of(epochs)));
            Curve { dotted: epochs.len() <= 30, ..Curve::of(name, number, points) }
        };
        if runs.len() > 1 {
            curves.push(curve(name, number, &|epochs| {
                lines.iter().rev().find_map(|(_, _, of)| epochs[*of].mean())
            }));
            continue;
        }
        curves
            .extend(lines.iter().map(|&(name, number, of)| curve(name, number, &|epochs| epochs[of].mean())));
        curves.retain(|curve| !curve.pieces.is_empty());
        told.extend(epochs.iter().enumerate().map(|(index, epochs)| {
            let seen = lines.iter().filter_map(|(name, _, of)| Some((name, epochs[*of].mean()?)));
            let seen: Vec<_> = seen.map(|(name, mean)| format!("{name} {}", text(mean))).collect();
            let (place, half) = (place(index), width as f64 / 2.0);
            (place - half, place + half, format!("epoch {place}: {}", seen.join(", ")))
        }));
    }
    let title = match (errors, runs.len() > 1, by_area) {
        (true, ..) => "Validation MSE by epoch",
        (_, false, _) => "Accuracy by epoch",
        (_, true, false) => "Validation accuracy by epoch",
        (_, true, true) => "Validation ROC-AUC by epoch",
    };
    let end = curves.iter().flat_map(Curve::points).map(|(x, _)| x).fold(2.0, f64::max);
    let figure = figure(title, "epoch".to_owned(), &curves, |curve| {
        Some(format!("{} in the last epoch", text(curve.points().next_back()?.1)))
    });
    Chart { figure, x: 1.0..end, whole: true, percent: !errors, curves, told, ..Chart::default() }
}

/// Hit rates of the caches over the run's time, for a single run.
fn hits(runs: &Named<'_>, scale: Scale) -> Option<Chart> {
    let [(_, run)] = runs else { return None };
    run.totals.cache?;
    let length = run.timeline.length();
    let (unit, microseconds) = unit(length);
    let stretches = enough(run, scale.points);
    let curve = |name: &str, number: usize, cache: usize| {
        let rate = |stretch: &Stretch| {
            let (all, hits) = (stretch.window.cache[2 * cache], stretch.window.cache[2 * cache + 1]);
            ((stretch.from + stretch.to) / 2.0 / microseconds, (all > 0.0).then(|| hits / all))
        };
        Curve::of(name, number, stretches.iter().map(rate))
    };
    // The hit rate of an empty cache is not informative.
    let cached = |name: &str| run.start.in_force["caches"][name]["count"].as_u64() != Some(0);
    let (curves, mut title) = match (cached("lists"), cached("rows")) {
        (true, false) => {
            (vec![curve("neighbour lists", 0, 0)], "Hit rate of the cache of neighbour lists".to_owned())
        }
        (false, true) => {
            (vec![curve("feature rows", 0, 1)], "Hit rate of the cache of feature rows".to_owned())
        }
        _ => (
            vec![curve("neighbour lists", 0, 0), curve("feature rows", 1, 1)],
            "Hit rates of the caches".to_owned(),
        ),
    };
    if let epochs @ 1.. = run.counted_epochs() {
        title += &format!(" ({} to choose them)", counted_beforehand(epochs));
    }
    let axis = format!("{unit} since the first batch began");
    let figure = figure(&title, axis, &curves, |curve| last(curve, "at the end"));
    let x = 0.0..length as f64 / microseconds;
    Some(Chart { figure, x, y: Some(0.0..1.0), percent: true, curves, ..Chart::default() })
}

/// The epochs that the caches were chosen by, in which their hit rates are higher than in others.
pub fn counted_beforehand(epochs: u32) -> String {
    match epochs {
        1 => "epoch 1, counted beforehand".to_owned(),
        _ => format!("epochs 1 to {epochs}, counted beforehand"),
    }
}

fn last(curve: &Curve, when: &str) -> Option<String> {
    Some(format!("{} {when}", format::percent(curve.points().next_back()?.1)))
}

/// At most `most` stretches, each of ten batches or more: with fewer batches per stretch, the line shows artefacts of
/// the division.
fn enough(run: &Run, most: usize) -> Vec<Stretch> {
    let batches = usize::try_from(run.totals.batches).unwrap_or(usize::MAX);
    run.timeline.stretches(most.min((batches / 10).max(5)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shown_in_the_unit_that_fits() {
        let units = [20_000, 90_000_000, 7_200_000_000, u64::MAX].map(|microseconds| unit(microseconds).0);
        assert_eq!(units, ["milliseconds", "seconds", "minutes", "hours"]);
    }
}
