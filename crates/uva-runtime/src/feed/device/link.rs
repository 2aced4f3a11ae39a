//! The sharing of slots and signals between producer and consumer, by a dialogue over a channel between them at the
//! start.
//!
//! | producer | consumer |
//! |---|---|
//! | `memory`: how to open the slots | `opened`; or `refused`, and the producer offers the next way |
//! | `events`: the handles of `ready` | `events`: the handles of `free`; or `stamps` |
//! | `opened`, for events; or `stamps` | |
//!
//! On either side a call may fail, which shows that a way does not work. That side notes it, and the next way is tried.
//! If the way was requested by name, the side fails instead, and the other side's channel closes. `stamps` instead of
//! `events`, by either side, ends the dialogue about signals.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uva_cuda::memory::{Exported, IpcKind, SharedBuffer, SharedKind, SharedMetadata};
use uva_cuda::{Context, CudaError, CudaEvent, StampSignal, clear_stamps};
use uva_mem::handover::{Channel, HandoverError, ReceivedMessage};
use uva_mem::ring::Liveness;

use super::consumer::DeviceSlots;
use super::errors::of_kind;
use super::producer::DeviceSetup;
use super::release::end_waits_for;
use super::slots::{SlotSignals, StampWords, slot_shape};
use crate::RuntimeError;
use crate::backend::{CudaBackend, SignalKind};
use crate::control::peer::Peer;
use crate::control::{Control, Stop};
use crate::feed::rows::RowTree;
use crate::plan::RunPlan;
use crate::plan::topology::Role;
use crate::sampler::lane::Lane;
use uva_options::ByteSize;

/// Interval at which a side that waits for the other's message checks whether the other still exists.
const ASK: Duration = Duration::from_millis(100);

/// The name of an event for another process: 64 bytes, for which serde supports no array.
type Handle = Vec<u8>;

/// A message between the sides.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// The slots' memory. The message carries its descriptor, if it has one.
    Memory(SharedMetadata),
    /// The last offer is open.
    Opened,
    /// The last offer cannot be opened.
    Refused,
    /// Handles of the events that this side records, slot by slot.
    Events(Vec<Handle>),
    /// Stamps are used instead of events.
    Stamps,
}

/// One side's end of the dialogue.
pub(crate) struct SlotLink<'l> {
    pub role: Role,
    pub channel: &'l Channel,
    pub peer: &'l Peer,
    pub control: &'l Control,
    /// Receives lines for people.
    pub note: &'l dyn Fn(&str),
}

/// Slots and signals for a producer that shares them with another process.
pub(crate) fn producer_side(
    lane: Lane,
    cuda: &CudaBackend,
    plan: &RunPlan,
    link: &SlotLink<'_>,
) -> Result<DeviceSetup, RuntimeError> {
    let context = lane.context();
    let buffer = offer_memory(context, cuda, plan, link)?;
    let signals = match offer_events(context, cuda, plan, link)? {
        Some(events) => events,
        None => stamps(context, cuda, plan, &buffer, link)?,
    };
    Ok(DeviceSetup { lane, cuda: cuda.clone(), slots: (buffer, signals), batches: None, joined_rows: None })
}

/// Slots and signals for a consumer whose producer is another process.
pub(crate) fn consumer_side(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
    link: &SlotLink<'_>,
) -> Result<DeviceSlots, RuntimeError> {
    let buffer = Arc::new(open_memory(context, cuda, plan, link)?);
    let signals = match open_events(context, cuda, plan, link)? {
        Some(events) => events,
        None => stamps(context, cuda, plan, &buffer, link)?,
    };
    DeviceSlots::new(context, plan, buffer, signals)
}

/// Slots and signals for a producer and a consumer that are threads of one process: the ends of both sides.
pub(crate) fn one_process(
    lane: Lane,
    cuda: &CudaBackend,
    plan: &RunPlan,
) -> Result<(DeviceSetup, DeviceSlots), RuntimeError> {
    let context = lane.context();
    let buffer = make_slots(context, plan, cuda.ipc)?;
    clear(&buffer, plan)?;
    let buffer = Arc::new(buffer);
    let signals = if cuda.ipc_signals == SignalKind::Stamps {
        let words = StampWords::new(plan);
        StampSignal::check(context, &buffer, words.ready(0))?;
        SlotSignals::Stamps { buffer: Arc::clone(&buffer), words, in_use: Arc::default() }
    } else {
        let made_in = |context: &Arc<Context>| -> Result<Vec<Arc<CudaEvent>>, RuntimeError> {
            (0..plan.options.feature_slots).map(|_| Ok(Arc::new(CudaEvent::local(context)?))).collect()
        };
        // The consumer's streams do not belong to a green context.
        SlotSignals::Events { ready: made_in(lane.events_in())?, free: made_in(context)? }
    };
    let slots = DeviceSlots::new(context, plan, Arc::clone(&buffer), signals.clone())?;
    Ok((
        DeviceSetup { lane, cuda: cuda.clone(), slots: (buffer, signals), batches: None, joined_rows: None },
        slots,
    ))
}

/// Makes the slots' memory, of this kind.
fn make_slots(context: &Arc<Context>, plan: &RunPlan, kind: IpcKind) -> Result<SharedBuffer, CudaError> {
    let (bytes, what) = (buffer_bytes(plan), what(plan));
    match RowTree::of(plan).any(&|tree| *tree == RowTree::Direct) {
        true => SharedBuffer::create_for_storage(context, bytes, kind, &what),
        false => SharedBuffer::create(context, bytes, kind, &what),
    }
}

/// Bytes of the slots and of the words after them.
fn buffer_bytes(plan: &RunPlan) -> usize {
    StampWords::new(plan).range().end
}

fn what(plan: &RunPlan) -> String {
    format!(
        "{} feature slots of {} (`slots`, `batch_size`, `fanouts`, `gpu_slots` and `slot_bytes` decide their size)",
        plan.options.feature_slots,
        ByteSize::from_bytes(plan.slot_room().bytes as u64)
    )
}

/// Clears the memory: stale memory must not look like a fill or a signal.
fn clear(buffer: &SharedBuffer, plan: &RunPlan) -> Result<(), RuntimeError> {
    slot_shape(plan).clear_reports(buffer)?;
    Ok(clear_stamps(buffer, StampWords::new(plan).range())?)
}

/// Makes the slots' memory, in the first way that both sides can use.
fn offer_memory(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
    link: &SlotLink<'_>,
) -> Result<Arc<SharedBuffer>, RuntimeError> {
    let make = |kind| -> Result<(SharedBuffer, Exported), CudaError> {
        let buffer = make_slots(context, plan, kind)?;
        let exported = buffer.export()?;
        Ok((buffer, exported))
    };
    let offer = |(buffer, exported): (SharedBuffer, Exported)| {
        clear(&buffer, plan)?;
        let fds: Vec<_> = exported.fd.iter().map(AsFd::as_fd).collect();
        link.tell(&Message::Memory(exported.metadata), &fds)?;
        match link.hear()?.0 {
            Message::Opened => Ok(Some(outlives_the_peer(buffer))),
            Message::Refused => Ok(None),
            other => Err(unexpected(&other)),
        }
    };
    if cuda.ipc != IpcKind::Legacy {
        match make(IpcKind::Vmm) {
            Ok(made) => {
                // The consumer reports the reason of its refusal.
                if let Some(buffer) = offer(made)? {
                    return Ok(buffer);
                }
            }
            Err(error) if cuda.ipc == IpcKind::Auto && error.leaves_another_way() => {
                link.note_legacy("share", &error);
            }
            Err(error) => return Err(forced("ipc", "vmm", cuda.ipc == IpcKind::Vmm, error)),
        }
    }
    let made =
        make(IpcKind::Legacy).map_err(|error| forced("ipc", "legacy", cuda.ipc == IpcKind::Legacy, error))?;
    offer(made)?.ok_or_else(|| unexpected(&Message::Refused))
}

/// Opens the slots' memory.
fn open_memory(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
    link: &SlotLink<'_>,
) -> Result<SharedBuffer, RuntimeError> {
    loop {
        let (message, mut received) = link.hear()?;
        let Message::Memory(metadata) = message else { return Err(unexpected(&message)) };
        let needed = buffer_bytes(plan) as u64;
        if metadata.bytes < needed {
            return Err(RuntimeError::failed(format!(
                "the producer shares {} bytes of feature slots, but {needed} are required",
                metadata.bytes
            )));
        }
        let kind = metadata.kind;
        match SharedBuffer::import(context, Exported { metadata, fd: received.fds.pop() }, "feature slots") {
            Ok(buffer) => {
                link.tell(&Message::Opened, &[])?;
                return Ok(buffer);
            }
            Err(error)
                if kind == SharedKind::Vmm && cuda.ipc == IpcKind::Auto && error.leaves_another_way() =>
            {
                link.note_legacy("open", &error);
                link.tell(&Message::Refused, &[])?;
            }
            Err(error) => return Err(forced("ipc", kind.name(), cuda.ipc != IpcKind::Auto, error)),
        }
    }
}

/// The producer's part of the dialogue about signals. `None` means stamps, which both sides then use.
fn offer_events(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
    link: &SlotLink<'_>,
) -> Result<Option<SlotSignals>, RuntimeError> {
    if cuda.ipc_signals != SignalKind::Stamps {
        match own_events(context, plan) {
            Ok((ready, handles)) => {
                link.tell(&Message::Events(handles), &[])?;
                let theirs = match link.hear()?.0 {
                    Message::Events(handles) => handles_of(plan, handles)?,
                    Message::Stamps => return Ok(None),
                    other => return Err(unexpected(&other)),
                };
                match peer_events(context, &theirs) {
                    Ok(free) => {
                        link.tell(&Message::Opened, &[])?;
                        return Ok(Some(SlotSignals::Events { ready, free }));
                    }
                    Err(error) => link.falls_back_to_stamps(cuda, "open", error)?,
                }
            }
            Err(error) => link.falls_back_to_stamps(cuda, "share", error)?,
        }
    }
    link.tell(&Message::Stamps, &[])?;
    Ok(None)
}

/// The consumer's part of the dialogue about signals. `None` means stamps, which both sides then use.
fn open_events(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
    link: &SlotLink<'_>,
) -> Result<Option<SlotSignals>, RuntimeError> {
    let theirs = match link.hear()?.0 {
        Message::Events(handles) => handles_of(plan, handles)?,
        Message::Stamps => return Ok(None),
        other => return Err(unexpected(&other)),
    };
    let opened = peer_events(context, &theirs).map_err(|error| ("open", error));
    let both = opened.and_then(|ready| match own_events(context, plan) {
        Ok((free, handles)) => Ok((ready, free, handles)),
        Err(error) => Err(("share", error)),
    });
    match both {
        Ok((ready, free, handles)) => {
            link.tell(&Message::Events(handles), &[])?;
            match link.hear()?.0 {
                Message::Opened => Ok(Some(SlotSignals::Events { ready, free })),
                Message::Stamps => Ok(None),
                other => Err(unexpected(&other)),
            }
        }
        Err((what, error)) => {
            link.falls_back_to_stamps(cuda, what, error)?;
            link.tell(&Message::Stamps, &[])?;
            Ok(None)
        }
    }
}

/// Signals by words after the slots, once this side has verified that its streams can write and await them.
fn stamps(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
    buffer: &Arc<SharedBuffer>,
    link: &SlotLink<'_>,
) -> Result<SlotSignals, RuntimeError> {
    let words = StampWords::new(plan);
    // Each side tries a word that only it writes.
    let own = if link.role == Role::Producer { words.ready(0) } else { words.free(0) };
    StampSignal::check(context, buffer, own)
        .map_err(|error| forced("ipc-signals", "stamps", cuda.ipc_signals == SignalKind::Stamps, error))?;
    let in_use = Arc::default();
    end_waits_for(link.peer, link.role, (buffer, words), &in_use)?;
    Ok(SlotSignals::Stamps { buffer: Arc::clone(buffer), words, in_use })
}

/// Events that this side records, and their handles for the other.
fn own_events(
    context: &Arc<Context>,
    plan: &RunPlan,
) -> Result<(Vec<Arc<CudaEvent>>, Vec<Handle>), CudaError> {
    let mut handles = Vec::new();
    let mut events = Vec::new();
    for _ in 0..plan.options.feature_slots {
        let event = CudaEvent::interprocess(context)?;
        handles.push(event.export()?.to_vec());
        events.push(outlives_the_peer(event));
    }
    Ok((events, handles))
}

/// A resource that the other process may use. It is kept until this process ends, even after a failure here. Otherwise
/// the peer would fail on the missing resource before it received the cause.
fn outlives_the_peer<T>(shared: T) -> Arc<T> {
    let shared = Arc::new(shared);
    std::mem::forget(Arc::clone(&shared));
    shared
}

fn handles_of(plan: &RunPlan, handles: Vec<Handle>) -> Result<Vec<[u8; 64]>, RuntimeError> {
    if handles.len() != plan.options.feature_slots {
        return Err(RuntimeError::failed(format!(
            "the other side shares the events of {} slots, but {} are required",
            handles.len(),
            plan.options.feature_slots
        )));
    }
    let whole = |handle: Handle| {
        handle.try_into().map_err(|handle: Handle| {
            RuntimeError::failed(format!("an event's handle has {} bytes instead of 64", handle.len()))
        })
    };
    handles.into_iter().map(whole).collect()
}

/// The other side's events. This process never destroys them: after their owner's death that would be undefined
/// behaviour, and they vanish with this process.
fn peer_events(context: &Arc<Context>, handles: &[[u8; 64]]) -> Result<Vec<Arc<CudaEvent>>, CudaError> {
    handles.iter().map(|handle| Ok(outlives_the_peer(CudaEvent::import(context, *handle)?))).collect()
}

/// The error of a way, with the option if the way was requested by name.
fn forced(option: &str, value: &str, by_name: bool, error: CudaError) -> RuntimeError {
    if !by_name {
        return error.into();
    }
    of_kind(error.kind(), format!("--{option} {value}: {error}; --{option} auto looks for a way that works"))
}

fn unexpected(message: &Message) -> RuntimeError {
    RuntimeError::failed(format!("the other side of the feature slots is out of step: {message:?}"))
}

impl SlotLink<'_> {
    fn note_legacy(&self, what: &str, error: &CudaError) {
        (self.note)(&format!(
            "the {} cannot {what} GPU memory by file descriptor: {error}; legacy handles are used instead. A newer driver \
             may mend it; `ipc=legacy` avoids the attempt",
            self.role.name()
        ));
    }

    /// Notes the reason why stamps are used instead of events.
    ///
    /// # Errors
    /// The error itself, if events were requested by name or stamps could not work either.
    fn falls_back_to_stamps(
        &self,
        cuda: &CudaBackend,
        what: &str,
        error: CudaError,
    ) -> Result<(), RuntimeError> {
        if cuda.ipc_signals == SignalKind::Events || !error.leaves_another_way() {
            return Err(forced("ipc-signals", "events", cuda.ipc_signals == SignalKind::Events, error));
        }
        (self.note)(&format!(
            "the {} cannot {what} events between processes: {error}; stamps in the shared memory are used instead. In a \
             container `docker run --ipc=host` may mend it; `ipc_signals=stamps` avoids the attempt",
            self.role.name()
        ));
        Ok(())
    }

    fn tell(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> Result<(), RuntimeError> {
        let payload = serde_json::to_vec(message).map_err(|error| RuntimeError::failed(error.to_string()))?;
        self.channel.send(&payload, fds).map_err(of_the_link)
    }

    fn hear(&self) -> Result<(Message, ReceivedMessage), RuntimeError> {
        let watched = self.peer.watched(self.control, Stop::Now);
        let began = Instant::now();
        loop {
            match self.channel.recv_within(ASK) {
                Err(HandoverError::TimedOut(_)) => {
                    watched.check().map_err(|gone| RuntimeError::peer_gone(gone.reason))?;
                    tracing::debug!(
                        "no word from the other side of the feature slots for {:?}",
                        began.elapsed()
                    );
                }
                Err(error) => return Err(of_the_link(error)),
                Ok(received) => {
                    let message = serde_json::from_slice(&received.payload).map_err(|error| {
                        RuntimeError::failed(format!("the other side's feature slots: {error}"))
                    })?;
                    return Ok((message, received));
                }
            }
        }
    }
}

fn of_the_link(error: HandoverError) -> RuntimeError {
    let message = format!("sharing the feature slots: {error}");
    match error {
        HandoverError::Closed => RuntimeError::peer_gone(message),
        _ => RuntimeError::failed(message),
    }
}
