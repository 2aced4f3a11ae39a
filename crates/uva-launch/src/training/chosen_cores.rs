//! The threads and cores of a run's stages, from a trial or from options.

use serde::Serialize;
use uva_options::OptionError;
use uva_plan::{CoreDivision, OfStages, StageFit, TimedThreads};
use uva_runtime::RuntimeError;
use uva_runtime::backend::Backend;
use uva_runtime::machine::cores::Cores;
use uva_runtime::options::Prepare;

use super::job::TrainingOptions;
use super::trainer_program::TrainingHost;

/// Threads of the stages, from a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChosenCores {
    /// CPU cores that the run may use.
    pub cores: usize,
    /// The threads, and the predictions for them.
    #[serde(flatten)]
    pub division: CoreDivision,
    /// The CPU cores that each stage is pinned to; `None` if all stages share all cores.
    pub kept_on: Option<OfStages<Vec<usize>>>,
    /// The line through each stage's points.
    pub lines: OfStages<StageFit>,
    /// The timed points.
    pub timed: OfStages<Vec<TimedThreads>>,
}

impl ChosenCores {
    /// The timed points and their result, for people.
    #[must_use]
    pub fn line(&self) -> String {
        let CoreDivision { threads, batch_ms, usual, usual_ms, shared } = self.division;
        let alone = self.lines.map(|line| line.at(1));
        let options = |threads: OfStages<usize>| {
            let OfStages { sampling, gathering, training } = threads;
            format!("`samplers={sampling}` `gather_threads={gathering}` `train_threads={training}`")
        };
        let chosen = match threads == usual {
            true => "the defaults, since no other numbers are predicted to save enough".to_owned(),
            false => format!("{usual_ms:.2} ms with {}", options(usual)),
        };
        let how = if shared { "share" } else { "divide" };
        let kept_on = self.kept_on.clone().map(|sets| format!(", on cores {}", Cores::Divided(sets)));
        format!(
            "`cores=auto`: on one core, a batch takes {:.2} ms to sample, {:.2} to gather, {:.2} to train. The stages {how} \
             {} cores as {}{}: {batch_ms:.2} ms a batch predicted ({chosen})",
            alone.sampling,
            alone.gathering,
            alone.training,
            self.cores,
            options(threads),
            kept_on.unwrap_or_default()
        )
    }
}

/// Separate cores for each stage, as many as it has threads, out of `allowed`. The remaining cores go to training,
/// whose threads the system may then place. `None` if all stages share the cores, or if the control group's quota is
/// smaller: other processes then use the same cores, and the free cores change.
pub(super) fn cores_of_stages(
    division: &CoreDivision,
    cores: usize,
    allowed: &[usize],
) -> Option<OfStages<Vec<usize>>> {
    let OfStages { sampling, gathering, .. } = division.threads;
    if division.shared || allowed.len() != cores {
        return None;
    }
    let (sampling, rest) = allowed.split_at_checked(sampling)?;
    let (gathering, training) = rest.split_at_checked(gathering)?;
    let sets = [sampling, gathering, training].map(<[usize]>::to_vec);
    if sets.iter().any(Vec::is_empty) {
        return None;
    }
    let [sampling, gathering, training] = sets;
    Some(OfStages { sampling, gathering, training })
}

/// Rejects cores for each stage if the stages are not separate processes.
///
/// # Errors
/// A run in this process, on a GPU, or with workers.
pub(super) fn check_core_sets(
    options: &TrainingOptions,
    backend: &Backend,
    prepare: Prepare,
    trainer: &TrainingHost,
) -> Result<(), RuntimeError> {
    let Some(cores @ Cores::Divided(_)) = &options.cores else { return Ok(()) };
    let refused = |reason: &str| {
        let reason = format!("{reason}: give one list for all stages");
        Err(OptionError::new("cores", cores, reason).into())
    };
    if trainer.is_here() {
        return refused("with `in_process` all stages are in one process");
    }
    if backend.cuda().is_some() {
        return refused("this run trains on a GPU, where stages may share a process");
    }
    if prepare == Prepare::Whole {
        return refused("workers make whole batches, so sampling and gathering are one stage");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(sampling: usize, gathering: usize, training: usize, shared: bool) -> CoreDivision {
        let threads = OfStages { sampling, gathering, training };
        CoreDivision { threads, batch_ms: 1.0, usual: threads, usual_ms: 1.0, shared }
    }

    #[test]
    fn each_stage_has_cores_of_its_own_and_training_has_what_is_left() {
        let allowed = [0, 1, 2, 3, 8, 9];
        let sets = cores_of_stages(&division(1, 2, 2, false), 6, &allowed);
        assert_eq!(
            sets,
            Some(OfStages { sampling: vec![0], gathering: vec![1, 2], training: vec![3, 8, 9] })
        );
    }

    #[test]
    fn stages_that_share_all_cores_or_have_a_quota_are_not_pinned() {
        let allowed = [0, 1, 2, 3];
        assert_eq!(cores_of_stages(&division(1, 1, 2, true), 4, &allowed), None);
        // A quota of three cores on a machine with four.
        assert_eq!(cores_of_stages(&division(1, 1, 1, false), 3, &allowed), None);
    }
}
