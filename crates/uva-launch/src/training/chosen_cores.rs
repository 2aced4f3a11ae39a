//! The threads of a run's stages as a trial has found them.

use serde::Serialize;
use uva_plan::{CoreDivision, OfStages, StageLine, TimedThreads};

/// Threads of the stages, as a trial found them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChosenCores {
    /// CPU cores that the run may use.
    pub cores: usize,
    /// The threads, and what is predicted for them.
    #[serde(flatten)]
    pub division: CoreDivision,
    /// The line through each stage's points.
    pub lines: OfStages<StageLine>,
    /// The timed points.
    pub timed: OfStages<Vec<TimedThreads>>,
}

impl ChosenCores {
    /// For people: what was timed, and what follows from it.
    #[must_use]
    pub fn line(&self) -> String {
        let CoreDivision { threads, batch_ms, usual, usual_ms, shared } = self.division;
        let alone = self.lines.map(|line| line.at(1));
        let options = |threads: OfStages<usize>| {
            let OfStages { sampling, gathering, training } = threads;
            format!("--samplers {sampling} --gather-threads {gathering} --train-threads {training}")
        };
        let chosen = match threads == usual {
            true if self.cores < 3 => "the usual ones: fewer than three cores are not divided".to_owned(),
            true => "the usual ones, since no others are predicted to save 5 %".to_owned(),
            false => format!("{usual_ms:.2} ms with {}", options(usual)),
        };
        let how = if shared { "share" } else { "divide" };
        format!(
            "--cores auto: on one core, a batch takes {:.2} ms to sample, {:.2} to gather, {:.2} to train. The stages {how} \
             {} cores as {}: {batch_ms:.2} ms a batch predicted ({chosen})",
            alone.sampling,
            alone.gathering,
            alone.training,
            self.cores,
            options(threads)
        )
    }
}
