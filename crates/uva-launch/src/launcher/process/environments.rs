//! The environment of each role's process: its variables, including MPS shares, and its CPU cores.

use uva_plan::OfStages;
use uva_runtime::backend::{Backend, Partition};
use uva_runtime::plan::topology::Role;

use crate::mps;

/// Environment variables by role, where `None` removes a variable, and CPU cores.
#[derive(Clone, Debug, Default)]
pub struct Environments {
    /// Variables of the consumer.
    pub consumer: Vec<(String, Option<String>)>,
    /// Variables of the producer.
    pub producer: Vec<(String, Option<String>)>,
    /// Variables of the samplers.
    pub sampler: Vec<(String, Option<String>)>,
    /// The CPU cores of each stage's processes; `None` if all stages share the launcher's.
    pub cores: Option<OfStages<Vec<usize>>>,
}

impl Environments {
    pub(crate) fn of(&self, role: Role) -> &[(String, Option<String>)] {
        match role {
            Role::Consumer => &self.consumer,
            Role::Producer => &self.producer,
            // These work on the CPU, or on a separate GPU, which MPS does not divide.
            Role::Sampler | Role::Worker => &self.sampler,
        }
    }

    /// The CPU cores of this role's processes; `None` for the launcher's.
    pub(crate) fn cores_of(&self, role: Role) -> Option<&[usize]> {
        let cores = self.cores.as_ref()?;
        Some(match role {
            Role::Consumer => &cores.training,
            Role::Producer => &cores.gathering,
            Role::Sampler | Role::Worker => &cores.sampling,
        })
    }

    /// Adds the variables that put the GPU's roles under MPS, or keep them away from it.
    pub(crate) fn divided(mut self, session: Option<&mps::MpsSession>, backend: &Backend) -> Self {
        let Some(cuda) = backend.cuda() else { return self };
        match (session, cuda.partition) {
            (Some(session), Partition::Mps { producer_percentage, consumer_percentage, sampler, .. }) => {
                // A sampler on the GPU is a thread of the producer's process.
                let both = producer_percentage + sampler.map_or(0, |share| share.percentage);
                self.producer.extend(client(session, both));
                self.consumer.extend(client(session, consumer_percentage));
                self.sampler.extend(without_mps());
            }
            _ => {
                self.producer.extend(without_mps());
                self.consumer.extend(without_mps());
                self.sampler.extend(without_mps());
            }
        }
        self
    }
}

/// The variables that make a process a client of MPS with this share.
pub(crate) fn client(session: &mps::MpsSession, percentage: u32) -> Vec<(String, Option<String>)> {
    let set = session.client_environment(percentage).into_iter().map(|(name, value)| (name, Some(value)));
    let unset = mps::UNSET_IN_CLIENTS.into_iter().map(|name| (name.to_owned(), None));
    set.chain(unset).collect()
}

/// The variables that keep a process away from MPS.
pub(crate) fn without_mps() -> Vec<(String, Option<String>)> {
    mps::environment_without().into_iter().map(|(name, value)| (name, Some(value))).collect()
}
