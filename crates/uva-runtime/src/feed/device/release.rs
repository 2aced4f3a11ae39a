//! The end of waits for stamps whose writer's process has died.
//!
//! The driver does not end such a wait, and a process that is killed while its stream waits may take an MPS server with
//! it. The words are in memory that the survivor has too, so the survivor writes them. The survivor's stream then
//! computes on an unfinished batch, as after any death of a peer: the report's stamp shows this (`Receipt::confirm`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use uva_cuda::memory::{SharedBuffer, SharedKind};
use uva_cuda::{CudaError, StampSignal};
use uva_mem::PidFd;

use super::slots::StampWords;
use crate::RuntimeError;
use crate::control::peer::Peer;
use crate::plan::topology::Role;

/// Interval at which the watch checks that the slots are still in use.
const LOOK: Duration = Duration::from_millis(200);

/// A value above any stamp of a batch. The driver compares signed numbers.
const BEHIND_ALL: u64 = i64::MAX as u64;

/// Watches the other side's process, and ends the waits for its words if it dies while `in_use` is held elsewhere.
/// `role` is this side's.
///
/// In a process that opened the memory by handle the watch does nothing, since the memory must not be touched after its
/// maker's death. The launcher then ends this process after a while.
pub(super) fn end_waits_for(
    peer: &Peer,
    role: Role,
    (buffer, words): (&Arc<SharedBuffer>, StampWords),
    in_use: &Arc<()>,
) -> Result<(), RuntimeError> {
    let Peer::Process { pidfd, .. } = peer else { return Ok(()) };
    if role == Role::Consumer && buffer.kind() == SharedKind::Legacy {
        return Ok(());
    }
    let watch = Watch {
        pidfd: Arc::clone(pidfd),
        buffer: Arc::downgrade(buffer),
        in_use: Arc::downgrade(in_use),
        theirs: words
            .slots()
            .map(|slot| match role {
                Role::Producer => words.free(slot),
                _ => words.ready(slot),
            })
            .collect(),
    };
    std::thread::Builder::new()
        .name("stamps".to_owned())
        .spawn(move || watch.run())
        .map(drop)
        .map_err(|error| RuntimeError::failed(format!("the watch over the slots' stamps: {error}")))
}

struct Watch {
    pidfd: Arc<PidFd>,
    buffer: Weak<SharedBuffer>,
    in_use: Weak<()>,
    /// The words that the other side writes.
    theirs: Vec<usize>,
}

impl Watch {
    fn run(&self) {
        // A pidfd that cannot be polled does not prove that the process has ended.
        while !self.pidfd.wait_for_end(LOOK).unwrap_or(false) {
            if self.in_use.strong_count() == 0 {
                return;
            }
        }
        if let Err(error) = self.end_waits() {
            tracing::warn!("cannot end waits for a process that has exited: {error}");
        }
    }

    fn end_waits(&self) -> Result<(), CudaError> {
        // At its own end this process must not call the driver from here.
        let (Some(buffer), Some(_in_use)) = (self.buffer.upgrade(), self.in_use.upgrade()) else {
            return Ok(());
        };
        self.theirs.iter().try_for_each(|at| StampSignal::new(&buffer, *at, BEHIND_ALL)?.write_now())
    }
}
