//! Roles of GPUs chosen from a run's stage times: how many GPUs sample and how many train, as `bench roles` simulates
//! it, and at which batch standby ranks join.

use uva_graph::{Dataset, Split};
use uva_launch::places::{self, BatchNumber, MAX_RANKS, OrAuto};
use uva_launch::ranks;
use uva_plan::{GpuCounts, GpuStageTimes, QueueOrder, RolesEpoch, SwitchedRun, samplers_by};
use uva_runtime::pipeline::consumer::steered;
use uva_runtime::plan::RunPlan;
use uva_runtime::{LoaderOptions, RuntimeError};

use super::stage_times::{TimedStages, timed_stages, words_of};
use crate::flags::training::RunFlags;
use crate::ui::{format, out};

/// The options with the roles filled in, for a run over this dataset.
///
/// # Errors
/// A file without a run's metrics, or fewer than two GPUs to divide.
pub fn with_roles_found(
    flags: &RunFlags,
    dataset: &Dataset,
    options: &LoaderOptions,
) -> anyhow::Result<RunFlags> {
    // Checked before.
    let Some(path) = &flags.role_times else { return Ok(flags.clone()) };
    let TimedStages { milliseconds: [sampling_ms, gathering_ms, training_ms], in_epoch, timed_on } =
        timed_stages("--role-times", path)?;
    let times =
        GpuStageTimes { sampling_ms, gathering_ms, training_ms, standby_ms: gathering_ms + training_ms };
    let by = format!(
        "simulated with {sampling_ms:.2} ms a batch to sample, {gathering_ms:.2} to gather and {training_ms:.2} to train{}",
        timed_on.map_or_else(String::new, |on| format!(", timed on {}", words_of(&on)))
    );
    let batches = RunPlan::new(dataset, options, steered())?.schedule.all_batches(Split::Train) as usize;
    // A rank's metrics have the numbers of its own batches, whose last is not the last of the epoch.
    if in_epoch.abs_diff(batches) > MAX_RANKS as usize {
        out::say(&format!(
            "--role-times {}: the file has epochs of {in_epoch} batches, but this run has {batches}: times of other batches may \
             not be those of this run",
            path.display()
        ));
    }
    let counts = match flags.roles {
        Some(OrAuto::Named(counts)) => {
            GpuCounts { samplers: counts.samplers as usize, trainers: counts.ranks as usize }
        }
        Some(OrAuto::Auto) | None => {
            let gpus = gpus_to_divide()?;
            let epoch_ms = |counts| {
                let (queue, taking) = (None, QueueOrder::InSteps);
                RolesEpoch { counts, times, batches, queue, taking, switches: false }.simulate().epoch_ms
            };
            let samplers = samplers_by(gpus, epoch_ms);
            let counts = GpuCounts { samplers, trainers: gpus - samplers };
            out::say(&format!(
                "--roles auto: {samplers} of {gpus} GPUs sample and {} train: {} an epoch, {by}",
                counts.trainers,
                format::seconds(epoch_ms(counts) / 1e3)
            ));
            counts
        }
    };
    let switch = match flags.switch {
        Some(OrAuto::Auto) => {
            let of_rank = LoaderOptions { samplers: counts.samplers, ..options.clone() };
            let slots = RunPlan::new(dataset, &of_rank, steered())?.batch_slots() + options.feature_slots;
            let run = SwitchedRun { counts, times, batches, queue: slots * counts.trainers };
            let (best, alone) = (run.best(), format::seconds(run.epoch_ms(None) / 1e3));
            out::say(&match best {
                Some((batch, ms)) => format!(
                    "--switch auto: ranks that stand by join at batch {batch} of {batches}: {} an epoch in place of {alone}, {by}",
                    format::seconds(ms / 1e3)
                ),
                None => format!(
                    "--switch auto: no rank stands by, since an epoch would not be 2 % shorter than {alone}, {by}"
                ),
            });
            best.and_then(|(batch, _)| u32::try_from(batch).ok())
                .map(|batch| OrAuto::Named(BatchNumber(batch)))
        }
        given => given,
    };
    let roles = places::SharedSamplers { samplers: counts.samplers as u32, ranks: counts.trainers as u32 };
    Ok(RunFlags { roles: Some(OrAuto::Named(roles)), switch, role_times: None, ..flags.clone() })
}

/// The number of GPUs of this machine that can be divided.
fn gpus_to_divide() -> anyhow::Result<usize> {
    let gpus = ranks::gpus_here()?.min(2 * MAX_RANKS as usize);
    if gpus < 2 {
        return Err(RuntimeError::missing(format!(
            "--roles auto divides the GPUs of this machine, and the driver sees {gpus}; --roles 1:2 without a GPU gives the \
             sampler and the ranks processes on the CPU"
        ))
        .into());
    }
    Ok(gpus)
}
