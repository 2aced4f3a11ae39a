//! What the page's template sees of a run: figures, rows of tables and pictures. Words and order are the template's.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use uva_runtime::metrics::CacheCounts;

use super::chart::{Figure, hex, line};
use super::page::Scale;
use super::run::{Epochs, Run};
use super::timeline::ROLES;
use super::{curves, sizes, stages};
use crate::ui::bottleneck::{HeldUpBy, RoleSum, held_up_by};

/// Rows of the table of epochs, and of the one of the stages.
const MOST_ROWS: [usize; 2] = [40, 12];
/// Options listed: a file can say what it likes, and the page stays small.
const MOST_OPTIONS: usize = 200;

/// A run of the page.
#[derive(Serialize)]
pub struct View<'r> {
    run: &'r Run,
    /// Begins the names of its parts of the page.
    id: String,
    /// In legends.
    name: &'r str,
    colour: String,
    dataset: &'r str,
    device: &'r str,
    command: Option<String>,
    /// Options by name, or what they came to, and those that are whole numbers.
    option: BTreeMap<&'r str, &'r Value>,
    number: BTreeMap<&'r str, u64>,
    /// All that were given, with the names of where they stand.
    options: Vec<(String, &'r Value)>,
    samplers: usize,
    /// Of the caches: budget in bytes, policy, lists, rows.
    caches: [&'r Value; 4],
    roles: Vec<Role>,
    /// What held the run up, of `role`, `none` and `elsewhere`, and the role that worked most.
    held_up: Option<(&'static str, usize)>,
    seconds: f64,
    epochs: u64,
    /// Batches a second.
    speed: Option<f64>,
    last_loss: Option<f64>,
    /// What the run has learnt, the most telling first: a name, a share, and whose epoch's, from 0.
    results: Vec<(&'static str, f64, Option<u32>)>,
    stages: Option<Figure>,
    curves: Vec<Figure>,
    histograms: Vec<Figure>,
    stretches: Vec<(String, Option<f64>, [[f64; 3]; 3])>,
    /// How many epochs are one row, and the rows.
    epoch_rows: (u64, Vec<Epochs>),
    sizes: Vec<sizes::Sizes>,
    row_bytes: Option<u64>,
    row_hits: Option<u64>,
    /// What of the epochs stands behind a cache's name, what was counted, and whether it was expected to be so.
    hits: Vec<(String, CacheCounts, bool)>,
}

#[derive(Serialize)]
struct Role {
    name: &'static str,
    processes: usize,
    seconds: [f64; 3],
    shares: [f64; 3],
    peak_memory: Option<u64>,
}

impl<'r> View<'r> {
    /// The run of this number, from 0, and the name that the legend has for it.
    ///
    /// # Errors
    /// When a picture cannot be drawn.
    pub fn of(named: &'r (String, &'r Run), number: usize, scale: Scale) -> anyhow::Result<Self> {
        let (name, run) = named;
        let run: &Run = run;
        let id = format!("run{}", number + 1);
        let sums = sums(run);
        let whole = run.timeline.whole();
        let pictured = whole.is_some() && run.timeline.length() > 0;
        let role = |(name, sum): (&'static str, &RoleSum)| {
            let &RoleSum { processes, seconds, peak_memory } = sum;
            Role { name, processes, seconds, shares: [0, 1, 2].map(|doing| sum.share(doing)), peak_memory }
        };
        let end = run.end.as_ref();
        let caches = &run.start.in_force["caches"];
        let shares = |stretch: super::timeline::Stretch| {
            (stretch.time(), stretch.speed(), [0, 1, 2].map(|role| stretch.shares(role)))
        };
        let last_epoch = run.last_epoch.as_ref();
        let losses = run.losses.at_most(usize::MAX).1;
        let option = run.options();
        Ok(Self {
            colour: hex(line(number)),
            dataset: run.dataset(),
            device: option.get("device").and_then(|device| device.as_str()).unwrap_or("cpu"),
            command: run.command(),
            number: option.iter().filter_map(|(name, value)| Some((*name, value.as_u64()?))).collect(),
            option,
            options: options(run),
            caches: [
                &caches["budget_bytes"],
                &caches["policy"],
                &caches["lists"]["count"],
                &caches["rows"]["count"],
            ],
            samplers: run.timeline.samplers(),
            roles: ROLES.into_iter().zip(&sums).map(role).collect(),
            held_up: held_up_by(&sums).map(|held_up| match held_up {
                HeldUpBy::Role(busiest) => ("role", busiest),
                HeldUpBy::None(busiest) => ("none", busiest),
                HeldUpBy::Elsewhere(busiest) => ("elsewhere", busiest),
            }),
            seconds: match end {
                Some(end) if run.resumed == 0 => end.seconds,
                _ => run.timeline.length() as f64 / 1e6,
            },
            epochs: match (end, last_epoch) {
                (Some(end), _) => end.epochs.into(),
                (None, last) => last.map_or(0, |epoch| u64::from(epoch.epoch) + 1),
            },
            speed: match end {
                Some(end) => end.batches_per_second,
                None => whole.and_then(|whole| whole.speed()),
            },
            last_loss: match last_epoch {
                Some(epoch) => Some(epoch.train_loss),
                None => losses.iter().rev().find_map(super::stretches::Seen::mean),
            },
            results: results(run),
            stages: pictured.then(|| stages::figure(run, &sums, &id, scale.windows)).transpose()?,
            curves: if pictured {
                curves::figures(std::slice::from_ref(named), &id, scale)?
            } else {
                Vec::new()
            },
            histograms: sizes::figures(run, &id)?,
            stretches: run.timeline.stretches(MOST_ROWS[1]).into_iter().map(shares).collect(),
            epoch_rows: run.epochs.at_most(MOST_ROWS[0]),
            sizes: sizes::table(run),
            row_bytes: run.row_bytes(),
            row_hits: run.totals.cache.map(|totals| totals.all().row_hits),
            hits: hits(run),
            run,
            id,
            name,
        })
    }
}

/// The three roles: as the run's end tells them, else what its batches come to.
fn sums(run: &Run) -> [RoleSum; 3] {
    if let Some(end) = &run.end {
        return RoleSum::of_all(&end.roles);
    }
    let spent = run.timeline.whole().map_or([[0.0; 3]; 3], |whole| whole.window.spent);
    std::array::from_fn(|role| RoleSum {
        processes: if role == 0 { run.timeline.samplers() } else { 1 },
        seconds: spent[role].map(|spent| spent / 1e6),
        peak_memory: None,
    })
}

fn results(run: &Run) -> Vec<(&'static str, f64, Option<u32>)> {
    let (end, last) = (run.end.as_ref(), run.last_epoch.as_ref());
    let tested = end.and_then(|end| end.test_epoch);
    let best = end.and_then(|end| end.best_valid_epoch);
    let epoch = last.map(|epoch| epoch.epoch);
    let of_end = [
        ("test ROC-AUC", end.and_then(|end| end.test_roc_auc), tested),
        ("test accuracy", end.and_then(|end| end.test_accuracy), tested),
        ("best validation ROC-AUC", end.and_then(|end| end.best_valid_roc_auc), best),
        ("best validation accuracy", end.and_then(|end| end.best_valid_accuracy), best),
    ];
    let of_last = [
        ("last validation ROC-AUC", last.and_then(|epoch| epoch.valid_roc_auc), epoch),
        ("last validation accuracy", last.and_then(|epoch| epoch.valid_accuracy), epoch),
    ];
    let known = |all: &[(&'static str, Option<f64>, Option<u32>)]| -> Vec<_> {
        all.iter().filter_map(|&(name, value, epoch)| Some((name, value?, epoch))).collect()
    };
    Some(known(&of_end)).filter(|known| !known.is_empty()).unwrap_or_else(|| known(&of_last))
}

fn hits(run: &Run) -> Vec<(String, CacheCounts, bool)> {
    let Some(totals) = run.totals.cache else { return Vec::new() };
    let which = format!(", {}", curves::counted_beforehand(run.counted_epochs()));
    // What was expected is of batches that the choice was not made by.
    let parts = [(String::new(), totals.others, true), (which, totals.counted, false)];
    parts.into_iter().filter(|(_, counts, _)| *counts != CacheCounts::default()).collect()
}

/// Options with the names of where they stand, those that were not given left out.
fn options(run: &Run) -> Vec<(String, &Value)> {
    let mut flat = Vec::new();
    let mut open = vec![(String::new(), &run.start.options)];
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(fields) => open.extend(fields.iter().rev().map(|(key, value)| {
                (if name.is_empty() { key.clone() } else { format!("{name}.{key}") }, value)
            })),
            Value::Null => {}
            value if flat.len() < MOST_OPTIONS => flat.push((name, value)),
            _ => break,
        }
    }
    flat
}

/// Options that not all runs have alike, with each run's.
pub fn differences<'r>(views: &[View<'r>]) -> Vec<(String, Vec<Option<&'r Value>>)> {
    let options: Vec<BTreeMap<&str, &Value>> = views
        .iter()
        .map(|view| view.options.iter().map(|(name, value)| (name.as_str(), *value)).collect())
        .collect();
    let names: BTreeSet<&str> = options.iter().flat_map(|options| options.keys().copied()).collect();
    // Where a run's metrics go differs always.
    let names = names.into_iter().filter(|name| *name != "metrics");
    let rows = names
        .map(|name| (name.to_owned(), options.iter().map(|of| of.get(name).copied()).collect::<Vec<_>>()));
    rows.filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
}

/// The names of the results that any of the runs has.
pub fn results_of_any(views: &[View<'_>]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (name, ..) in views.iter().flat_map(|view| &view.results) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
}
