//! Results of training batches that the host reads after it has gone on to later batches.
//!
//! The device itself decides whether a batch counts: its memory was whole and its loss is finite. The first one that does
//! not stops all later steps, since the host learns of it later. Nothing here waits unless it is told to.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::borrowed::Borrowed;
use crate::device::TrainDevice;
use crate::device_input::DeviceProof;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tch::{Kind, Tensor};
use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, device_to_host};
use uva_cuda::{Event, Stream};

/// Batches that may be unread.
const ROOM: usize = 8;

/// At least so often a reading is enqueued, whether the caller wants a loss or not.
const MOST_BETWEEN: usize = ROOM / 2;

/// The numbers that the device keeps, f64 each, by their places.
const VERDICT: i64 = 0;
const GOOD: i64 = 1;
const LOSS: i64 = 2;
const SUMS: i64 = 3;
const NUMBERS: usize = 6;
const READING_BYTES: usize = NUMBERS * 8;

/// [`VERDICT`] while every batch was good, and behind the first that was not.
const ALL_GOOD: f64 = 1.0;
const DIVERGED: f64 = 0.0;
const NOT_WHOLE: f64 = -1.0;

/// One batch whose result has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBatch {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Batch in the epoch, from 0.
    pub batch: u32,
    /// How long the device worked on it.
    pub time: Duration,
}

/// The results of some batches, read together.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The batches, in their order; at least one.
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

/// A batch whose result is on its way.
struct Enqueued {
    epoch: u32,
    batch: u32,
    /// The place of its events.
    place: usize,
}

/// A copy of the device's numbers on its way.
struct Copy {
    /// How many batches it reads.
    batches: usize,
    /// The place in the pinned ring, and of the event behind it.
    place: usize,
}

pub(crate) struct LateResults {
    stream: Arc<Stream>,
    /// `numbers` as a tensor: dropped before it.
    state: Tensor,
    numbers: DeviceBuffer,
    /// A reading a place.
    pinned: PinnedBuffer,
    copied: Vec<Event>,
    /// Around the work on a batch.
    times: Vec<(Event, Event)>,
    batches: VecDeque<Enqueued>,
    copies: VecDeque<Copy>,
    /// Batches behind the last copy.
    since_copy: usize,
    /// Batches read so far.
    read: u64,
    next_place: usize,
    next_copy: usize,
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
    /// `stream` is the one on which libtorch computes.
    pub(crate) fn new(stream: Arc<Stream>, device: TrainDevice) -> Result<Self, TrainError> {
        let context = stream.context().clone();
        let numbers = DeviceBuffer::new(&context, READING_BYTES, "results of training")?;
        // SAFETY: the tensor has no deleter. It lives in the struct that owns the buffer, before it, and is never handed
        // out. The buffer is aligned to 256 bytes and has NUMBERS times 8 bytes.
        let mut state = unsafe {
            Tensor::f_from_blob(
                numbers.address() as *const u8,
                &[NUMBERS as i64],
                &[1],
                Kind::Double,
                device.torch(),
            )
        }?;
        let _no_grad = tch::no_grad_guard();
        let _ = state.f_zero_()?;
        let _ = state.f_get(VERDICT)?.f_fill_(ALL_GOOD)?;
        let event = || Event::timing(&context);
        Ok(Self {
            state,
            numbers,
            pinned: PinnedBuffer::new(&context, ROOM * READING_BYTES, "results of training")?,
            copied: (0..ROOM).map(|_| Event::local(&context)).collect::<Result<_, _>>()?,
            times: (0..ROOM).map(|_| Ok((event()?, event()?))).collect::<Result<_, uva_cuda::CudaError>>()?,
            stream,
            batches: VecDeque::new(),
            copies: VecDeque::new(),
            since_copy: 0,
            read: 0,
            next_place: 0,
            next_copy: 0,
            bad: None,
        })
    }

    /// Batches whose results have not been read.
    pub(crate) fn unread(&self) -> usize {
        self.batches.len()
    }

    /// Begins a batch. The caller has read results until there is room.
    pub(crate) fn begin(&mut self) -> Result<(), TrainError> {
        assert!(self.batches.len() < ROOM, "{ROOM} batches are unread");
        self.stream.follow()?;
        self.times[self.next_place].0.record(&self.stream)?;
        if self.since_copy == 0 {
            let _ = self.state.f_narrow(0, SUMS, NUMBERS as i64 - SUMS)?.f_zero_()?;
        }
        Ok(())
    }

    /// Judges the batch by its loss, one number of any kind, and its memory. The result is 1 where its step is to be
    /// skipped: it or an earlier batch is bad, or none of its seeds has a label. f32 \[1\], as libtorch's `found_inf`.
    pub(crate) fn judge(
        &mut self,
        (loss, correct, labelled): (&Tensor, &Tensor, &Tensor),
        proof: Option<DeviceProof<'_>>,
        device: TrainDevice,
    ) -> Result<Tensor, TrainError> {
        let state = |place: i64| self.state.f_get(place);
        let counted = labelled.f_gt(0)?;
        // The mean over no label is NaN, and no failure.
        let loss = loss.f_to_kind(Kind::Double)?.f_where_scalarother(&counted, 0.0)?;
        let mut verdict = loss.f_isfinite()?.f_to_kind(Kind::Double)?;
        if let Some(DeviceProof { words, expected }) = proof {
            let words = Borrowed::device_vector::<i64>(words, words.bytes() / 8, "the report", device)?;
            for (place, value) in expected {
                let as_expected = words.tensor().f_get(place as i64)?.f_eq(value)?;
                verdict = verdict.f_where_scalarother(&as_expected, NOT_WHOLE)?;
            }
        }
        // The first bad batch stays the last that is written down.
        let so_far = state(VERDICT)?.f_gt(DIVERGED)?;
        state(VERDICT)?.f_copy_(&verdict.f_where_self(&so_far, &state(VERDICT)?)?)?;
        state(LOSS)?.f_copy_(&loss.f_where_self(&so_far, &state(LOSS)?)?)?;
        let good = state(VERDICT)?.f_gt(DIVERGED)?;
        let [correct, labelled] = [correct, labelled].map(|count| count.f_to_kind(Kind::Double));
        let (correct, labelled) = (correct?, labelled?);
        let counts = Tensor::f_stack(&[loss.f_mul(&labelled)?, correct, labelled], 0)?;
        let counts = counts.f_where_scalarother(&good, 0.0)?;
        let _ = self.state.f_narrow(0, SUMS, NUMBERS as i64 - SUMS)?.f_add_(&counts)?;
        let _ = state(GOOD)?.f_add_(&good)?;
        let skipped = good.f_logical_and(&counted)?.f_logical_not()?;
        Ok(skipped.f_to_kind(Kind::Float)?.f_view([1])?)
    }

    /// Ends the batch; `read` enqueues the copy of its result.
    pub(crate) fn end(&mut self, epoch: u32, batch: u32, read: bool) -> Result<(), TrainError> {
        let place = self.next_place;
        self.next_place = (place + 1) % ROOM;
        self.times[place].1.record(&self.stream)?;
        self.batches.push_back(Enqueued { epoch, batch, place });
        self.since_copy += 1;
        if read || self.since_copy >= MOST_BETWEEN { self.copy() } else { Ok(()) }
    }

    /// Enqueues a copy of the device's numbers behind the last batch.
    fn copy(&mut self) -> Result<(), TrainError> {
        let place = self.next_copy;
        self.next_copy = (place + 1) % ROOM;
        // SAFETY: `numbers` is as long, and the stream orders its writers. Each copy reads at least one batch, so at most
        // ROOM are on their way and none goes to another's place. The reference ends with the call. The bytes are read
        // behind the event below, and stay in place until the stream has been waited for (`drop`).
        unsafe {
            let to = std::slice::from_raw_parts_mut(self.place(place), READING_BYTES);
            device_to_host(&self.stream, self.numbers.address(), to)
        }?;
        self.copied[place].record(&self.stream)?;
        self.copies.push_back(Copy { batches: std::mem::take(&mut self.since_copy), place });
        Ok(())
    }

    /// The bytes of a place in the pinned ring.
    fn place(&self, place: usize) -> *mut u8 {
        assert!(place < ROOM);
        // SAFETY: within the buffer, which has READING_BYTES for each place.
        unsafe { self.pinned.as_ptr().add(place * READING_BYTES).cast_mut() }
    }

    /// The oldest results that have arrived; with `wait` the oldest of all. `None`: none has arrived, or there is none.
    pub(crate) fn next(&mut self, wait: bool) -> Result<Option<Reading>, TrainError> {
        if let Some(bad) = &self.bad {
            // What came behind it has changed nothing, and means nothing.
            self.batches.clear();
            self.copies.clear();
            self.since_copy = 0;
            return Err(bad.error());
        }
        if wait && self.copies.is_empty() && self.since_copy > 0 {
            self.copy()?;
        }
        let Some(Copy { batches, place }) = self.copies.front() else { return Ok(None) };
        let copied = &self.copied[*place];
        if !copied.query()? {
            if !wait {
                return Ok(None);
            }
            copied.synchronize()?;
        }
        // SAFETY: the copy has run, and none goes there before this one is taken from `copies`. Aligned to 8 bytes, and any
        // bits are numbers.
        let numbers: [f64; NUMBERS] = unsafe { self.place(*place).cast::<[f64; NUMBERS]>().read() };
        let [verdict, good, loss, loss_sum, correct, labelled] = numbers;
        let loss = loss as f32;
        let batches: Vec<Enqueued> = self.batches.drain(..batches).collect();
        self.copies.pop_front();
        if verdict != ALL_GOOD {
            let Enqueued { epoch, batch, .. } = batches[(good as u64 - self.read) as usize];
            self.bad = Some(Bad { epoch, batch, diverged: (verdict == DIVERGED).then_some(loss) });
            return self.next(wait);
        }
        self.read += batches.len() as u64;
        let batches = batches.iter().map(|&Enqueued { epoch, batch, place }| {
            let milliseconds = Event::elapsed_ms(&self.times[place].0, &self.times[place].1)?;
            let time = Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3);
            Ok(ReadBatch { epoch, batch, time })
        });
        Ok(Some(Reading {
            batches: batches.collect::<Result<_, TrainError>>()?,
            loss,
            loss_sum,
            correct: correct as u64,
            labelled: labelled as u64,
        }))
    }

    /// Whether no batch can be begun before a result has been read.
    pub(crate) fn is_full(&self) -> bool {
        self.batches.len() == ROOM
    }
}

impl Drop for LateResults {
    fn drop(&mut self) {
        // A copy may be on its way. Where waiting fails the context is gone, and with it that copy.
        let _ = self.stream.synchronize();
    }
}
