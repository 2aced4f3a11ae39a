//! One process of a run, and its stages.

use super::child::ChildProcess;
use uva_runtime::topology::Stage;

/// One process of a run.
pub(crate) struct Member {
    /// The stage that names it: the last of its stages.
    pub stage: Stage,
    pub process: ChildProcess,
    /// Its name in messages, where that is not its stage's.
    pub title: Option<String>,
    /// It has reported its failure, so its exit code adds nothing.
    pub said_why: bool,
    /// It works on a GPU.
    pub is_on_gpu: bool,
}

impl Member {
    /// Its name in messages.
    pub fn name(&self, samplers: usize) -> String {
        self.title.clone().unwrap_or_else(|| self.stage.title(samplers))
    }

    pub fn pid(&self) -> u32 {
        self.process.pidfd.pid()
    }
}
