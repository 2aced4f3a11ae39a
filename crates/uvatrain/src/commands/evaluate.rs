//! `uvatrain evaluate`: the metric of a trained model on each split.

use serde_json::json;
use uva_graph::Split;
use uva_launch::training::Metric;

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
    flags.check()?;
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
            "metric": model.metric.name(),
        });
        for (split, found) in Split::ALL.into_iter().zip(&results) {
            result[split.name()] = json!(found);
        }
        return out::json(&result);
    }
    let areas = model.metric == Metric::RocAuc;
    let mut table =
        Table::with_heading(&["split", "nodes", if areas { "ROC-AUC" } else { "accuracy" }, "loss"]);
    for (split, found) in Split::ALL.into_iter().zip(&results) {
        let value = if areas { found.roc_auc } else { found.accuracy };
        table.row(&[
            split.name().to_owned(),
            format::count(found.nodes as u64),
            value.map_or_else(|| "–".to_owned(), |value| format::percent(value).to_string()),
            found.loss.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.4}")),
        ]);
    }
    out::say(&trained_model::described(&model));
    out::text(&table.render())
}
