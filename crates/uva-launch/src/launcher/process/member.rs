//! One process of a run, and its stages.

use super::child::ChildProcess;
use uva_runtime::control::{Control, FIRST_SAMPLER};
use uva_runtime::plan::topology::{Role, RunStage};

/// One process of a run.
pub(crate) struct Member {
    /// The stage that names the process, which is the last of its stages.
    pub stage: RunStage,
    /// The rank whose batches it prepares; 0 in a run without ranks, and for the consumer. `None` for all ranks.
    pub rank: Option<usize>,
    /// The end of its name in messages: its rank, in a run with ranks.
    pub of_rank: String,
    pub process: ChildProcess,
    /// Its name in messages, if that is not its stage's.
    pub title: Option<String>,
    /// Whether it has reported its failure, so that its exit code adds no information.
    pub said_why: bool,
    /// Whether it works on a GPU.
    pub is_on_gpu: bool,
}

impl Member {
    /// The rank whose control page has its counters, for messages. A process that serves all ranks counts on the page
    /// of each.
    pub fn counted_by(&self) -> usize {
        self.rank.unwrap_or(0)
    }

    /// Its name in messages.
    pub fn name(&self, samplers: usize) -> String {
        match (&self.title, self.stage.role) {
            (Some(title), _) => title.clone(),
            (None, Role::Worker) if samplers > 1 => format!("process of the workers{}", self.of_rank),
            (None, _) => self.stage.title(samplers) + &self.of_rank,
        }
    }

    /// Its name among the processes of a run.
    pub fn process_name(&self) -> String {
        match self.stage.role {
            Role::Worker => "workers".to_owned(),
            _ => self.stage.to_string(),
        }
    }

    /// The index, on the control page, of the counters with its current batch. Of several workers it is the slowest
    /// one, whose batch the consumer waits for.
    pub fn counters(&self, control: &Control, samplers: usize) -> usize {
        match self.stage.role {
            Role::Worker => {
                let workers = (0..samplers).map(|index| RunStage::worker(index).counters());
                workers.min_by_key(|counters| control.position(*counters)).unwrap_or(FIRST_SAMPLER)
            }
            _ => self.stage.counters(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.pidfd.pid()
    }
}
