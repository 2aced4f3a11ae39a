//! Speed, loss, accuracy and hit rates as charts, of one run or of several in one picture.

use super::axis::{Axis, TimeUnit, stretch};
use super::chart::{Chart, Curve};
use super::run::{Epochs, Run};
use super::sizes::counted_beforehand;
use super::stretches::Seen;
use crate::ui::format;

/// Runs in one picture, with the names that the legend has for them.
pub struct Overlay<'r> {
    pub runs: &'r [(String, &'r Run)],
    /// Begins the names of its pictures.
    pub id: &'r str,
    /// Most points of a line.
    pub points: usize,
    /// Most stretches that tell something when one points at them; only of one run alone.
    pub hovers: usize,
}

impl Overlay<'_> {
    fn alone(&self) -> Option<&Run> {
        match self.runs {
            [(_, run)] => Some(run),
            _ => None,
        }
    }

    /// Batches a second over the run's time.
    pub fn speed(&self) -> Option<String> {
        let length = self.runs.iter().map(|(_, run)| run.timeline.length()).max()?;
        let unit = TimeUnit::of(length);
        let curve = |(style, (name, run)): (usize, &(String, &Run))| {
            let (width, windows) = run.timeline.windows(stretches(run, self.points));
            let whole = run.timeline.length() as f64;
            let points = windows.iter().enumerate().map(|(index, window)| {
                let from = index as f64 * width as f64;
                let to = (from + width as f64).min(whole);
                ((from + to) / 2.0 / unit.microseconds, window.speed(to - from))
            });
            Curve::of(name, style, points)
        };
        let curves: Vec<Curve> = self.runs.iter().enumerate().map(curve).collect();
        let y = Axis::around(0.0, most(&curves)?, 4);
        let mut hovers = Vec::new();
        let mut marks = Vec::new();
        if let Some(run) = self.alone() {
            let (width, windows) = run.timeline.windows(stretches(run, self.hovers));
            for (index, window) in windows.iter().enumerate() {
                let from = index as f64 * width as f64;
                let to = (from + width as f64).min(length as f64);
                let speed =
                    window.speed(to - from).map_or("no training".to_owned(), |s| format!("{s:.1} batches/s"));
                hovers.push((
                    from / unit.microseconds,
                    to / unit.microseconds,
                    format!("{}: {speed}", stretch(from, to)),
                ));
            }
            marks = run.timeline.resumed().iter().map(|mark| *mark as f64 / unit.microseconds).collect();
        }
        let ends = curves.iter().map(|curve| {
            let speeds = curve.points().map(|point| point.1);
            let (least, most) =
                speeds.fold((f64::INFINITY, 0.0), |(least, most), y| (y.min(least), y.max(most)));
            format!("{}: from {least:.1} to {most:.1} batches a second.", curve.name)
        });
        Some(
            Chart {
                id: &format!("{}-speed", self.id),
                title: "Batches a second, while training",
                description: ends.collect::<Vec<_>>().join(" "),
                x: Axis::exactly(0.0, length as f64 / unit.microseconds, 5),
                x_name: &format!("{} since the first batch began", unit.name),
                y,
                curves,
                marks,
                hovers,
            }
            .html(),
        )
    }

    /// Losses of batches by epochs of training, or by batches where it is not told how many an epoch has.
    pub fn loss(&self) -> Option<String> {
        let by_epoch = self.runs.iter().all(|(_, run)| run.batches_an_epoch().is_some());
        let scale = |run: &Run| if by_epoch { run.batches_an_epoch().unwrap_or(1) as f64 } else { 1.0 };
        let mut curves = Vec::new();
        let mut hovers = Vec::new();
        for (style, (name, run)) in self.runs.iter().enumerate() {
            let (width, losses) = run.losses.at_most(self.points);
            let place = |index: usize| (index as f64 + 0.5) * width as f64 / scale(run);
            let points = losses.iter().enumerate().map(|(index, seen)| (place(index), seen.mean()));
            let mut curve = Curve::of(name, style, points);
            if self.runs.len() == 1 && width > 1 {
                let known = losses.iter().enumerate().filter(|(_, seen)| seen.count > 0);
                curve.band = known.map(|(index, seen)| (place(index), seen.least, seen.most)).collect();
            }
            if self.runs.len() == 1 {
                hovers = hovers_of_losses(run, self.hovers, scale(run));
            }
            curves.push(curve);
        }
        let every = || curves.iter().flat_map(Curve::points);
        every().next()?;
        let end = self.runs.iter().map(|(_, run)| run.trained as f64 / scale(run)).fold(0.0, f64::max);
        let bands = curves.iter().flat_map(|curve| &curve.band).flat_map(|&(_, least, most)| [least, most]);
        let (least, most) = every()
            .map(|point| point.1)
            .chain(bands)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), y| (y.min(least), y.max(most)));
        let banded = curves.iter().any(|curve| !curve.band.is_empty());
        let ends = curves.iter().filter_map(|curve| {
            let (first, last) = (curve.points().next()?.1, curve.points().last()?.1);
            Some(format!("{}: from {first:.4} to {last:.4}.", curve.name))
        });
        Some(
            Chart {
                id: &format!("{}-loss", self.id),
                title: if banded { "Loss of batches: mean, least and largest" } else { "Loss of batches" },
                description: ends.collect::<Vec<_>>().join(" "),
                x: Axis::exactly(0.0, end, 5),
                x_name: if by_epoch { "epochs of training" } else { "batches" },
                y: Axis::around(least, most, 4),
                curves,
                marks: Vec::new(),
                hovers,
            }
            .html(),
        )
    }

    /// Accuracy, or what else the run is judged by, at the end of each epoch.
    pub fn accuracy(&self) -> Option<String> {
        let valid = |epochs: &Epochs| [epochs.valid_roc_auc, epochs.valid_accuracy, epochs.train_accuracy];
        let mut curves = Vec::new();
        let mut hovers = Vec::new();
        for (style, (name, run)) in self.runs.iter().enumerate() {
            let (width, epochs) = run.epochs.at_most(self.points);
            // Epochs are counted from 1, as everywhere where people see them.
            let place = |index: usize| 1.0 + index as f64 * width as f64 + (width - 1) as f64 / 2.0;
            let curve = |name: &str, style: usize, of: &dyn Fn(&Epochs) -> Seen| {
                let points =
                    epochs.iter().enumerate().map(|(index, epochs)| (place(index), of(epochs).mean()));
                Curve { dotted: epochs.len() <= 30, ..Curve::of(name, style, points) }
            };
            if self.runs.len() > 1 {
                let of = |epochs: &Epochs| {
                    valid(epochs).into_iter().find(|seen| seen.count > 0).unwrap_or_default()
                };
                curves.push(curve(name, style, &of));
                continue;
            }
            curves.push(curve("training", 1, &|epochs| epochs.train_accuracy));
            curves.push(curve("validation", 0, &|epochs| epochs.valid_accuracy));
            curves.push(curve("validation ROC-AUC", 2, &|epochs| epochs.valid_roc_auc));
            curves.retain(|curve| !curve.is_empty());
            for (index, epochs) in epochs.iter().enumerate().take(self.points) {
                let told = [
                    ("training", epochs.train_accuracy),
                    ("validation", epochs.valid_accuracy),
                    ("ROC-AUC", epochs.valid_roc_auc),
                ];
                let told = told.into_iter().filter_map(|(name, seen)| Some((name, seen.mean()?)));
                let told: Vec<_> =
                    told.map(|(name, mean)| format!("{name} {}", format::percent(mean))).collect();
                let half = width as f64 / 2.0;
                let text = format!("epoch {}: {}", place(index), told.join(", "));
                hovers.push((place(index) - half, place(index) + half, text));
            }
        }
        let every = || curves.iter().flat_map(Curve::points);
        let end = every().map(|point| point.0).reduce(f64::max)?;
        let (least, most) = every()
            .map(|point| point.1)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), y| (y.min(least), y.max(most)));
        let y = Axis::around(least, most, 4).in_percent();
        let of_area = self
            .runs
            .iter()
            .all(|(_, run)| run.epochs.at_most(1).1.iter().any(|e| e.valid_roc_auc.count > 0));
        let title = match (self.runs.len() > 1, of_area) {
            (false, _) => "Accuracy by epoch",
            (true, false) => "Validation accuracy by epoch",
            (true, true) => "Validation ROC-AUC by epoch",
        };
        let ends = curves.iter().filter_map(|curve| {
            Some(format!("{}: {} in the last epoch.", curve.name, format::percent(curve.points().last()?.1)))
        });
        Some(
            Chart {
                id: &format!("{}-accuracy", self.id),
                title,
                description: ends.collect::<Vec<_>>().join(" "),
                x: Axis::of_whole_numbers(1.0, end.max(2.0), 5),
                x_name: "epoch",
                y,
                curves,
                marks: Vec::new(),
                hovers,
            }
            .html(),
        )
    }

    /// How much of what was asked of the caches they had, over the run's time; of one run alone.
    pub fn hits(&self) -> Option<String> {
        let run = self.alone()?;
        run.totals.cache?;
        let length = run.timeline.length();
        let unit = TimeUnit::of(length);
        let (width, windows) = run.timeline.windows(stretches(run, self.points));
        let rate = |all: f64, hits: f64| (all > 0.0).then(|| hits / all);
        let place = |index: usize| {
            let from = index as f64 * width as f64;
            (from + (from + width as f64).min(length as f64)) / 2.0 / unit.microseconds
        };
        let curve = |name: &str, style: usize, cache: usize| {
            let of = |(index, window): (usize, &super::timeline::Window)| {
                (place(index), rate(window.cache[2 * cache], window.cache[2 * cache + 1]))
            };
            Curve::of(name, style, windows.iter().enumerate().map(of))
        };
        let mut curves = vec![curve("neighbour lists", 0, 0), curve("feature rows", 1, 1)];
        // A cache that nothing was put into hits nothing, and that is no finding.
        let cached = |name: &str| run.start.in_force["caches"][name]["count"].as_u64() != Some(0);
        if cached("lists") != cached("rows") {
            curves.remove(usize::from(cached("lists")));
            curves[0].style = 0;
        }
        let ends = curves.iter().filter_map(|curve| {
            Some(format!("{}: {} at the end.", curve.name, format::percent(curve.points().last()?.1)))
        });
        let title = match &curves[..] {
            [curve] => format!("Hit rate of the cache of {}", curve.name),
            _ => "Hit rates of the caches".to_owned(),
        };
        let title = match run.counted_epochs() {
            0 => title,
            epochs => format!("{title} ({} to choose them)", counted_beforehand(epochs)),
        };
        Some(
            Chart {
                id: &format!("{}-hits", self.id),
                title: &title,
                description: ends.collect::<Vec<_>>().join(" "),
                x: Axis::exactly(0.0, length as f64 / unit.microseconds, 5),
                x_name: &format!("{} since the first batch began", unit.name),
                y: Axis::of_shares(),
                curves,
                marks: Vec::new(),
                hovers: Vec::new(),
            }
            .html(),
        )
    }
}

/// How many stretches of a run's time have enough batches each that a line shows more than how they fall into them.
fn stretches(run: &Run, most: usize) -> usize {
    let batches = usize::try_from(run.totals.batches).unwrap_or(usize::MAX);
    most.min((batches / 10).max(5))
}

fn most(curves: &[Curve]) -> Option<f64> {
    curves.iter().flat_map(Curve::points).map(|point| point.1).reduce(f64::max)
}

fn hovers_of_losses(run: &Run, wanted: usize, scale: f64) -> Vec<(f64, f64, String)> {
    let (width, losses) = run.losses.at_most(wanted);
    let known = losses
        .iter()
        .enumerate()
        .filter_map(|(index, seen)| Some((index as u64 * width, seen, seen.mean()?)));
    known
        .map(|(from, seen, mean)| {
            let text = match seen.count {
                1 => format!("batch {}: loss {mean:.4}", format::count(from + 1)),
                _ => format!(
                    "batches {} to {}: mean loss {mean:.4}, from {:.4} to {:.4}",
                    format::count(from + 1),
                    format::count(from + width),
                    seen.least,
                    seen.most
                ),
            };
            (from as f64 / scale, (from + width) as f64 / scale, text)
        })
        .collect()
}
