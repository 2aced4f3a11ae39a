//! What the page says of one run.

use std::fmt::Write;

use serde_json::Value;

use super::curves::Overlay;
use super::html::{Table, escape, folded, prose, shortened};
use super::page::Scale;
use super::roles::{sums, verdict};
use super::run::Run;
use super::timeline::{DOINGS, ROLES};
use super::{memory, sizes, stages};
use crate::ui::format;
use uva_runtime::spec::ByteSize;

/// The run's part of the page: `id` begins the names of what is in it, `name` is the legend's for it.
pub fn of(run: &Run, id: &str, name: &str, scale: Scale) -> String {
    let mut html = String::new();
    for note in notes(run) {
        let _ = writeln!(html, "<p class=\"note\">{}</p>", prose(&note));
    }
    if let Some(verdict) = verdict(run) {
        let _ = writeln!(html, "<p class=\"verdict\">{}</p>", prose(&verdict));
    }
    html += &tiles(run);
    html += &settings(run);
    if run.totals.batches == 0 {
        return html;
    }
    html += "<h3>Where the time went</h3>\n";
    html += &stages::figure_of(run, &format!("{id}-stages"), scale.windows);
    html += &roles_table(run);
    html += &stages::table(run).unwrap_or_default();
    html += &memory::table(run).unwrap_or_default();
    let runs = [(name.to_owned(), run)];
    let overlay = Overlay { runs: &runs, id, points: scale.points, hovers: scale.hovers };
    html += "<h3>Speed and learning</h3>\n";
    html += &side_by_side([overlay.speed(), overlay.loss(), overlay.accuracy(), overlay.hits()]);
    html += &epochs_table(run).unwrap_or_default();
    html += "<h3>What was in the batches</h3>\n<div class=\"charts small\">\n";
    html += &sizes::figures(run, id);
    html += "</div>\n";
    html += &sizes::table(run);
    html += &sizes::moved(run);
    html
}

/// Those pictures that there are, in as many columns as there is room for.
pub fn side_by_side(charts: impl IntoIterator<Item = Option<String>>) -> String {
    let charts: Vec<String> = charts.into_iter().flatten().collect();
    // Three in a row, and not one alone below two.
    let class = if charts.len() == 3 { "charts three" } else { "charts" };
    format!("<div class=\"{class}\">\n{}</div>\n", charts.concat())
}

/// What of the run is to be known before its figures are read.
fn notes(run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    if run.end.is_none() {
        notes.push(
            "This file has no `end`: the run goes on, or was interrupted. What is shown is as far as it \
             goes."
                .to_owned(),
        );
    }
    if let Some(line) = run.cut {
        notes.push(format!("Line {}, the last one, is cut in the middle and left out.", format::count(line)));
    }
    if run.resumed > 0 {
        notes.push(format!(
            "The run was resumed {}. Batches that were trained again count twice in sums and sizes; of losses \
             and epochs the later ones are shown.",
            if run.resumed == 1 { "once".to_owned() } else { format!("{} times", run.resumed) }
        ));
    }
    if run.unknown > 0 {
        notes.push(format!(
            "{} lines are of events that this version does not know, and left out.",
            format::count(run.unknown)
        ));
    }
    if run.totals.batches == 0 {
        notes.push("There are no training batches in this file yet.".to_owned());
    } else if run.command().is_some() {
        notes.push(
            "The consumer was a command of your own (`uvatrain run`), which keeps loss and accuracy to itself."
                .to_owned(),
        );
    }
    notes
}

/// The key figures.
fn tiles(run: &Run) -> String {
    let mut tiles: Vec<(&str, String, String)> = Vec::new();
    let mut tile = |name, value: String, more: &str| tiles.push((name, value, more.to_owned()));
    if let Some(speed) = speed(run) {
        tile("speed", format!("{speed:.1}"), "batches/s");
    }
    tile("time", format::seconds(seconds(run)), "");
    let epochs = epochs(run);
    let batches = format!("{} batches", format::count(run.totals.batches));
    let asked = run.option("epochs").and_then(Value::as_u64).filter(|asked| *asked != epochs);
    let stopped = run.end.as_ref().is_some_and(|end| end.stopped_early);
    let of = asked.map_or(String::new(), |asked| format!("of {}, ", format::count(asked)));
    let early = if stopped { "stopped early, " } else { "" };
    tile("epochs", format::count(epochs), &format!("{of}{early}{batches}"));
    for Shown { name, value, epoch } in results(run) {
        let of = epoch.map_or(String::new(), |epoch| format!("of epoch {}", u64::from(epoch) + 1));
        tile(name, format::percent(value).to_string(), &of);
    }
    if let Some(loss) = last_loss(run) {
        tile("last loss", format!("{loss:.4}"), "");
    }
    let html: String = tiles
        .iter()
        .map(|(name, value, more)| {
            let more =
                if more.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(more)) };
            // A time is one thing, however narrow its tile.
            let value = escape(value).replace(' ', "\u{a0}");
            format!("<div><dt>{name}</dt><dd>{value}{more}</dd></div>\n")
        })
        .collect();
    format!("<dl class=\"tiles\">\n{html}</dl>\n")
}

/// Batches a second while training.
pub fn speed(run: &Run) -> Option<f64> {
    match &run.end {
        Some(end) => end.batches_per_second,
        None => run.timeline.whole().speed(0.0),
    }
}

/// How long the run took, or as far as its batches go.
pub fn seconds(run: &Run) -> f64 {
    match &run.end {
        Some(end) if run.resumed == 0 => end.seconds,
        _ => run.timeline.length() as f64 / 1e6,
    }
}

/// Epochs finished.
pub fn epochs(run: &Run) -> u64 {
    let seen = run.last_epoch.as_ref().map_or(0, |epoch| u64::from(epoch.epoch) + 1);
    run.end.as_ref().map_or(seen, |end| end.epochs.into())
}

/// The loss of the last epoch, or of the last batches.
pub fn last_loss(run: &Run) -> Option<f64> {
    match &run.last_epoch {
        Some(epoch) => Some(epoch.train_loss),
        None => run.losses.at_most(usize::MAX).1.iter().rev().find_map(super::stretches::Seen::mean),
    }
}

/// A result as it is shown.
pub struct Shown {
    pub name: &'static str,
    pub value: f64,
    /// Whose it is, from 0, where that is known.
    pub epoch: Option<u32>,
}

/// What the run has learnt, the most telling first.
pub fn results(run: &Run) -> Vec<Shown> {
    let end = run.end.as_ref();
    let last = run.last_epoch.as_ref();
    let shown = |name, value: Option<f64>, epoch| value.map(|value| Shown { name, value, epoch });
    let [tested, best] = [end.and_then(|end| end.test_epoch), end.and_then(|end| end.best_valid_epoch)];
    let known = [
        shown("test ROC-AUC", end.and_then(|end| end.test_roc_auc), tested),
        shown("test accuracy", end.and_then(|end| end.test_accuracy), tested),
        shown("best validation ROC-AUC", end.and_then(|end| end.best_valid_roc_auc), best),
        shown("best validation accuracy", end.and_then(|end| end.best_valid_accuracy), best),
    ];
    let known: Vec<_> = known.into_iter().flatten().collect();
    if !known.is_empty() {
        return known;
    }
    let epoch = last.map(|epoch| epoch.epoch);
    let last = [
        shown("last validation ROC-AUC", last.and_then(|epoch| epoch.valid_roc_auc), epoch),
        shown("last validation accuracy", last.and_then(|epoch| epoch.valid_accuracy), epoch),
    ];
    last.into_iter().flatten().collect()
}

/// The device in words.
pub fn device(run: &Run) -> String {
    run.option("device").and_then(Value::as_str).unwrap_or("cpu").to_owned()
}

/// What the run was, in names and values.
fn settings(run: &Run) -> String {
    let dataset = &run.start.dataset;
    let count = |name: &str| dataset[name].as_u64().map_or("–".to_owned(), format::count);
    let mut facts = vec![
        ("dataset", format!("{}: {} nodes, {} edges", run.dataset(), count("nodes"), count("edges"))),
        (
            "features",
            format!(
                "{} of {} a node, {} classes",
                count("feature_dim"),
                word(&dataset["feature_dtype"]),
                count("classes")
            ),
        ),
        (
            "splits",
            format!("{} train, {} validation, {} test", count("train"), count("valid"), count("test")),
        ),
    ];
    if let Some(command) = run.command() {
        facts.push(("command", command));
    }
    for (name, options) in [
        ("model", &["model", "hidden", "heads", "norm", "dropout", "lr", "weight_decay"][..]),
        ("batches", &["sampler_kind", "fanouts", "walks", "batch_size", "replace", "seed"]),
        ("pipeline", &["samplers", "gather_threads", "train_threads", "feature_slots", "batch_slots"]),
        ("device", &["device", "gather", "sampler", "partition"]),
    ] {
        let on_cpu = device(run) == "cpu";
        let mut told = Vec::new();
        for option in options {
            let off = |value: &Value| value == false || value == "none" || value.as_f64() == Some(0.0);
            let Some(value) = run.option(option) else { continue };
            match *option {
                // Its number says nothing by being nothing.
                "seed" => told.push(format!("seed {}", word(value))),
                "partition" if on_cpu => {}
                "model" | "sampler_kind" | "device" => told.push(word(value)),
                _ if off(value) => {}
                name => told.push(format!("{} {}", name.replace('_', " "), word(value))),
            }
        }
        // Without a model its options are those of nobody.
        if !told.is_empty() && (name != "model" || run.option("model").is_some()) {
            facts.push((name, told.join(", ")));
        }
    }
    let caches = &run.start.in_force["caches"];
    if let Some(budget) = caches["budget_bytes"].as_u64() {
        let of = |name: &str| caches[name]["count"].as_u64().map_or("–".to_owned(), format::count);
        facts.push((
            "caches",
            format!(
                "{} by {}: {} lists, {} rows",
                ByteSize::from_bytes(budget),
                word(&caches["policy"]),
                of("lists"),
                of("rows")
            ),
        ));
    }
    facts.push(("file", run.path.display().to_string()));
    facts.push(("uvatrain", run.start.version.clone()));
    let mut html = String::from("<dl class=\"facts\">\n");
    for (name, value) in facts {
        let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&shortened(&value, 400)));
    }
    html += "</dl>\n";
    html + &all_options(run)
}

/// A value as it is typed.
pub fn word(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(word).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Options with the names of where they stand, those that were not given left out.
pub fn flat_options(run: &Run) -> Vec<(String, String)> {
    let mut flat = Vec::new();
    let mut open = vec![(String::new(), &run.start.options)];
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(fields) => {
                let inner = |(key, value)| match name.as_str() {
                    "" => (key, value),
                    outer => (format!("{outer}.{key}"), value),
                };
                open.extend(fields.iter().rev().map(|(key, value)| inner((key.clone(), value))));
            }
            Value::Null => {}
            value => flat.push((shortened(&name, 80), shortened(&word(value), 200))),
        }
        // A file can say what it likes, and the page stays small.
        if flat.len() >= 200 {
            break;
        }
    }
    flat
}

fn all_options(run: &Run) -> String {
    let options = flat_options(run);
    if options.is_empty() {
        return String::new();
    }
    let mut table = Table::new("All options", &["option", "value"]);
    for (name, value) in options {
        table.row(&[name, value]);
    }
    folded("All options", &format!("<div class=\"options\">{}</div>", table.html()))
}

fn roles_table(run: &Run) -> String {
    let mut columns = vec!["role"];
    columns.extend(DOINGS);
    columns.push("peak memory");
    let caption = match run.end {
        Some(_) => "The whole run, validation included",
        None => "The training batches of this file",
    };
    let mut table = Table::new(caption, &columns);
    for (role, sum) in ROLES.iter().zip(sums(run)) {
        let mut row = vec![stages::role_name(role, sum.processes)];
        row.extend((0..3).map(|doing| {
            let share = 100.0 * sum.share(doing);
            format!("<b>{share:.0} %</b> <small>{}</small>", format::seconds(sum.seconds[doing]))
        }));
        row.push(sum.peak_memory.map_or("–".to_owned(), |bytes| ByteSize::from_bytes(bytes).to_string()));
        table.row_of_html(&row);
    }
    table.html()
}

fn epochs_table(run: &Run) -> Option<String> {
    let (width, epochs) = run.epochs.at_most(40);
    if epochs.is_empty() {
        return None;
    }
    let with_area = epochs.iter().any(|epoch| epoch.valid_roc_auc.count > 0);
    let mut columns = vec!["epoch", "training loss", "training accuracy", "validation accuracy"];
    if with_area {
        columns.push("validation ROC-AUC");
    }
    columns.push("time an epoch");
    let caption = if width > 1 { "Epochs, means of several each, as a table" } else { "Epochs as a table" };
    let mut table = Table::new(caption, &columns);
    for (index, epoch) in epochs.iter().enumerate() {
        let first = index as u64 * width + 1;
        let name = if width > 1 { format!("{first} to {}", first + width - 1) } else { first.to_string() };
        let share = |seen: &super::stretches::Seen| {
            seen.mean().map_or("–".to_owned(), |mean| format::percent(mean).to_string())
        };
        let mut row = vec![
            name,
            epoch.train_loss.mean().map_or("–".to_owned(), |loss| format!("{loss:.4}")),
            share(&epoch.train_accuracy),
            share(&epoch.valid_accuracy),
        ];
        if with_area {
            row.push(share(&epoch.valid_roc_auc));
        }
        row.push(epoch.seconds.mean().map_or("–".to_owned(), format::seconds));
        table.row(&row);
    }
    Some(table.folded())
}
