//! Results of training batches that the host reads after it has continued with later batches.
//!
//! The device itself decides whether a batch counts, by one launch of `kernels/verdict.cuh`: its memory was whole and
//! its loss is finite. The first batch that does not count stops all later steps, since the host is notified later. The
//! kernel writes its numbers into pinned memory, so no copy is needed. No function here waits unless requested.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::torch::device::TrainDevice;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tch::{Kind, Tensor};
use uva_batch::Proof;
use uva_cuda::kernels::train::verdict::{
    BATCHES, CORRECT, LABELLED, LOSS, LOSSES, NUMBERS, STATE, VerdictState,
};
use uva_cuda::kernels::train::{TrainKernels, VerdictArguments};
use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, fill};
use uva_cuda::{CudaEvent, CudaStream};

/// Maximum number of unread batches.
const ROOM: usize = 8;

/// Results can be read at least this often, whether the caller requests a loss or not.
const MOST_BETWEEN: usize = ROOM / 2;

const READING_BYTES: usize = NUMBERS * 8;
/// Offset after the numbers in their buffer: the skipped step, and a batch's own numbers if the host computes them.
const SKIPPED_AT: usize = READING_BYTES;
const OWN_AT: usize = SKIPPED_AT + 8;
const BUFFER_BYTES: usize = OWN_AT + 3 * 8;

/// One batch whose result has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBatch {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Batch in the epoch, from 0.
    pub batch: u32,
    /// The time that the device worked on the batch.
    pub time: Duration,
}

/// The results of some batches, read together.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The batches, in order; at least one.
    pub batches: Vec<ReadBatch>,
    /// The last one's mean loss; 0 if no seed of it has a label.
    pub loss: f32,
    /// The sum of all labels' losses: mean loss times labels, batch by batch.
    pub loss_sum: f64,
    /// As [`crate::Step::correct`], of all.
    pub correct: u64,
    /// As [`crate::Step::labelled`], of all.
    pub labelled: u64,
}

/// A batch whose result has not arrived.
struct Enqueued {
    epoch: u32,
    batch: u32,
    /// The index of its events, and of its numbers in the pinned ring.
    place: usize,
}

/// The numbers of one batch, from which the device decides whether it counts: tensors of one number on the trainer's
/// device.
pub(crate) struct OwnNumbers<'t> {
    /// Its mean loss, f32 or f64.
    pub(crate) loss: &'t Tensor,
    /// As [`crate::Step::correct`], i64.
    pub(crate) correct: &'t Tensor,
    /// As [`crate::Step::labelled`], i64.
    pub(crate) labelled: &'t Tensor,
}

pub(crate) struct LateResults {
    stream: Arc<CudaStream>,
    kernels: TrainKernels,
    /// A number of `buffer` as a tensor: dropped before it.
    skipped: Tensor,
    /// The device's numbers.
    buffer: DeviceBuffer,
    /// The numbers of each batch, by index.
    pinned: PinnedBuffer,
    /// Events around the work on a batch.
    times: Vec<(CudaEvent, CudaEvent)>,
    batches: VecDeque<Enqueued>,
    /// The number of batches in each pending reading.
    readings: VecDeque<usize>,
    /// Batches after the last reading.
    since_reading: usize,
    /// Batches read so far.
    read: u64,
    next_place: usize,
    /// The first batch that did not count.
    bad: Option<Bad>,
}

/// A batch that did not count.
struct Bad {
    epoch: u32,
    batch: u32,
    /// Its loss, if it was whole.
    diverged: Option<f32>,
}

impl Bad {
    fn error(&self) -> TrainError {
        let Self { epoch, batch, diverged } = *self;
        match diverged {
            Some(loss) => TrainError::Diverged { epoch, batch, loss },
            None => TrainError::Unconfirmed(format!(
                "batch {} of epoch {} was not whole when it was used",
                batch + 1,
                epoch + 1
            )),
        }
    }
}

impl LateResults {
    /// `stream` is the stream on which libtorch computes.
    pub(crate) fn new(
        kernels: TrainKernels,
        stream: Arc<CudaStream>,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        let context = stream.context().clone();
        let buffer = DeviceBuffer::new(&context, BUFFER_BYTES, "results of training")?;
        // SAFETY: within the buffer, which is not in use yet, and is freed after the stream's work (`drop`).
        unsafe { fill(&stream, buffer.address(), 0, BUFFER_BYTES) }?;
        // SAFETY: the tensor has no deleter. It lives in the struct that owns the buffer, before it, and is handed out
        // by reference only. It is one number within the buffer, aligned to 8 bytes.
        let skipped = unsafe {
            let place = (buffer.address() as usize + SKIPPED_AT) as *const u8;
            Tensor::f_from_blob(place, &[1], &[1], Kind::Float, device.torch())
        }?;
        let event = || CudaEvent::timing(&context);
        Ok(Self {
            kernels,
            skipped,
            buffer,
            pinned: PinnedBuffer::new(&context, ROOM * READING_BYTES, "results of training")?,
            times: (0..ROOM).map(|_| Ok((event()?, event()?))).collect::<Result<_, uva_cuda::CudaError>>()?,
            stream,
            batches: VecDeque::new(),
            readings: VecDeque::new(),
            since_reading: 0,
            read: 0,
            next_place: 0,
            bad: None,
        })
    }

    /// The kernels, and the stream.
    pub(crate) fn driven_by(&self) -> (TrainKernels, Arc<CudaStream>) {
        (self.kernels.clone(), Arc::clone(&self.stream))
    }

    /// Number of batches whose results have not been read.
    pub(crate) fn unread(&self) -> usize {
        self.batches.len()
    }

    /// Begins a batch. The caller has read results until there is space.
    pub(crate) fn begin(&mut self) -> Result<(), TrainError> {
        assert!(self.batches.len() < ROOM, "{ROOM} batches are unread");
        self.stream.follow()?;
        Ok(self.times[self.next_place].0.record(&self.stream)?)
    }

    /// Decides whether the batch counts, by its numbers, which a batch without seeds lacks, and by its memory. The
    /// result is 1 if its step is to be skipped: this or an earlier batch is bad, or no seed has a label. f32 \[1\], as
    /// libtorch's `found_inf`, valid until the call for the next batch.
    pub(crate) fn judge(
        &mut self,
        own: Option<OwnNumbers<'_>>,
        proof: Option<Proof<'_>>,
        device: TrainDevice,
    ) -> Result<&Tensor, TrainError> {
        let mut arguments = VerdictArguments {
            first: u64::from(self.since_reading == 0),
            numbers: self.buffer.address(),
            reading: self.pinned.address() + (self.next_place * READING_BYTES) as u64,
            skipped: self.buffer.address() + SKIPPED_AT as u64,
            ..VerdictArguments::default()
        };
        if let Some(OwnNumbers { loss, correct, labelled }) = own {
            arguments.wide = u64::from(loss.f_kind()? == Kind::Double);
            [arguments.loss, arguments.correct, arguments.labelled] = match device {
                // The kernel cannot read the host's memory there.
                TrainDevice::StandIn => self.copied([loss, correct, labelled])?,
                _ => [loss, correct, labelled].map(|number| number.data_ptr() as u64),
            };
        }
        if let Some(Proof { words, expected }) = proof {
            device.check_slice(&words, "the report")?;
            if expected.iter().any(|&(place, _)| place >= words.bytes() / size_of::<i64>()) {
                return Err(TrainError::Input(format!("a report of {} bytes is too short", words.bytes())));
            }
            arguments.words = words.address();
            (arguments.places, arguments.expected) =
                (expected.map(|(place, _)| place as u64), expected.map(|(_, value)| value));
        }
        // SAFETY: the numbers of the batch are contiguous tensors of one number, of these kinds. libtorch takes back
        // the memory of a tensor in the order of this stream. The report has both words, and the trainer's caller
        // orders writes to it after the batch. The buffer is only used in the order of the stream. The place in the
        // pinned ring is the host's again when this batch has been read, after an event of the stream.
        unsafe { self.kernels.judge(&self.stream, &arguments) }?;
        self.stream.follow()?;
        Ok(&self.skipped)
    }

    /// Copies of a batch's numbers in memory of the stand-in driver, which is the host's. Nothing is enqueued on the
    /// stream now (`begin`), and the last verdict has been followed.
    fn copied(&self, numbers: [&Tensor; 3]) -> Result<[u64; 3], TrainError> {
        let mut places = [0; 3];
        for (which, (number, place)) in numbers.into_iter().zip(&mut places).enumerate() {
            *place = self.buffer.address() + (OWN_AT + which * 8) as u64;
            let kind = number.f_kind()?;
            // SAFETY: eight bytes of the buffer's end, aligned as much, for a number of at most as many. The tensor is
            // gone at the end of this turn.
            let mut copy =
                unsafe { Tensor::f_from_blob(*place as *const u8, &[], &[], kind, tch::Device::Cpu) }?;
            copy.f_copy_(number)?;
        }
        Ok(places)
    }

    /// Ends the batch; with `read`, its result can be read, alone or as the last of several.
    pub(crate) fn end(&mut self, epoch: u32, batch: u32, read: bool) -> Result<(), TrainError> {
        let place = self.next_place;
        self.next_place = (place + 1) % ROOM;
        self.times[place].1.record(&self.stream)?;
        self.batches.push_back(Enqueued { epoch, batch, place });
        self.since_reading += 1;
        if read || self.since_reading >= MOST_BETWEEN {
            self.end_reading();
        }
        Ok(())
    }

    /// Groups the batches after the last reading into one reading.
    fn end_reading(&mut self) {
        self.readings.push_back(std::mem::take(&mut self.since_reading));
    }

    /// The oldest results that have arrived; with `wait` the oldest of all. `None` if none has arrived, or there is
    /// none.
    pub(crate) fn next(&mut self, wait: bool) -> Result<Option<Reading>, TrainError> {
        if let Some(bad) = &self.bad {
            // Later batches have changed nothing, and their results have no meaning.
            self.batches.clear();
            self.readings.clear();
            self.since_reading = 0;
            return Err(bad.error());
        }
        if wait && self.readings.is_empty() && self.since_reading > 0 {
            self.end_reading();
        }
        let Some(&count) = self.readings.front() else { return Ok(None) };
        let place = self.batches[count - 1].place;
        let ended = &self.times[place].1;
        if !ended.query()? {
            if !wait {
                return Ok(None);
            }
            ended.synchronize()?;
        }
        assert!(place < ROOM);
        // SAFETY: within the buffer, which has READING_BYTES for each place, aligned to 8 bytes; any bits are numbers.
        // The verdict that wrote them has run, and none is written there before this batch is taken from `batches`.
        let numbers: [f64; NUMBERS] =
            unsafe { self.pinned.as_ptr().add(place * READING_BYTES).cast::<[f64; NUMBERS]>().read() };
        let loss = numbers[LOSS] as f32;
        let batches: Vec<Enqueued> = self.batches.drain(..count).collect();
        self.readings.pop_front();
        let state = VerdictState::of(numbers[STATE]);
        if state != VerdictState::Good {
            let Enqueued { epoch, batch, .. } = batches[(numbers[BATCHES] as u64 - self.read) as usize];
            self.bad =
                Some(Bad { epoch, batch, diverged: (state == VerdictState::Diverged).then_some(loss) });
            return self.next(wait);
        }
        self.read += batches.len() as u64;
        let batches = batches.iter().map(|&Enqueued { epoch, batch, place }| {
            let milliseconds = CudaEvent::elapsed_ms(&self.times[place].0, &self.times[place].1)?;
            let time = Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3);
            Ok(ReadBatch { epoch, batch, time })
        });
        Ok(Some(Reading {
            batches: batches.collect::<Result<_, TrainError>>()?,
            loss,
            loss_sum: numbers[LOSSES],
            correct: numbers[CORRECT] as u64,
            labelled: numbers[LABELLED] as u64,
        }))
    }

    /// Whether a result must be read before the next batch can begin.
    pub(crate) fn is_full(&self) -> bool {
        self.batches.len() == ROOM
    }
}

impl Drop for LateResults {
    fn drop(&mut self) {
        // A verdict may be in flight. If waiting fails the context is gone, and with it that kernel.
        let _ = self.stream.synchronize();
    }
}
