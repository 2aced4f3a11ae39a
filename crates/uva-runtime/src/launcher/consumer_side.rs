//! The consumer's side of a run, in whichever process it is: its receiving end, and the roles that are threads beside it.

use std::sync::Arc;
use std::time::Instant;

use uva_graph::Dataset;
use uva_mem::handover::Channel;

use super::handed::{Handed, open_device};
use super::messages::Role;
use super::reports::note;
use crate::control::{Control, Stop};
use crate::plan::RunPlan;
use crate::roles::{BatchReceiver, ProducerRole, RoleThread, SamplerRole, ThreadName, first_error};
use crate::{RuntimeError, device};

/// The receiving end and the threads that fill it. Dropping it ends them.
pub(crate) struct ConsumerSide {
    pub receiver: BatchReceiver,
    control: Arc<Control>,
    threads: Vec<RoleThread>,
}

impl ConsumerSide {
    /// Takes up the consumer's place: with what the launcher has handed over, and the producer as a thread beside it where
    /// the backend says so. `channel` is the one to the launcher.
    pub fn take_up(
        dataset: &Arc<Dataset>,
        plan: &Arc<RunPlan>,
        control: &Arc<Control>,
        handed: &mut Handed,
        channel: &Arc<Channel>,
    ) -> Result<Self, RuntimeError> {
        if plan.backend.in_one_process() {
            Self::with_producer(dataset, plan, control, handed, channel)
        } else {
            Self::alone(plan, control, handed)
        }
    }

    /// The producer is a process of its own.
    fn alone(
        plan: &Arc<RunPlan>,
        control: &Arc<Control>,
        handed: &mut Handed,
    ) -> Result<Self, RuntimeError> {
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
        let (plan, control) = (Arc::clone(plan), Arc::clone(control));
        let receiver = BatchReceiver::new(plan, Arc::clone(&control), features, slots, producer);
        Ok(Self { receiver, control, threads: Vec::new() })
    }

    /// The producer is a thread, and so is a sampler on the GPU.
    fn with_producer(
        dataset: &Arc<Dataset>,
        plan: &Arc<RunPlan>,
        control: &Arc<Control>,
        handed: &mut Handed,
        channel: &Arc<Channel>,
    ) -> Result<Self, RuntimeError> {
        let batches = plan.open_batch_ring(handed.next("batch ring")?)?;
        let ring = plan.create_feature_ring()?;
        let (setup, slots) = device::in_this_process(plan)?.unzip();
        let (producer, consumer) = (ThreadName::new("producer"), ThreadName::new("consumer").peer());
        let receiver = BatchReceiver::new(
            Arc::clone(plan),
            Arc::clone(control),
            ring.reader(),
            slots,
            producer.peer(),
        );
        // From here on a failure ends the threads that run already.
        let mut side = Self { receiver, control: Arc::clone(control), threads: Vec::new() };
        let cached_rows;
        let samplers = if plan.backend.samples_in_one_process() {
            cached_rows = handed.cached_rows(plan)?;
            let reordered = handed.reordered_graph(dataset, plan)?;
            let sampler = ThreadName::new("sampler");
            let peer = sampler.peer();
            let (dataset, plan, control) = (Arc::clone(dataset), Arc::clone(plan), Arc::clone(control));
            let (batches, producer) = (batches.writer(), producer.peer());
            side.threads.push(sampler.start(move || {
                let (dataset, plan, control) = (&dataset, &plan, &control);
                let gpu = device::sampler_context(plan)?;
                SamplerRole { index: 0, dataset, plan, control, reordered, gpu, batches, producer }.run()
            })?);
            vec![peer]
        } else {
            let samplers = handed.samplers(plan.options.samplers)?;
            cached_rows = handed.cached_rows(plan)?;
            samplers
        };
        let batches = batches.reader();
        let features = ring.writer();
        let (dataset, plan, control) = (Arc::clone(dataset), Arc::clone(plan), Arc::clone(control));
        let line_channel = Arc::clone(channel);
        side.threads.push(producer.start(move || {
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
                note: &|line| note(&line_channel, line),
            }
            .run()
        })?);
        Ok(side)
    }

    /// Waits for the threads, now that the consumer takes no more batches. Of what it failed of and what they failed of
    /// this is what came first.
    pub fn end<T>(mut self, consumed: Result<T, RuntimeError>) -> Result<T, RuntimeError> {
        let at = Instant::now();
        // Unless it has seen the end, nobody will take another batch, and the producer need not wait for that.
        if consumed.is_err() || self.control.stop() >= Stop::Soon {
            self.control.set_stop(Stop::Now);
        }
        match (consumed, first_error(self.threads.drain(..))) {
            (Err(RuntimeError::PeerGone(_)), Some((_, cause))) => Err(cause),
            // A fault on the device fails both; whoever met it first can name the call.
            (Err(_), Some((earlier, cause))) if earlier < at => Err(cause),
            (consumed, _) => consumed,
        }
    }
}

impl Drop for ConsumerSide {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.control.set_stop(Stop::Now);
            // Whoever cares for their errors has asked for them by `end`.
            let _ = first_error(self.threads.drain(..));
        }
    }
}
