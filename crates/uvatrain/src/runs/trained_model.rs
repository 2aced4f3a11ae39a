//! A trained model on the command line: the program that has it, and its checkpoint.

use uva_graph::{Dataset, Verify};
use uva_launch::training::{EvaluateBy, InferenceOverrides, TrainedModel, open_dataset};
use uva_propagate::HopSet;
use uva_runtime::backend::BackendOptions;
use uva_runtime::machine::share_of_cores;
use uva_runtime::spec::ByteSize;

use super::trainer::{self, become_program, restart_with};
use crate::flags::training::ModelFlags;
use crate::models::Models;
use crate::ui::{log, out};

/// The models of this program. If it has none, this process becomes `uvatrain-consumer` with the same command line.
///
/// # Errors
/// That program, or libtorch, is missing.
pub fn models(flags: &ModelFlags, models: Option<Models>) -> anyhow::Result<Models> {
    log::name_process("consumer");
    let environment = asked(flags).environment();
    match models {
        Some(models) => restart_with(environment).map(|()| models),
        None => {
            let program = trainer::find(flags.libtorch.as_deref(), true)?;
            Err(become_program(&program.path, [program.environment, environment].concat()))
        }
    }
}

/// Opens the dataset, or the hop set, and the model.
///
/// # Errors
/// Dataset or model is missing or damaged, or they do not belong together.
pub fn open(flags: &ModelFlags) -> anyhow::Result<(Dataset, TrainedModel)> {
    let open = || open_dataset(&flags.data, &flags.checkpoint);
    let dataset = HopSet::open_or(&flags.data, Verify::Stamp, open)?;
    let model = TrainedModel::open(&dataset, &flags.checkpoint, &asked(flags))?;
    if let Some(differs) = &model.other_dataset {
        out::say(&format!("--allow-other-dataset: {differs}"));
    }
    Ok((dataset, model))
}

fn asked(flags: &ModelFlags) -> InferenceOverrides {
    let by = flags.eval;
    let usual_threads = share_of_cores(if by == EvaluateBy::Full { 1 } else { 2 });
    InferenceOverrides {
        by,
        batch_size: flags.batch_size.map(|seeds| seeds as usize),
        slot_bytes: flags.slot_bytes.map(ByteSize::bytes),
        samplers: share_of_cores(4).min(8),
        gather_threads: share_of_cores(4),
        aggregate: flags.aggregate.unwrap_or_default(),
        backend: BackendOptions { device: flags.device.unwrap_or_default(), ..BackendOptions::default() },
        other_dataset: flags.allow_other_dataset,
        threads: Some(flags.threads.map_or(usual_threads, |threads| threads as usize)),
    }
}

/// A description of the model's parameters.
pub fn described(model: &TrainedModel) -> String {
    let kept = model.checkpoint.trainer().kept();
    let epoch = model.epoch.map_or_else(String::new, |epoch| format!(" of epoch {}", u64::from(epoch) + 1));
    match kept {
        uva_launch::training::Keep::Best => format!("the best model by validation,{epoch}"),
        uva_launch::training::Keep::Last => format!("the last model,{epoch}"),
    }
}
