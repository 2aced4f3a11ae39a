//! How producer and consumer share slots and events: over a channel between them, once, at the start.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uva_cuda::memory::{Exported, SharedBuffer, SharedMetadata};
use uva_cuda::{Context, Event};
use uva_mem::handover::{Channel, HandoverError, Received};
use uva_mem::ring::Liveness;

use super::consumer::DeviceSlots;
use super::producer::DeviceSetup;
use super::slots::{SlotEvents, slot_shape};
use crate::RuntimeError;
use crate::backend::CudaBackend;
use crate::control::{Control, Stop};
use crate::peer::Peer;
use crate::plan::RunPlan;

/// How often a side that waits for the other's message checks that the other is still there.
const ASK: Duration = Duration::from_millis(100);

/// The producer's message to the consumer. The buffer's descriptor, if it has one, comes with it.
#[derive(Serialize, Deserialize)]
struct FromProducer {
    buffer: SharedMetadata,
    /// Handles of the `ready` events, slot by slot.
    ready: Vec<Handle>,
}

/// The consumer's message to the producer.
#[derive(Serialize, Deserialize)]
struct FromConsumer {
    /// Handles of the `free` events, slot by slot.
    free: Vec<Handle>,
}

/// Slots and events for a producer that shares them with another process.
pub(crate) fn producer_side(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
    control: &Control,
    (channel, consumer): (&Channel, &Peer),
) -> Result<DeviceSetup, RuntimeError> {
    let buffer = Arc::new(create(context, cuda, plan)?);
    outlive_the_peer(&buffer);
    let (ready, handles) = own_events(context, plan)?;
    let exported = buffer.export()?;
    let fds: Vec<_> = exported.fd.iter().map(AsFd::as_fd).collect();
    tell(channel, &FromProducer { buffer: exported.metadata, ready: handles }, &fds)?;
    let told = hear(channel, consumer, control)?;
    let message: FromConsumer = parse(&told)?;
    let free = peer_events(context, plan, message.free)?;
    let (context, cuda) = (Arc::clone(context), cuda.clone());
    Ok(DeviceSetup { context, cuda, slots: (buffer, SlotEvents { ready, free }), batches: None })
}

/// Slots and events for a consumer whose producer is another process.
pub(crate) fn consumer_side(
    context: &Arc<Context>,
    plan: &RunPlan,
    control: &Control,
    (channel, producer): (&Channel, &Peer),
) -> Result<DeviceSlots, RuntimeError> {
    let (free, handles) = own_events(context, plan)?;
    tell(channel, &FromConsumer { free: handles }, &[])?;
    let mut told = hear(channel, producer, control)?;
    let message: FromProducer = parse(&told)?;
    let needed = plan.device_bytes() as u64;
    if message.buffer.bytes < needed {
        return Err(RuntimeError::Failed(format!(
            "the producer shares {} bytes of feature slots where {needed} are needed",
            message.buffer.bytes
        )));
    }
    let exported = Exported { metadata: message.buffer, fd: told.fds.pop() };
    let buffer = SharedBuffer::import(context, exported, "feature slots")?;
    let ready = peer_events(context, plan, message.ready)?;
    DeviceSlots::new(context, plan, Arc::new(buffer), SlotEvents { ready, free })
}

/// Slots and events for a producer and a consumer that are threads of one process: the ends of both sides.
pub(crate) fn one_process(
    context: &Arc<Context>,
    cuda: &CudaBackend,
    plan: &RunPlan,
) -> Result<(DeviceSetup, DeviceSlots), RuntimeError> {
    let buffer = Arc::new(create(context, cuda, plan)?);
    let local = || -> Result<Vec<Arc<Event>>, RuntimeError> {
        (0..plan.options.feature_slots).map(|_| Ok(Arc::new(Event::local(context)?))).collect()
    };
    let events = SlotEvents { ready: local()?, free: local()? };
    let slots = DeviceSlots::new(context, plan, Arc::clone(&buffer), events.clone())?;
    let (context, cuda) = (Arc::clone(context), cuda.clone());
    Ok((DeviceSetup { context, cuda, slots: (buffer, events), batches: None }, slots))
}

fn create(context: &Arc<Context>, cuda: &CudaBackend, plan: &RunPlan) -> Result<SharedBuffer, RuntimeError> {
    let what = format!(
        "{} feature slots of {} bytes (--slots, --batch-size, --fanouts and --slot-bytes decide their size)",
        plan.options.feature_slots,
        plan.layout.device_slot_bytes()
    );
    let buffer = SharedBuffer::create(context, plan.device_bytes(), cuda.ipc, &what)?;
    slot_shape(plan).clear_reports(&buffer)?;
    Ok(buffer)
}

/// The name of an event for another process: 64 bytes, which serde has no array for.
type Handle = Vec<u8>;

/// Events that this side records, and their handles for the other.
fn own_events(
    context: &Arc<Context>,
    plan: &RunPlan,
) -> Result<(Vec<Arc<Event>>, Vec<Handle>), RuntimeError> {
    let mut handles = Vec::new();
    let mut events = Vec::new();
    for _ in 0..plan.options.feature_slots {
        let event = Event::interprocess(context)?;
        handles.push(event.export()?.to_vec());
        let event = Arc::new(event);
        outlive_the_peer(&event);
        events.push(event);
    }
    Ok((events, handles))
}

/// Keeps a resource that the other process may use alive until this process ends, even after a failure here. Otherwise
/// the peer would fail on the missing resource before it learned of the cause.
fn outlive_the_peer<T>(shared: &Arc<T>) {
    std::mem::forget(Arc::clone(shared));
}

/// The other side's events. They are never destroyed here: after their owner's death that would be undefined behaviour,
/// and they vanish with this process anyway.
fn peer_events(
    context: &Arc<Context>,
    plan: &RunPlan,
    handles: Vec<Handle>,
) -> Result<Vec<Arc<Event>>, RuntimeError> {
    if handles.len() != plan.options.feature_slots {
        return Err(RuntimeError::Failed(format!(
            "the other side shares the events of {} slots where {} are needed",
            handles.len(),
            plan.options.feature_slots
        )));
    }
    let import = |handle: Handle| -> Result<Arc<Event>, RuntimeError> {
        let handle: [u8; 64] = handle.try_into().map_err(|handle: Handle| {
            RuntimeError::Failed(format!("an event's handle has {} bytes instead of 64", handle.len()))
        })?;
        let event = Arc::new(Event::import(context, handle)?);
        outlive_the_peer(&event);
        Ok(event)
    };
    handles.into_iter().map(import).collect()
}

fn tell(channel: &Channel, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), RuntimeError> {
    let payload = serde_json::to_vec(message).map_err(|error| RuntimeError::Failed(error.to_string()))?;
    channel.send(&payload, fds).map_err(of_the_link)
}

fn hear(channel: &Channel, peer: &Peer, control: &Control) -> Result<Received, RuntimeError> {
    let watched = peer.watched(control, Stop::Now);
    let began = Instant::now();
    loop {
        match channel.recv_within(ASK) {
            Err(HandoverError::TimedOut(_)) => {
                watched.check().map_err(|gone| RuntimeError::PeerGone(gone.reason))?;
                tracing::debug!("no word from the other side of the feature slots for {:?}", began.elapsed());
            }
            other => return other.map_err(of_the_link),
        }
    }
}

fn parse<T: DeserializeOwned>(received: &Received) -> Result<T, RuntimeError> {
    serde_json::from_slice(&received.payload)
        .map_err(|error| RuntimeError::Failed(format!("the other side's feature slots: {error}")))
}

fn of_the_link(error: HandoverError) -> RuntimeError {
    let message = format!("sharing the feature slots: {error}");
    match error {
        HandoverError::Closed => RuntimeError::PeerGone(message),
        _ => RuntimeError::Failed(message),
    }
}
