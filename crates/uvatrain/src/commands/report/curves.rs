//! Speed, loss, accuracy and hit rates over a run's time, of one run or of several in one chart.

use super::chart::{Chart, Curve, Figure, Told};
use super::page::Scale;
use super::run::{Epochs, Run};
use super::stretches::Seen;
use super::timeline::Stretch;
use crate::ui::format;

/// The charts of these runs, whose names `id` begins, in their order on the page.
///
/// # Errors
/// When one cannot be drawn.
pub fn figures(runs: &[(String, &Run)], id: &str, scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let charts = [speed(runs, scale), loss(runs, scale), accuracy(runs, scale), hits(runs, scale)];
    let figure = |mut chart: Chart| {
        chart.id.insert_str(0, id);
        chart.figure().transpose()
    };
    charts.into_iter().flatten().filter_map(figure).collect()
}

/// The unit of time for so many microseconds: its name, and how many it has.
pub fn unit(microseconds: u64) -> (&'static str, f64) {
    match microseconds {
        0..500_000 => ("milliseconds", 1e3),
        500_000..300_000_000 => ("seconds", 1e6),
        300_000_000..10_800_000_000 => ("minutes", 60e6),
        _ => ("hours", 3600e6),
    }
}

/// Batches a second, and the places where the run was resumed.
fn speed(runs: &[(String, &Run)], scale: Scale) -> Option<Chart> {
    let length = runs.iter().map(|(_, run)| run.timeline.length()).max()?;
    let (unit, microseconds) = unit(length);
    let curve = |(number, (name, run)): (usize, &(String, &Run))| {
        let stretches = enough(run, scale.points).into_iter();
        Curve::of(name, number, stretches.map(|s| ((s.from + s.to) / 2.0 / microseconds, s.speed())))
    };
    let curves: Vec<Curve> = runs.iter().enumerate().map(curve).collect();
    let highest = curves.iter().flat_map(Curve::points).map(|(_, y)| y).fold(0.0, f64::max);
    let told = |stretch: Stretch| {
        let speed = stretch.speed().map_or("no training".to_owned(), |speed| format!("{speed:.1} batches/s"));
        let text = format!("{}: {speed}", stretch.time());
        (stretch.from / microseconds, stretch.to / microseconds, text)
    };
    let (told, marks) = match runs {
        [(_, run)] => (
            enough(run, scale.hovers).into_iter().map(told).collect(),
            run.timeline.resumed().iter().map(|mark| *mark as f64 / microseconds).collect(),
        ),
        _ => Default::default(),
    };
    let range = |curve: &Curve| {
        let ends = curve.points().fold((f64::INFINITY, 0.0), |(a, b), (_, y)| (y.min(a), y.max(b)));
        format!("{}: from {:.1} to {:.1} batches a second.", curve.name, ends.0, ends.1)
    };
    Some(Chart {
        id: "-speed".to_owned(),
        title: "Batches a second, while training".to_owned(),
        description: curves.iter().map(range).collect::<Vec<_>>().join(" "),
        x: 0.0..length as f64 / microseconds,
        whole: false,
        axis: format!("{unit} since the first batch began"),
        y: Some(0.0..1.05 * highest),
        percent: false,
        curves,
        marks,
        told,
    })
}

/// Losses of batches by epochs of training, or by batches where it is not told how many an epoch has.
fn loss(runs: &[(String, &Run)], scale: Scale) -> Option<Chart> {
    let by_epoch = runs.iter().all(|(_, run)| run.batches_an_epoch().is_some());
    let unit = |run: &Run| if by_epoch { run.batches_an_epoch().unwrap_or(1) as f64 } else { 1.0 };
    let mut curves = Vec::new();
    let mut told = Vec::new();
    for (number, (name, run)) in runs.iter().enumerate() {
        let (width, losses) = run.losses.at_most(scale.points);
        let place = |index: usize| (index as f64 + 0.5) * width as f64 / unit(run);
        let points = losses.iter().enumerate().map(|(index, seen)| (place(index), seen.mean()));
        let mut curve = Curve::of(name, number, points);
        if runs.len() == 1 {
            told = told_of_losses(run, scale.hovers, unit(run));
            let finite = |seen: &Seen| seen.count > 0 && (seen.most - seen.least).is_finite();
            let known = losses.iter().enumerate().filter(|(_, seen)| width > 1 && finite(seen));
            curve.band = known.map(|(index, seen)| (place(index), seen.least, seen.most)).collect();
        }
        curves.push(curve);
    }
    let ends = curves.iter().filter_map(|curve| {
        let (first, last) = (curve.points().next()?.1, curve.points().next_back()?.1);
        Some(format!("{}: from {first:.4} to {last:.4}.", curve.name))
    });
    let banded = curves.iter().any(|curve| !curve.band.is_empty());
    let title = if banded { "Loss of batches: mean, least and largest" } else { "Loss of batches" };
    Some(Chart {
        id: "-loss".to_owned(),
        title: title.to_owned(),
        description: ends.collect::<Vec<_>>().join(" "),
        x: 0.0..runs.iter().map(|(_, run)| run.trained as f64 / unit(run)).fold(0.0, f64::max),
        whole: false,
        axis: if by_epoch { "epochs of training" } else { "batches" }.to_owned(),
        y: None,
        percent: false,
        curves,
        marks: Vec::new(),
        told,
    })
}

fn told_of_losses(run: &Run, wanted: usize, unit: f64) -> Vec<Told> {
    let (width, losses) = run.losses.at_most(wanted);
    let told = |(index, seen): (usize, &Seen)| {
        let from = index as u64 * width;
        let (first, last) = (format::count(from + 1), format::count(from + width));
        let (mean, least, most) = (seen.mean()?, seen.least, seen.most);
        let text = match seen.count {
            1 => format!("batch {first}: loss {mean:.4}"),
            _ => {
                format!("batches {first} to {last}: mean loss {mean:.4}, from {least:.4} to {most:.4}")
            }
        };
        Some((from as f64 / unit, (from + width) as f64 / unit, text))
    };
    losses.iter().enumerate().filter_map(told).collect()
}

/// Accuracy, or what else the run is judged by, at the end of each epoch.
fn accuracy(runs: &[(String, &Run)], scale: Scale) -> Option<Chart> {
    let mut curves = Vec::new();
    let mut told = Vec::new();
    let mut by_area = true;
    for (number, (name, run)) in runs.iter().enumerate() {
        let (width, epochs) = run.epochs.at_most(scale.points);
        by_area &= epochs.iter().any(|epochs| epochs.valid_roc_auc.count > 0);
        // Epochs are counted from 1, as everywhere where people see them.
        let place = |index: usize| 1.0 + index as f64 * width as f64 + (width - 1) as f64 / 2.0;
        let curve = |name: &str, number: usize, of: &dyn Fn(&Epochs) -> Seen| {
            let points = epochs.iter().enumerate().map(|(index, epochs)| (place(index), of(epochs).mean()));
            Curve { dotted: epochs.len() <= 30, ..Curve::of(name, number, points) }
        };
        if runs.len() > 1 {
            curves.push(curve(name, number, &|epochs| {
                let judged = [epochs.valid_roc_auc, epochs.valid_accuracy, epochs.train_accuracy];
                judged.into_iter().find(|seen| seen.count > 0).unwrap_or_default()
            }));
            continue;
        }
        curves.push(curve("training", 1, &|epochs| epochs.train_accuracy));
        curves.push(curve("validation", 0, &|epochs| epochs.valid_accuracy));
        curves.push(curve("validation ROC-AUC", 2, &|epochs| epochs.valid_roc_auc));
        curves.retain(|curve| !curve.pieces.is_empty());
        told.extend(epochs.iter().enumerate().map(|(index, epochs)| {
            let seen = [
                ("training", epochs.train_accuracy),
                ("validation", epochs.valid_accuracy),
                ("ROC-AUC", epochs.valid_roc_auc),
            ];
            let seen = seen.iter().filter_map(|(name, seen)| Some((name, seen.mean()?)));
            let seen: Vec<_> = seen.map(|(name, mean)| format!("{name} {}", format::percent(mean))).collect();
            let (place, half) = (place(index), width as f64 / 2.0);
            (place - half, place + half, format!("epoch {place}: {}", seen.join(", ")))
        }));
    }
    let title = match (runs.len() > 1, by_area) {
        (false, _) => "Accuracy by epoch",
        (true, false) => "Validation accuracy by epoch",
        (true, true) => "Validation ROC-AUC by epoch",
    };
    let end = curves.iter().flat_map(Curve::points).map(|(x, _)| x).fold(2.0, f64::max);
    Some(Chart {
        id: "-accuracy".to_owned(),
        title: title.to_owned(),
        description: last_values(&curves, "in the last epoch"),
        x: 1.0..end,
        whole: true,
        axis: "epoch".to_owned(),
        y: None,
        percent: true,
        curves,
        marks: Vec::new(),
        told,
    })
}

/// How much of what was asked of the caches they had, over the run's time; of one run alone.
fn hits(runs: &[(String, &Run)], scale: Scale) -> Option<Chart> {
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
    // A cache that nothing was put into hits nothing, and that is no finding.
    let cached = |name: &str| run.start.in_force["caches"][name]["count"].as_u64() != Some(0);
    let curves = match (cached("lists"), cached("rows")) {
        (true, false) => vec![curve("neighbour lists", 0, 0)],
        (false, true) => vec![curve("feature rows", 0, 1)],
        _ => vec![curve("neighbour lists", 0, 0), curve("feature rows", 1, 1)],
    };
    let mut title = match &curves[..] {
        [curve] => format!("Hit rate of the cache of {}", curve.name),
        _ => "Hit rates of the caches".to_owned(),
    };
    if let epochs @ 1.. = run.counted_epochs() {
        title += &format!(" ({} to choose them)", counted_beforehand(epochs));
    }
    Some(Chart {
        id: "-hits".to_owned(),
        title,
        description: last_values(&curves, "at the end"),
        x: 0.0..length as f64 / microseconds,
        whole: false,
        axis: format!("{unit} since the first batch began"),
        y: Some(0.0..1.0),
        percent: true,
        curves,
        marks: Vec::new(),
        told: Vec::new(),
    })
}

/// Which epochs the caches were chosen by: in these they are hit more than in others.
pub fn counted_beforehand(epochs: u32) -> String {
    match epochs {
        1 => "epoch 1, counted beforehand".to_owned(),
        _ => format!("epochs 1 to {epochs}, counted beforehand"),
    }
}

fn last_values(curves: &[Curve], when: &str) -> String {
    let last = |curve: &Curve| {
        let (_, share) = curve.points().next_back()?;
        Some(format!("{}: {} {when}.", curve.name, format::percent(share)))
    };
    curves.iter().filter_map(last).collect::<Vec<_>>().join(" ")
}

/// At most so many stretches, of ten batches each: with fewer a line shows how batches fall into them.
fn enough(run: &Run, most: usize) -> Vec<Stretch> {
    let batches = usize::try_from(run.totals.batches).unwrap_or(usize::MAX);
    run.timeline.stretches(most.min((batches / 10).max(5)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_in_the_unit_that_fits() {
        let units = [20_000, 90_000_000, 7_200_000_000, u64::MAX].map(|microseconds| unit(microseconds).0);
        assert_eq!(units, ["milliseconds", "seconds", "minutes", "hours"]);
    }
}
