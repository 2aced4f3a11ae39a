//! `uvatrain evaluate`: the metric of a trained model on each split.

use serde_json::json;
use uva_graph::Split;
use uva_launch::training::{AggregateVerdict, Metric};

use super::pipeline::check_paths;
use super::trained_model;
use crate::flags::EvaluateFlags;
use crate::models::Models;
use crate::ui::table::Table;
use crate::ui::work::Work;
use crate::ui::{format, out};

/// Evaluates, and prints a line for each split.
pub fn run(flags: &EvaluateFlags, models: Option<Models>) -> anyhow::Result<()> {
    let flags = &flags.model;
    trained_model::check(flags)?;
    check_paths(&[("DATA", Some(&flags.data)), ("--checkpoint", Some(&flags.checkpoint))])?;
    let models = trained_model::models(flags, models)?;
    let (dataset, model) = trained_model::open(flags)?;
    let work = Work::of_unknown_length("evaluating");
    let results = (models.evaluate)(dataset, &model)?;
    drop(work);
    if flags.json {
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
    let headings = match model.metric {
        Metric::Accuracy => ["accuracy", "loss"],
        Metric::RocAuc => ["ROC-AUC", "loss"],
        Metric::Mse | Metric::Mae => ["MSE", "MAE"],
    };
    let mut table = Table::with_heading(&["split", "nodes", headings[0], headings[1]]);
    for (split, found) in Split::ALL.into_iter().zip(&results) {
        let loss = found.loss.map_or_else(absent, |loss| format!("{loss:.4}"));
        let [first, second] = match model.metric {
            Metric::Accuracy => [percent(found.accuracy), loss],
            Metric::RocAuc => [percent(found.roc_auc), loss],
            Metric::Mse | Metric::Mae => [error(found.mse), error(found.mae)],
        };
        table.row(&[split.name().to_owned(), format::count(found.nodes as u64), first, second]);
    }
    out::say(&trained_model::described(&model));
    out::text(&table.render())
}
