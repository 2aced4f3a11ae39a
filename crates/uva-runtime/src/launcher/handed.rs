//! What a role's process finds in its hands when it begins: descriptors from the launcher, and its GPU.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use uva_cuda::Context;
use uva_graph::{Dataset, Verify};
use uva_mem::handover::Channel;
use uva_mem::{FrozenBytes, PidFd};

use super::messages::{Role, Setup};
use crate::backend::{CudaBackend, Partition};
use crate::control::Control;
use crate::peer::Peer;
use crate::plan::RunPlan;
use crate::{RuntimeError, cache};

/// What every role begins with.
pub(super) struct Place {
    pub dataset: Arc<Dataset>,
    pub plan: Arc<RunPlan>,
    pub control: Arc<Control>,
    /// The rest of what was handed over, which depends on the role.
    pub handed: Handed,
}

impl Place {
    /// Makes of a set-up, and the descriptors that came with it, what every role makes of it for itself.
    pub fn of_setup(setup: Setup, fds: Vec<OwnedFd>) -> Result<Self, RuntimeError> {
        let mut handed = Handed { fds: fds.into_iter(), peers: setup.peers.into_iter() };
        // The launcher has verified the dataset; its roles only map it.
        let dataset = Arc::new(Dataset::open_verified(&setup.dataset, Verify::HeadersOnly)?);
        let plan = RunPlan::new(&dataset, &setup.loader, setup.passes)?;
        let plan = Arc::new(plan.on(setup.backend).with_caches(setup.caches));
        let control = Arc::new(Control::open(handed.next("control page")?, plan.options.samplers)?);
        Ok(Self { dataset, plan, control, handed })
    }
}

/// The context of this process's GPU, which has to be the part of it that the plan says.
pub(super) fn open_device(cuda: &CudaBackend, role: Role) -> Result<Arc<Context>, RuntimeError> {
    let context = Context::primary(cuda.ordinal)?;
    let Partition::Mps { producer_multiprocessors, consumer_multiprocessors, sampler, .. } = cuda.partition
    else {
        return Ok(context);
    };
    let expected = match role {
        Role::Producer => producer_multiprocessors,
        Role::Sampler => sampler.map_or(producer_multiprocessors, |share| share.multiprocessors),
        Role::Consumer | Role::Planner | Role::Janitor => consumer_multiprocessors,
    };
    let device = context.device();
    // CUDA goes on without MPS, and without a word, when it cannot reach the daemon.
    if !device.mps_enabled() {
        return Err(RuntimeError::Missing(
            "MPS was to divide the GPU, but the driver did not connect to its daemon; `uvatrain mps status` tells \
             more, and --partition green or grid does without"
                .into(),
        ));
    }
    if device.multiprocessors() != expected {
        return Err(RuntimeError::Failed(format!(
            "MPS gave this process {} multiprocessors instead of {expected}",
            device.multiprocessors()
        )));
    }
    Ok(context)
}

/// The descriptors that came with the set-up, in the order that `messages` lists.
pub(super) struct Handed {
    fds: std::vec::IntoIter<OwnedFd>,
    peers: std::vec::IntoIter<u32>,
}

impl Handed {
    pub fn next(&mut self, what: &str) -> Result<OwnedFd, RuntimeError> {
        self.fds.next().ok_or_else(|| RuntimeError::Failed(format!("the launcher handed over no {what}")))
    }

    pub fn samplers(&mut self, samplers: usize) -> Result<Vec<Peer>, RuntimeError> {
        let name = |index| if samplers > 1 { format!("sampler {index}") } else { "sampler".to_owned() };
        (0..samplers).map(|index| self.peer(&name(index))).collect()
    }

    /// The graph in the order of the list cache, where the plan has one.
    pub fn reordered_graph(
        &mut self,
        dataset: &Dataset,
        plan: &RunPlan,
    ) -> Result<Option<Arc<FrozenBytes>>, RuntimeError> {
        if !plan.caches.reordered {
            return Ok(None);
        }
        cache::open_graph(self.next("reordered graph")?, dataset).map(|graph| Some(Arc::new(graph)))
    }

    /// The ids of the rows that the feature cache holds, where it holds the same ones throughout.
    pub fn cached_rows(&mut self, plan: &RunPlan) -> Result<Option<FrozenBytes>, RuntimeError> {
        if !plan.caches.holds_chosen_rows() {
            return Ok(None);
        }
        cache::open_rows(self.next("cached rows' ids")?, &plan.caches).map(Some)
    }

    /// The channel between producer and consumer.
    pub fn link(&mut self) -> Result<Channel, RuntimeError> {
        let fd = self.next("channel between producer and consumer")?;
        Channel::from_fd(fd).map_err(|error| RuntimeError::Failed(error.to_string()))
    }

    pub fn peer(&mut self, name: &str) -> Result<Peer, RuntimeError> {
        let pidfd =
            PidFd::from_fd(self.next(&format!("pidfd of the {name}"))?, self.peers.next().unwrap_or(0))
                .map_err(|error| RuntimeError::Failed(format!("pidfd of the {name}: {error}")))?;
        Ok(Peer::Process { name: name.to_owned(), pidfd })
    }
}
