//! `uvatrain evaluate`: the metric of a trained model on each split.

use serde_json::json;
use uva_graph::Split;
use uva_launch::training::{AggregateVerdict, EvaluateBy, Metric, SplitResult};
use uva_model::{ClassScore, TaskKind};

use crate::exit;
use crate::flags::training::EvaluateFlags;
use crate::models::Models;
use crate::runs::data_kinds::kind_at;
use crate::runs::pipeline::check_paths;
use crate::runs::trained_model;
use crate::ui::summary::ON_SAMPLED_NEIGHBOURS;
use crate::ui::table::TextTable;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Evaluates the model, and prints a line for each split.
pub fn run(flags: &EvaluateFlags, models: Option<Models>) -> anyhow::Result<()> {
    let (flags, per_class) = (&flags.model, flags.per_class);
    kind_at(&flags.data).check_model(flags)?;
    check_paths(&[("DATA", Some(&flags.data)), ("--checkpoint", Some(&flags.checkpoint))])?;
    let models = trained_model::models(flags, models)?;
    let (dataset, model) = trained_model::open(flags)?;
    if per_class && model.task != TaskKind::SingleLabel {
        let why = "not supported with regression or several labels a node";
        return Err(exit::usage(format!("--per-class: {why}")).into());
    }
    let work = Work::of_unknown_length("evaluating");
    let mut results = (models.evaluate)(dataset, &model)?;
    drop(work);
    if flags.json {
        if !per_class {
            results.iter_mut().for_each(|found| found.classes.clear());
        }
        let mut result = json!({
            "checkpoint": flags.checkpoint,
            "kept": model.checkpoint.trainer().kept(),
            "epoch": model.epoch,
            "eval": model.by,
            "aggregate": model.aggregate.as_ref().map(AggregateVerdict::of_prediction),
            "metric": model.metric.name(),
        });
        for (split, found) in Split::ALL.into_iter().zip(&results) {
            result[split.name()] = json!(found);
        }
        return out::json(&result);
    }
    let absent = || "–".to_owned();
    let percent = |value: Option<f64>| value.map_or_else(absent, |value| format::percent(value).to_string());
    let error = |value: Option<f64>| value.map_or_else(absent, format::error);
    let headings: &[&str] = match (model.metric, model.task) {
        (Metric::Accuracy, TaskKind::SingleLabel) => &["accuracy", "macro-F1", "loss"],
        (Metric::Accuracy, _) => &["accuracy", "loss"],
        (Metric::RocAuc, _) => &["ROC-AUC", "loss"],
        (Metric::Mse | Metric::Mae, _) => &["MSE", "MAE"],
    };
    let mut table = TextTable::with_heading(&[&["split", "nodes"], headings].concat());
    for (split, found) in Split::ALL.into_iter().zip(&results) {
        let loss = found.loss.map_or_else(absent, |loss| format!("{loss:.4}"));
        let values = match (model.metric, model.task) {
            (Metric::Accuracy, TaskKind::SingleLabel) => {
                vec![percent(found.accuracy), percent(found.macro_f1), loss]
            }
            (Metric::Accuracy, _) => vec![percent(found.accuracy), loss],
            (Metric::RocAuc, _) => vec![percent(found.roc_auc), loss],
            (Metric::Mse | Metric::Mae, _) => vec![error(found.mse), error(found.mae)],
        };
        let nodes = format::count(found.nodes as u64);
        table.row(&[vec![split.name().to_owned(), nodes], values].concat());
    }
    let sampled = model.by == EvaluateBy::Sampled && !model.loader.takes_all_neighbours();
    let how = if sampled { format!(", {ON_SAMPLED_NEIGHBOURS}") } else { String::new() };
    out::say(&format!("{}{how}", trained_model::described(&model)));
    let mut text = table.render();
    if per_class {
        text += &format!("\n{}", of_classes(&results));
    }
    out::text(&text)
}

/// A row for each class of each split.
fn of_classes(results: &[SplitResult; 3]) -> String {
    let percent = |share: f64| format::percent(share).to_string();
    let mut table = TextTable::with_heading(&["split", "class", "nodes", "precision", "recall", "F1"]);
    for (split, found) in Split::ALL.into_iter().zip(results) {
        for ClassScore { class, name, nodes, precision, recall, f1 } in &found.classes {
            let class = name.clone().unwrap_or_else(|| class.to_string());
            let [precision, recall, f1] = [*precision, *recall, *f1].map(percent);
            table.row(&[split.name().to_owned(), class, format::count(*nodes), precision, recall, f1]);
        }
    }
    table.render()
}
