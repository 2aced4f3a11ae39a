//! A role's lane on the GPU of its process: the streams and grids of its work, within its share of the multiprocessors.

use std::sync::Arc;

use uva_cuda::kernels::gather::GridBound;
use uva_cuda::partition::GreenPartition;
use uva_cuda::{Context, CudaError, CudaStream, ErrorKind};

use crate::RuntimeError;
use crate::backend::{CudaBackend, Partition};

/// The streams and multiprocessors of a role's work on a GPU.
#[derive(Debug)]
pub(crate) struct Lane {
    context: Arc<Context>,
    share: Share,
}

#[derive(Debug)]
enum Share {
    /// All multiprocessors of the process.
    Whole,
    /// Grids with no more blocks than this many multiprocessors hold.
    Grid(u32),
    /// Multiprocessors that other lanes do not use.
    Green(GreenPartition),
}

impl Lane {
    /// The division in force, if it differs from the backend's: grids in place of green contexts.
    pub fn in_place_of(&self, partition: Partition) -> Option<Partition> {
        match (&self.share, partition) {
            (Share::Grid(_), Partition::Green { multiprocessors, sampler, .. }) => {
                Some(Partition::Grid { multiprocessors, sampler })
            }
            _ => None,
        }
    }

    /// The context of the GPU.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// A stream for the role's work.
    pub fn stream(&self) -> Result<CudaStream, CudaError> {
        match &self.share {
            Share::Green(partition) => partition.stream(),
            Share::Whole | Share::Grid(_) => CudaStream::new(&self.context),
        }
    }

    /// The context of the events of its streams.
    pub fn events_in(&self) -> &Arc<Context> {
        match &self.share {
            Share::Green(partition) => partition.context(),
            Share::Whole | Share::Grid(_) => &self.context,
        }
    }

    /// The multiprocessors that a kernel's grid is sized for; `None` for all of the process's.
    pub fn multiprocessors(&self) -> Option<u32> {
        match &self.share {
            Share::Whole => None,
            Share::Grid(multiprocessors) => Some(*multiprocessors),
            Share::Green(partition) => Some(partition.multiprocessors()),
        }
    }

    /// The grids of its kernels.
    pub fn grid(&self) -> GridBound {
        grid(self.multiprocessors())
    }
}

/// The grid of a kernel on this many multiprocessors, or on all.
pub(crate) fn grid(multiprocessors: Option<u32>) -> GridBound {
    multiprocessors.map_or(GridBound::Device, GridBound::Multiprocessors)
}

/// Creates lanes with these numbers of multiprocessors (`None` for all of the process's), for roles of this process on
/// the GPU of `context`. All are created in one call, since the multiprocessors are split once. `who` is the process's
/// name in messages; `note` receives the line about a fallback from green contexts to bounded grids.
///
/// # Errors
/// Errors of a green context that was requested by name.
pub(crate) fn lanes(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    wanted: &[Option<u32>],
    who: &str,
    note: &dyn Fn(&str),
) -> Result<Vec<Lane>, RuntimeError> {
    let lane = |share| Lane { context: Arc::clone(context), share };
    let wanted = wanted.iter().copied();
    let Partition::Green { required, .. } = cuda.partition else {
        return Ok(wanted.map(|wanted| lane(wanted.map_or(Share::Whole, Share::Grid))).collect());
    };
    let wanted: Vec<u32> = wanted.flatten().collect();
    match green(context, &wanted) {
        Ok(partitions) => Ok(partitions.into_iter().map(|partition| lane(Share::Green(partition))).collect()),
        Err(error) if required => {
            let problem = error.to_string();
            let refused = match error.kind() {
                ErrorKind::Failed => RuntimeError::failed(problem),
                ErrorKind::Missing | ErrorKind::Usage => RuntimeError::missing(problem),
            };
            Err(refused
                .with_option("partition", "green")
                .with_remedy("`partition=grid` does not need green contexts"))
        }
        Err(error) => {
            note(&format!(
                "the {who} cannot use green contexts: {error}; `partition=grid` is used instead, which limits the grids \
                 to {wanted:?} multiprocessors. A newer driver may support them; `partition=grid` avoids the attempt"
            ));
            Ok(wanted.into_iter().map(|wanted| lane(Share::Grid(wanted))).collect())
        }
    }
}

/// The lane of a sampler with a GPU of its own, in a process named `who`.
///
/// # Errors
/// See [`lanes`].
pub(crate) fn sampler_lane(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    who: &str,
) -> Result<Lane, RuntimeError> {
    let wanted = [cuda.partition.sampler_multiprocessors()];
    let mut lanes = lanes(context, cuda, &wanted, who, &|line| tracing::warn!("{line}"))?;
    lanes.pop().ok_or_else(|| RuntimeError::failed("a sampler without a lane"))
}

/// Green partitions that were verified to work.
fn green(context: &Arc<Context>, wanted: &[u32]) -> Result<Vec<GreenPartition>, CudaError> {
    let partitions = GreenPartition::split(context, wanted)?.partitions;
    partitions.iter().try_for_each(GreenPartition::check_events)?;
    Ok(partitions)
}
