//! The place of a model's training: a separate program, which links libtorch, or this process.

use std::path::PathBuf;

use super::job::{Job, to_value};
use crate::launcher::{Consume, Consumer, without_mps};
use uva_runtime::RuntimeError;
use uva_runtime::backend::Probe;

/// The program that runs as the consumer. The other processes of a run do not load libtorch.
#[derive(Clone, Debug)]
pub struct TrainerProgram {
    /// Its file.
    pub path: PathBuf,
    /// Environment variables that its loader needs to find libtorch.
    pub environment: Vec<(String, String)>,
    /// The variable with libtorch's directory for other roles, which search for NVRTC there.
    pub libtorch: Option<(String, Option<String>)>,
}

/// The place of a model's training.
#[derive(Clone, Debug)]
pub enum TrainingHost {
    /// In a process of that program.
    Program(TrainerProgram),
    /// In this process, which links libtorch, with all roles as threads; the function consumes the batches.
    Here(Consume),
}

impl TrainerProgram {
    /// The consumer of a run: the program with this job.
    pub(super) fn consumer(&self, job: &Job) -> Result<Consumer, RuntimeError> {
        Ok(Consumer::Program { program: self.path.clone(), job: to_value(job)? })
    }

    /// The variables, for a child's environment.
    pub fn variables(&self) -> impl Iterator<Item = (String, Option<String>)> + '_ {
        self.environment.iter().map(|(name, value)| (name.clone(), Some(value.clone())))
    }

    /// Adds libtorch's report to the driver's, if there is a GPU for it.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if the program cannot be started, does not end, or reports nothing.
    pub fn probe(&self, driver: Probe) -> Result<Probe, RuntimeError> {
        if !driver.is_for_torch() {
            return Ok(driver);
        }
        let mut environment = without_mps();
        environment.extend(self.variables());
        let torch = Probe::by(&self.path, &environment, false)?.torch;
        Ok(Probe { torch, ..driver })
    }
}

impl TrainingHost {
    /// Whether the roles are threads of this process.
    pub(super) fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// The report of CUDA and libtorch about this machine. Only a probe process loads them.
    pub(super) fn probe(&self) -> Result<Probe, RuntimeError> {
        match self {
            Self::Program(program) => program.probe(Probe::in_child(&without_mps(), true)?),
            // This program is its own probe, and links libtorch.
            Self::Here(_) => Probe::in_child(&without_mps(), false),
        }
    }
}
