//! The template's view of a run: figures, table rows and pictures. The template decides wording and order.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::context;
use minijinja::value::{Serde, Value as Seen};
use serde::Serialize;
use serde_json::Value;

use super::chart::{hex, line};
use super::curves::Scale;
use super::run::Run;
use super::timeline::ROLES;
use super::{curves, sizes, stages};
use crate::ui::bottleneck::{HeldUpBy, RoleSum, held_up_by};
use crate::ui::format;

/// Maximum rows of the table of epochs, and of the table of stages.
const MOST_ROWS: [usize; 2] = [40, 12];
/// Options listed at most, so that the page stays small for any file.
const MOST_OPTIONS: usize = 200;

fn seen(value: impl Serialize) -> Seen {
    Seen::from(Serde(value))
}

/// The view of the run with this number, counted from 0, under its name in the legend.
///
/// # Errors
/// If a picture cannot be drawn.
pub fn of(named: &(String, &Run), number: usize, scale: Scale) -> anyhow::Result<Seen> {
    let (name, run) = named;
    let id = format!("run{}", number + 1);
    let (end, last_epoch, whole) = (run.end.as_ref(), run.last_epoch.as_ref(), run.timeline.whole());
    let sums = sums(run);
    let role = |(name, sum): (&str, &RoleSum)| {
        let shares = [0, 1, 2].map(|doing| sum.share(doing));
        context! { name, shares, processes => sum.processes, seconds => sum.seconds, peak_memory => sum.peak_memory }
    };
    let stretches = run.timeline.stretches(MOST_ROWS[1]).into_iter();
    let stretches = stretches.map(|of| (of.time(), of.speed(), [0, 1, 2].map(|role| of.shares(role))));
    let pictured = whole.is_some() && run.timeline.length() > 0;
    let stages = pictured.then(|| stages::figure(run, &sums, &id, scale.windows)).transpose()?;
    let curves =
        if pictured { curves::figures(std::slice::from_ref(named), &id, scale)? } else { Vec::new() };
    let options = run.options();
    let caches = &run.start.in_force["caches"];
    Ok(context! {
        run => seen(run),
        name,
        colour => hex(line(number)),
        dataset => run.dataset(),
        device => options.get("device").and_then(|device| device.as_str()).unwrap_or("cpu"),
        command => run.command(),
        samplers => run.timeline.samplers(),
        // Options by name: all, and those that are whole numbers. In the file's order, with the names of their
        // sections.
        number => options.iter().filter_map(|(name, value)| Some((*name, value.as_u64()?))).collect::<BTreeMap<_, _>>(),
        option => seen(options),
        options => seen(flat(run)),
        budget => caches["budget_bytes"].as_u64(),
        cached => seen([&caches["policy"], &caches["lists"]["count"], &caches["rows"]["count"]]),
        roles => ROLES.into_iter().zip(&sums).map(role).collect::<Vec<_>>(),
        // The run's bottleneck, and the busiest role.
        held_up => held_up_by(&sums).map(|held_up| match held_up {
            HeldUpBy::Role(busiest) => ("role", busiest),
            HeldUpBy::None(busiest) => ("none", busiest),
            HeldUpBy::Elsewhere(busiest) => ("elsewhere", busiest),
        }).map(seen),
        seconds => match end {
            Some(end) if run.resumed == 0 => end.seconds,
            _ => run.timeline.length() as f64 / 1e6,
        },
        epochs => match (end, last_epoch) {
            (Some(end), _) => end.epochs,
            (None, last) => last.map_or(0, |epoch| epoch.epoch.saturating_add(1)),
        },
        speed => end.map_or(whole.and_then(|whole| whole.speed()), |end| end.batches_per_second),
        last_loss => last_epoch.map_or(run.last_loss(), |epoch| Some(epoch.train_loss)),
        results => seen(results(run)),
        stages => seen(stages),
        curves => seen(curves),
        histograms => seen(sizes::figures(run, &id)?),
        stretches => seen(stretches.collect::<Vec<_>>()),
        // How many epochs are one row, and the rows.
        epoch_rows => seen(run.epochs.at_most(MOST_ROWS[0])),
        sizes => seen(sizes::table(run)),
        row_bytes => run.row_bytes(),
        row_hits => run.totals.cache.map(|totals| totals.all().row_hits),
        counted => curves::counted_beforehand(run.counted_epochs()),
        id,
    })
}

/// The sums of the three roles: from the run's end record, or summed over its batches if it has none.
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

/// The run's results, the most informative first: a name, a share or an error as text, and its epoch, from 0.
fn results(run: &Run) -> Vec<(&'static str, String, Option<u64>)> {
    let parts = [serde_json::to_value(&run.end), serde_json::to_value(&run.last_epoch)]
        .map(Result::unwrap_or_default);
    let [of_end, of_last] = parts.each_ref().map(|part| {
        let all = [
            ("test ROC-AUC", "test_roc_auc", "test_epoch"),
            ("test accuracy", "test_accuracy", "test_epoch"),
            ("best validation ROC-AUC", "best_valid_roc_auc", "best_valid_epoch"),
            ("best validation accuracy", "best_valid_accuracy", "best_valid_epoch"),
            ("last validation ROC-AUC", "valid_roc_auc", "epoch"),
            ("last validation accuracy", "valid_accuracy", "epoch"),
            ("test MSE", "test_mse", "test_epoch"),
            ("test MAE", "test_mae", "test_epoch"),
            ("best validation MSE", "best_valid_mse", "best_valid_epoch"),
            ("best validation MAE", "best_valid_mae", "best_valid_epoch"),
            ("last validation MSE", "valid_mse", "epoch"),
            ("last validation MAE", "valid_mae", "epoch"),
        ];
        let text = |name: &str, value: f64| match name.ends_with("MSE") || name.ends_with("MAE") {
            true => format::error(value),
            false => format::percent(value).to_string().replace(' ', "\u{a0}"),
        };
        let known = all
            .into_iter()
            .filter_map(|(name, value, epoch)| Some((name, part[value].as_f64()?, part[epoch].as_u64())))
            .map(|(name, value, epoch)| (name, text(name, value), epoch));
        known.collect::<Vec<_>>()
    });
    if of_end.is_empty() { of_last } else { of_end }
}

/// The options that were given, with the names of their sections.
fn flat(run: &Run) -> Vec<(String, &Value)> {
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

/// The comparison of several runs: the names of results that any run has, and the options in which they differ.
pub fn of_all(named: &[(String, &Run)], scale: Scale) -> anyhow::Result<Seen> {
    let mut names = Vec::new();
    for (name, ..) in named.iter().flat_map(|(_, run)| results(run)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let options: Vec<BTreeMap<String, &Value>> =
        named.iter().map(|(_, run)| flat(run).into_iter().collect()).collect();
    let every: BTreeSet<&String> = options.iter().flat_map(BTreeMap::keys).collect();
    let rows =
        every.into_iter().map(|name| (name, options.iter().map(|of| of.get(name)).collect::<Vec<_>>()));
    // The path of a run's metrics always differs.
    let differ =
        rows.filter(|(name, values)| *name != "metrics" && values.iter().any(|value| *value != values[0]));
    Ok(context! {
        results => names,
        differences => seen(differ.collect::<Vec<_>>()),
        curves => seen(curves::figures(named, "all", scale)?),
    })
}
