//! The consumer's side of a run in processes: its receiving end, and the roles that are threads beside it where the GPU
//! is not divided between processes.

use std::sync::Arc;

use uva_mem::handover::Channel;

use super::handed::{Place, open_device};
use super::messages::Role;
use super::reports::note;
use crate::roles::{BatchReceiver, ProducerRole, SamplerRole, ThreadName};
use crate::{Runtime, RuntimeError, device};

impl Runtime {
    /// Takes up the consumer's place: with what the launcher has handed over, and the producer as a thread beside it
    /// where the backend says so. `channel` is the one to the launcher.
    pub(super) fn take_up(place: &mut Place, channel: &Arc<Channel>) -> Result<Self, RuntimeError> {
        if place.plan.backend.in_one_process() {
            with_producer(place, channel)
        } else {
            without_producer(place)
        }
    }
}

fn without_producer(place: &mut Place) -> Result<Runtime, RuntimeError> {
    let Place { dataset, plan, control, handed } = place;
    let features = plan.open_feature_ring(handed.next("feature ring")?)?.reader();
    let producer = handed.peer("producer")?;
    let slots = match plan.backend.device_slots() {
        None => None,
        Some(cuda) => {
            let context = open_device(cuda, Role::Consumer)?;
            let link = handed.link()?;
            Some(device::consumer_side(&context, plan, control, (&link, &producer))?)
        }
    };
    let receiver = BatchReceiver::new(Arc::clone(plan), Arc::clone(control), features, slots, producer);
    Ok(Runtime::beside(Arc::clone(dataset), Arc::clone(control), receiver))
}

/// The producer is a thread, and so is a sampler on the GPU.
fn with_producer(place: &mut Place, channel: &Arc<Channel>) -> Result<Runtime, RuntimeError> {
    let Place { dataset, plan, control, handed } = place;
    let batches = plan.open_batch_ring(handed.next("batch ring")?)?;
    let ring = plan.create_feature_ring()?;
    let (setup, slots) = device::in_this_process(plan)?.unzip();
    let (producer, consumer) = (ThreadName::new("producer"), ThreadName::new("consumer").peer());
    let receiver =
        BatchReceiver::new(Arc::clone(plan), Arc::clone(control), ring.reader(), slots, producer.peer());
    // From here on a failure ends the threads that run already.
    let mut runtime = Runtime::beside(Arc::clone(dataset), Arc::clone(control), receiver);
    let cached_rows;
    let samplers = if plan.backend.samples_in_one_process() {
        cached_rows = handed.cached_rows(plan)?;
        let reordered = handed.reordered_graph(dataset, plan)?;
        let sampler = ThreadName::new("sampler");
        let (dataset, plan, control) = (Arc::clone(dataset), Arc::clone(plan), Arc::clone(control));
        let (batches, producer) = (batches.writer(), producer.peer());
        runtime.start_role(&sampler, move || {
            let (dataset, plan, control) = (&dataset, &plan, &control);
            let gpu = device::sampler_context(plan)?;
            SamplerRole { index: 0, dataset, plan, control, reordered, gpu, batches, producer }.run()
        })?;
        vec![sampler.peer()]
    } else {
        let samplers = handed.samplers(plan.options.samplers)?;
        cached_rows = handed.cached_rows(plan)?;
        samplers
    };
    let (batches, features) = (batches.reader(), ring.writer());
    let (dataset, plan, control) = (Arc::clone(dataset), Arc::clone(plan), Arc::clone(control));
    let channel = Arc::clone(channel);
    runtime.start_role(&producer, move || {
        ProducerRole {
            dataset: &dataset,
            plan: &plan,
            control: &control,
            cached_rows: cached_rows.as_ref(),
            batches,
            features,
            device: setup,
            samplers,
            consumer,
            note: &|line| note(&channel, line),
        }
        .run()
    })?;
    Ok(runtime)
}
