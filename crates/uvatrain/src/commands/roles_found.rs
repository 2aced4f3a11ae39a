//! Roles of GPUs that are chosen by what the stages took in a run, as `bench roles` simulates them: how many sample, how many
//! train, and from which batch on those that sample train, too.

use uva_launch::places::{self, MAX_RANKS};
use uva_launch::ranks;
use uva_plan::{RoleCounts, RoleTimes, RolesEpoch, Taking, samplers_by};
use uva_runtime::{LoaderOptions, RuntimeError};

use super::stage_times::{TimedStages, timed_stages, words_of};
use crate::flags::{AskedRoles, AskedSwitch, RunFlags};
use crate::ui::out;

/// The same options with the roles named.
///
/// # Errors
/// A file that is no run's metrics, and less than two GPUs to divide.
pub fn with_roles_found(flags: &RunFlags) -> anyhow::Result<RunFlags> {
    // Checked before.
    let Some(path) = &flags.role_times else { return Ok(flags.clone()) };
    let TimedStages { milliseconds: [sampling_ms, gathering_ms, training_ms], in_epoch, timed_on } =
        timed_stages("--role-times", path)?;
    let standby_ms = gathering_ms + training_ms;
    let times = RoleTimes { sampling_ms, gathering_ms, training_ms, standby_ms };
    let simulated = |counts, queue, switches| {
        let taking = Taking::InSteps;
        RolesEpoch { counts, times, batches: in_epoch, queue, taking, switches }.simulate()
    };
    let by = format!(
        "simulated with {sampling_ms:.2} ms a batch to sample, {gathering_ms:.2} to gather and {training_ms:.2} to train{}",
        timed_on.map_or_else(String::new, |on| format!(", timed on {}", words_of(&on)))
    );
    let counts = match flags.roles {
        Some(AskedRoles::Counts(counts)) => {
            RoleCounts { samplers: counts.samplers as usize, trainers: counts.ranks as usize }
        }
        Some(AskedRoles::Auto) | None => {
            let gpus = gpus_to_divide()?;
            let samplers = samplers_by(gpus, |counts| simulated(counts, None, false).epoch_ms);
            let counts = RoleCounts { samplers, trainers: gpus - samplers };
            let epoch = simulated(counts, None, false).epoch_ms / 1e3;
            out::say(&format!(
                "--roles auto: {samplers} of {gpus} GPUs sample and {} train: {epoch:.2} s an epoch, {by}",
                counts.trainers
            ));
            counts
        }
    };
    let switch = match flags.switch {
        Some(AskedSwitch::Auto) => {
            let options = flags.loader_options();
            let fewest = LoaderOptions { samplers: counts.samplers, ..options.clone() }.fewest_batch_slots();
            let slots = options.batch_slots.unwrap_or(fewest) + options.feature_slots;
            let queue = Some(slots * counts.trainers);
            let [without, with] = [false, true].map(|switches| simulated(counts, queue, switches));
            let [alone, both] = [without, with].map(|outcome| outcome.epoch_ms / 1e3);
            let from = with.standby_from.filter(|_| both < alone);
            out::say(&match from {
                Some(batch) => format!(
                    "--switch auto: GPUs that sample train from batch {batch} of {in_epoch} on: {both:.2} s an epoch in place \
                     of {alone:.2}, {by}"
                ),
                None => format!(
                    "--switch auto: GPUs that sample do not train, for an epoch would not be shorter than {alone:.2} s, {by}"
                ),
            });
            from.and_then(|batch| u32::try_from(batch).ok()).map(AskedSwitch::From)
        }
        given => given,
    };
    let roles = places::RoleCounts { samplers: counts.samplers as u32, ranks: counts.trainers as u32 };
    Ok(RunFlags { roles: Some(AskedRoles::Counts(roles)), switch, role_times: None, ..flags.clone() })
}

/// How many GPUs this machine has to divide.
fn gpus_to_divide() -> anyhow::Result<usize> {
    let gpus = ranks::gpus_here()?.min(2 * MAX_RANKS as usize);
    if gpus < 2 {
        return Err(RuntimeError::Missing(format!(
            "--roles auto divides the GPUs of this machine, and the driver sees {gpus}; --roles 1:2 without a GPU gives the \
             sampler and the ranks processes on the CPU"
        ))
        .into());
    }
    Ok(gpus)
}
