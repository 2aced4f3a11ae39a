//! Turns the resources that a launcher passed to this process into the connections of its stages.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use uva_mem::PidFd;
use uva_mem::handover::Channel;

use super::messages::Setup;
use uva_runtime::RuntimeError;
use uva_runtime::control::Control;
use uva_runtime::pipeline::wiring::{Connections, Note, missing};
use uva_runtime::plan::topology::Resource;
use uva_runtime::plan::{RingName, RunPlan};
use uva_runtime::sampler::cache;

/// Opens the resources of a set-up: the descriptors that it names, in its order.
///
/// # Errors
/// [`RuntimeError::Failed`] with the resource that is missing or cannot be opened; [`RuntimeError::Input`] for a
/// changed dataset.
pub(crate) fn open(setup: &Setup, fds: Vec<OwnedFd>, note: Note) -> Result<Connections, RuntimeError> {
    // The launcher has verified the dataset; its roles only map it.
    let dataset = Arc::new(setup.loader.open_again(&setup.dataset)?);
    let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
    let mut loader = setup.loader.clone();
    // Opened before the plan, which contains the options.
    for (handed, fd) in setup.handed.iter().zip(&mut fds) {
        if let (Resource::SeedSequences, Some(made)) = (handed.what, &mut loader.made_order) {
            fd.take().map_or(Ok(()), |fd| made.take(fd))?;
        }
    }
    let plan = RunPlan::new(&dataset, &loader, setup.passes)?;
    let plan = Arc::new(plan.on(setup.backend.clone()).with_caches(setup.caches.clone()));
    let (mut control, mut batches, mut features) = (None, None, None);
    let (mut processes, mut slot_channel, mut reordered, mut cached_rows) = (Vec::new(), None, None, None);
    for (handed, fd) in setup.handed.iter().zip(fds) {
        let Some(fd) = fd else { continue };
        let what = handed.what;
        let cannot = |error: &dyn std::fmt::Display| RuntimeError::failed(format!("{what}: {error}"));
        match what {
            Resource::ControlPage => control = Some(Control::open(fd, &plan.options)?),
            Resource::Ring(name @ RingName::Batch) => batches = Some(plan.open_ring(name, fd)?),
            Resource::Ring(name @ RingName::Feature) => features = Some(plan.open_ring(name, fd)?),
            Resource::Process(stage) => {
                let pidfd = PidFd::from_fd(fd, handed.pid.unwrap_or(0)).map_err(|error| cannot(&error))?;
                processes.push((stage, Arc::new(pidfd)));
            }
            Resource::FeatureSlotChannel => {
                slot_channel = Some(Channel::from_fd(fd).map_err(|error| cannot(&error))?);
            }
            Resource::ReorderedGraph => reordered = Some(Arc::new(cache::open_graph(fd, &dataset)?)),
            // A shuffle has no sequences to follow.
            Resource::SeedSequences => {}
            Resource::CachedRows => cached_rows = Some(Arc::new(cache::open_rows(fd, &plan.caches)?)),
        }
    }
    let control = Arc::new(control.ok_or_else(|| missing(Resource::ControlPage))?);
    Ok(Connections {
        dataset,
        plan,
        control,
        batches,
        features,
        processes,
        slot_channel,
        reordered,
        cached_rows,
        joined_rows: None,
        ranks: None,
        other_ranks: Vec::new(),
        note,
    })
}
