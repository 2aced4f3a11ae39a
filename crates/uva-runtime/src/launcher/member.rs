//! One process of a run, and the stages that it runs.

use super::child::ChildProcess;
use crate::topology::Stage;

/// One process of a run.
pub(crate) struct Member {
    /// The stage that it is named by: the last of its stages.
    pub stage: Stage,
    pub process: ChildProcess,
    /// How a message names it, where that is not by its stage.
    pub title: Option<String>,
    /// It has told what it failed of, so its exit code adds nothing.
    pub said_why: bool,
    /// It works on a GPU.
    pub is_on_gpu: bool,
}

impl Member {
    /// How a message names it.
    pub fn name(&self, samplers: usize) -> String {
        self.title.clone().unwrap_or_else(|| self.stage.title(samplers))
    }

    pub fn pid(&self) -> u32 {
        self.process.pidfd.pid()
    }
}
