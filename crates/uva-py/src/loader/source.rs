//! `Source`: the batches of `uvatrain.Loader` and `uvatrain.attach()`. Python defines an epoch and chooses the next
//! one. This module waits without the interpreter's lock, and manages slots.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::ThreadId;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use uva_cuda::{CudaStream, Driver};
use uva_graph::Dataset as Graph;
use uva_runtime::backend::Backend;
use uva_runtime::feed::ranks::RankExchanges;
use uva_runtime::options::schedule::Schedule;
use uva_runtime::options::seed_order::{AskedOrder, MadeOrder};
use uva_runtime::pipeline::consumer::{BatchStream, PassCursor, StreamCache, StreamSetup};
use uva_runtime::spec::{OptionPurpose, OptionValue, Options, Spelling};
use uva_runtime::{Aggregation, LoaderOptions, RuntimeError};

use crate::data::dataset::PyDataset;
use crate::errors::{OrRaise, SlotInUse, UvatrainError, of_launched, of_runtime};
use crate::loader::batch::{PyBatch, SharedBatch};
use crate::loader::cache_tally::CacheTally;
use crate::options::keywords::{split_named, value_of};
use crate::process::ending::stay_where_the_interpreter_ends;
use crate::process::fork::OwnProcess;
use crate::process::interrupt::SignalCheck;

/// A source of batches, prepared by this process or by a launcher.
#[pyclass(frozen, module = "uvatrain._core")]
pub struct Source {
    /// Whose threads they are; a fork has none of them.
    process: OwnProcess,
    open: ManuallyDrop<Mutex<Option<Open>>>,
    /// Asks threads that wait for a batch to release `open`.
    closing: AtomicBool,
    /// The thread that waits for a batch: a signal handler runs in that same thread, and may close the loader that it
    /// waits for.
    waiting: Mutex<Option<ThreadId>>,
    dataset: Arc<Graph>,
    /// Which batches a pass has.
    schedule: Schedule,
    options: LoaderOptions,
    /// Batches handed out that did not fit the static shapes.
    unpadded: AtomicU64,
    /// Those that had no room in their slots on a GPU.
    oversized: AtomicU64,
    /// The GPU that batches are on, where they are on one that torch can see.
    device: Option<usize>,
    /// What restarts batches with. `None`: they come from a launcher.
    own: Option<(Backend, StreamSetup)>,
    /// The exchanges of feature rows and picks with other ranks: each an `uvatrain.loader.exchange.Exchange`, which is
    /// notified of the end.
    exchanges: Vec<Py<PyAny>>,
}

struct Open {
    stream: BatchStream,
    /// The stream of the GPU that batches are ordered on; `None`: the host waits for them.
    ordered_on: Option<u64>,
    /// Batches handed out whose slots have not gone back yet, oldest first.
    out: VecDeque<Weak<SharedBatch>>,
    /// The place of the batch that came last.
    last: Option<PassCursor>,
    /// What batches had from a cache on their GPU, where there is one.
    cache: Option<CacheTally>,
}

impl Source {
    /// Wraps a started stream: started by this process with this setup, or by a launcher.
    pub fn new(
        stream: BatchStream,
        mut options: LoaderOptions,
        backend: Backend,
        setup: Option<StreamSetup>,
    ) -> Self {
        // So that new threads pad likewise, have slots like these, and follow the same order.
        (options.shapes, options.slot_room) = (stream.shapes().cloned(), stream.slot_room());
        options.made_order = stream.made_order().cloned();
        let dataset = Arc::clone(stream.dataset());
        let schedule = *stream.schedule();
        let simulated = || Driver::load().is_ok_and(Driver::device_memory_is_host_memory);
        let device = backend.device_slots().map(|cuda| cuda.ordinal).filter(|_| !simulated());
        let asked = setup.as_ref().is_some_and(|setup| matches!(setup.cache, Some(StreamCache::Gpu(_))));
        // With sums, the number of counted rows is not that of the batch.
        let tallies = asked && backend.device_slots().is_some() && options.aggregation == Aggregation::None;
        let cache = tallies.then(CacheTally::default);
        Self {
            process: OwnProcess::here(),
            open: ManuallyDrop::new(Mutex::new(Some(Open { cache, ..Open::over(stream) }))),
            closing: AtomicBool::new(false),
            waiting: Mutex::new(None),
            dataset,
            schedule,
            options,
            unpadded: AtomicU64::new(0),
            oversized: AtomicU64::new(0),
            device,
            own: setup.map(|setup| (backend, setup)),
            exchanges: Vec::new(),
        }
    }

    /// Adds these exchanges with other ranks.
    pub fn over_exchanges(mut self, exchanges: Vec<Py<PyAny>>) -> Self {
        self.exchanges = exchanges;
        self
    }

    /// The ranks among which the feature table is divided, with the counts of the exchange.
    fn ranks(&self) -> Option<&Arc<RankExchanges>> {
        self.own.as_ref()?.1.ranks.as_ref()
    }

    /// The exception for an error of these batches.
    fn error(&self, error: RuntimeError) -> PyErr {
        if self.own.is_some() { of_runtime(error) } else { of_launched(error) }
    }

    /// Restarts with new threads and slots, while the old slots stay for the tensors that refer to them.
    fn start_anew(&self) -> Option<Result<BatchStream, RuntimeError>> {
        if !self.exchanges.is_empty() {
            // The other ranks would have to restart as well.
            return None;
        }
        let (backend, setup) = self.own.as_ref()?;
        let dataset = Arc::clone(&self.dataset);
        Some(BatchStream::in_this_process(dataset, &self.options, backend.clone(), setup.clone()))
    }

    /// The open source, for one thread at a time.
    fn open(&self) -> PyResult<MutexGuard<'_, Option<Open>>> {
        match self.open.try_lock() {
            Ok(open) => Ok(open),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(UvatrainError::new_err(
                "another thread waits for a batch: only one thread at a time may iterate",
            )),
        }
    }

    fn take(&self) -> Option<Open> {
        self.closing.store(true, Ordering::Relaxed);
        if *lock(&self.waiting) == Some(std::thread::current().id()) {
            // Called by a signal's handler: the wait around it ends, and closes.
            return None;
        }
        // A thread that waits for a batch polls `closing` several times a second.
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Open {
    fn over(stream: BatchStream) -> Self {
        Self { stream, ordered_on: None, out: VecDeque::new(), last: None, cache: None }
    }

    /// Whether the requested batch follows the last one. Any other batch makes the roles turn, which takes every slot
    /// once. A tensor that holds a slot then blocks all batches in flight.
    fn goes_on_at(&self, place: PassCursor) -> bool {
        self.last.is_some_and(|last| {
            PassCursor { batch: last.batch + 1, ..last } == place
                || last.batch + 1 == self.stream.schedule().batches_from(last.split, last.first)
                    && place.batch == 0
        })
    }

    /// Uses batches on this stream of the GPU from now on. `None` if the host waits for each.
    fn order_on(&mut self, wanted: Option<u64>) {
        if wanted == self.ordered_on || wanted.is_none() {
            return;
        }
        if let Some(slots) = self.stream.device_slots() {
            let raw = wanted.unwrap_or(0) as *mut std::ffi::c_void;
            // SAFETY: this is the stream that torch uses on the slots' device, and both use the same context, the
            // primary one. Torch's own streams are never destroyed. A program that makes torch use another stream
            // (ExternalStream) has promised torch that it outlives the work on it, and the documentation asks the same
            // for the loader.
            slots.use_stream(unsafe { CudaStream::foreign(slots.context(), raw) });
            self.ordered_on = wanted;
        }
    }

    /// The error for a slot that is still held, which names the batch.
    fn in_use(&mut self, place: PassCursor, slots: String) -> PyErr {
        self.out.retain(|held| held.strong_count() > 0);
        // Slots are requested in the order of the batches: the missing one belongs to the oldest.
        let batch = match self.out.front().and_then(Weak::upgrade) {
            Some(held) => {
                let batch = held.batch();
                format!("batch {} of epoch {} ({})", batch.index(), batch.epoch(), batch.split())
            }
            None => "an earlier batch".to_owned(),
        };
        let (wanted, instead) = if self.goes_on_at(place) {
            ("the next batch needs", format!(", or raise {slots}"))
        } else {
            ("must be free to continue at another place", ", or del unused tensors".to_owned())
        };
        SlotInUse::new_err(format!(
            "a tensor of {batch}, or a view of one, is still alive and keeps the slot that {wanted}. .clone() tensors that \
             are kept for more than a step (x.clone(), not x[:10]){instead}"
        ))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // In a fork the threads do not exist, and the slots belong to the parent.
        if self.process.is_here() {
            // SAFETY: dropped here only, and never used again.
            unsafe { ManuallyDrop::drop(&mut self.open) };
        }
    }
}

#[pymethods]
impl Source {
    /// Waits for a batch: number `batch` of this rank's in the pass that begins at batch `first` of the epoch. None after
    /// the last.
    ///
    /// stream: torch's current stream of the GPU that batches are on.
    /// last_try: slots that are still held will not be released before this call returns.
    #[pyo3(signature = (split, epoch, first, batch, stream=None, last_try=false))]
    #[expect(clippy::too_many_arguments, reason = "a place, and how it is waited for")]
    fn next(
        &self,
        py: Python<'_>,
        split: &str,
        epoch: u32,
        first: u64,
        batch: u64,
        stream: Option<u64>,
        last_try: bool,
    ) -> PyResult<Option<PyBatch>> {
        self.check_process()?;
        stay_where_the_interpreter_ends(py);
        let place = PassCursor { split: split_named(split)?, epoch, first, batch };
        let mut guard = self.open()?;
        let open = guard.as_mut().ok_or_else(closed)?;
        open.order_on(stream);
        let signals = SignalCheck::default();
        *lock(&self.waiting) = Some(std::thread::current().id());
        let received = py.detach(|| {
            let interrupted = || self.closing.load(Ordering::Relaxed) || signals.end_the_wait();
            open.stream.go_to(place);
            let received = open.stream.next_batch(&interrupted);
            let held = matches!(received, Err(RuntimeError::SlotHeld(_)));
            if !held || !last_try || open.goes_on_at(place) {
                return received;
            }
            let Some(Ok(anew)) = self.start_anew() else { return received };
            // Errors of the old threads don't matter from here on.
            let cache = open.cache.take();
            let _ = std::mem::replace(open, Open { cache, ..Open::over(anew) }).stream.close();
            open.order_on(stream);
            open.stream.go_to(place);
            open.stream.next_batch(&interrupted)
        });
        *lock(&self.waiting) = None;
        if self.closing.load(Ordering::Relaxed) {
            // Closed meanwhile: by a handler in this thread, which could not, or by another, which finds nothing left.
            let open = guard.take();
            let ended = py.detach(|| open.map_or(Ok(()), |open| open.stream.close()));
            // The thread that ends the interpreter waits for `open`.
            drop(guard);
            stay_where_the_interpreter_ends(py);
            return Err(signals
                .raised()
                .unwrap_or_else(|| ended.map_or_else(|error| self.error(error), |()| closed())));
        }
        // A handler's exception takes precedence, even if the batch arrived while it ran: the batch is returned again
        // later.
        if let Some(raised) = signals.raised() {
            return Err(raised);
        }
        match received {
            Ok(None) if batch < self.schedule.batches_from(place.split, first) => {
                Err(PyKeyboardInterrupt::new_err(
                    "the launcher requests the end of this process: there are no more batches",
                ))
            }
            Ok(None) => Ok(None),
            Ok(Some(received)) => {
                if self.options.shapes.is_some() && !received.is_padded() {
                    self.unpadded.fetch_add(1, Ordering::Relaxed);
                }
                self.oversized.fetch_add(u64::from(received.is_oversized()), Ordering::Relaxed);
                if let Some(cache) = &mut open.cache {
                    cache.add(&received);
                }
                let held = Arc::new(SharedBatch::new(received, open.ordered_on));
                open.out.retain(|held| held.strong_count() > 0);
                open.out.push_back(Arc::downgrade(&held));
                open.last = Some(place);
                Ok(Some(PyBatch::new(&held, &self.options)))
            }
            Err(RuntimeError::SlotHeld(_)) => {
                let spelling = if self.own.is_some() { Spelling::Keyword } else { Spelling::CommandLine };
                let option = spelling.option("slots", None);
                Err(open.in_use(place, format!("{option} ({} now)", self.options.feature_slots)))
            }
            Err(RuntimeError::Interrupted(_)) => Err(PyKeyboardInterrupt::new_err(())),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Iterates over `batches` batches without creating Python objects, and returns the nanoseconds of each step: the cost
    /// of the loop without Python.
    fn _pass(&self, py: Python<'_>, split: &str, epoch: u32, first: u64, batches: u64) -> PyResult<Vec<u64>> {
        self.check_process()?;
        let split = split_named(split)?;
        let mut guard = self.open()?;
        let open = guard.as_mut().ok_or_else(closed)?;
        py.detach(|| {
            let mut steps = Vec::new();
            open.stream.go_to(PassCursor { split, epoch, first: 0, batch: first });
            for _ in 0..batches {
                let begin = std::time::Instant::now();
                let received = open.stream.next_batch(&|| self.closing.load(Ordering::Relaxed)).or_raise()?;
                let Some(batch) = received else { break };
                std::hint::black_box((batch.hash(), batch.node_count()));
                drop(batch);
                steps.push(begin.elapsed().as_nanos() as u64);
            }
            Ok(steps)
        })
    }

    /// Ends the pass that began at batch `first` of an epoch, after its last batch: ranks that have one more batch get
    /// their rows.
    fn end_pass(&self, py: Python<'_>, split: &str, epoch: u32, first: u64) -> PyResult<()> {
        self.check_process()?;
        let split = split_named(split)?;
        if self.exchanges.is_empty() {
            return Ok(());
        }
        let mut guard = self.open()?;
        let open = guard.as_mut().ok_or_else(closed)?;
        let signals = SignalCheck::default();
        let ended = py.detach(|| {
            let interrupted = || self.closing.load(Ordering::Relaxed) || signals.end_the_wait();
            open.stream.end_pass(PassCursor { split, epoch, first, batch: 0 }, &interrupted)
        });
        if let Some(raised) = signals.raised() {
            return Err(raised);
        }
        ended.map_err(|error| self.error(error))
    }

    /// Batches of this rank in a pass over the split that begins at batch `first` of the epoch.
    #[pyo3(signature = (split, first=0))]
    fn batches(&self, split: &str, first: u64) -> PyResult<u64> {
        Ok(self.schedule.batches_from(split_named(split)?, first))
    }

    /// Batches of all ranks in a pass over the split.
    fn all_batches(&self, split: &str) -> PyResult<u64> {
        Ok(self.schedule.all_batches(split_named(split)?))
    }

    /// Ranks with a batch in every step: all, or those that are not on standby.
    #[getter]
    fn trainers(&self) -> u64 {
        self.schedule.trainers()
    }

    /// Ranks with a batch in the step in which this one has its batch `batch` of a pass that begins at `first`.
    fn ranks_in_step(&self, split: &str, first: u64, batch: u64) -> PyResult<u64> {
        Ok(self.schedule.parts_in_step(split_named(split)?, first, batch))
    }

    /// The first batch of that step.
    fn position(&self, split: &str, first: u64, batch: u64) -> PyResult<u64> {
        Ok(self.schedule.position(split_named(split)?, first, batch))
    }

    /// The GPU that batches are on; None if they are in host memory.
    #[getter]
    fn device(&self) -> Option<usize> {
        self.device
    }

    /// Raises in a fork, which has neither the threads nor the slots.
    fn check_process(&self) -> PyResult<()> {
        if self.process.is_here() {
            return Ok(());
        }
        Err(UvatrainError::new_err(format!(
            "made in process {} and used in its fork {}: the threads that prepare batches do not survive a fork. \
             uvatrain already prepares batches in the background, so iterate over it in the main process: with a \
             torch DataLoader around it, num_workers=0",
            self.process.number(),
            std::process::id()
        )))
    }

    /// The time of each role so far, and the number of hand-overs without result.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process()?;
        let mut guard = self.open()?;
        let open = guard.as_mut().ok_or_else(closed)?;
        let (roles, told) = (open.stream.roles(), PyDict::new(py));
        for (name, times) in roles.each() {
            let role = PyDict::new(py);
            role.set_item("threads", times.processes)?;
            role.set_item("working_s", times.working_s)?;
            role.set_item("waiting_input_s", times.waiting_input_s)?;
            role.set_item("waiting_output_s", times.waiting_output_s)?;
            told.set_item(name, role)?;
        }
        let bottleneck = self.ranks().map_or_else(|| roles.bottleneck(), |ranks| ranks.bottleneck(&roles));
        told.set_item("bottleneck", bottleneck)?;
        told.set_item("skipped", open.stream.skipped())?;
        if let Some(counts) = open.stream.disk_reads() {
            let disk = counted(
                py,
                &[
                    ("bytes_asked", counts.bytes_asked),
                    ("bytes_read", counts.bytes_read),
                    ("reads", counts.reads),
                    ("cached_rows", counts.cached_rows),
                    ("kept_rows", counts.kept_rows),
                    ("ahead_rows", counts.ahead_rows),
                    ("demanded_rows", counts.demanded_rows),
                ],
            )?;
            told.set_item("disk", disk)?;
        }
        if let Some(tally) = &mut open.cache {
            let (rows, hits) = tally.counts();
            told.set_item("cache", counted(py, &[("rows", rows), ("hits", hits)])?)?;
        }
        if let Some(ranks) = self.ranks() {
            let counts = ranks.counts();
            let exchange = counted(
                py,
                &[
                    ("own_rows", counts.local_rows),
                    ("cached_rows", counts.cached_rows),
                    ("remote_rows", counts.remote_rows),
                    ("given_rows", counts.given_rows),
                    ("sent_bytes", counts.sent_bytes),
                    ("received_bytes", counts.received_bytes),
                ],
            )?;
            exchange.set_item("waited_s", counts.waited().as_secs_f64())?;
            exchange.set_item("met_s", counts.met.as_secs_f64())?;
            told.set_item("exchange", exchange)?;
            if let Some(counts) = ranks.list_counts() {
                let lists = counted(
                    py,
                    &[
                        ("own_lists", counts.own_lists),
                        ("remote_lists", counts.remote_lists),
                        ("given_lists", counts.given_lists),
                        ("sent_bytes", counts.sent_bytes),
                        ("received_bytes", counts.received_bytes),
                    ],
                )?;
                lists.set_item("waited_s", counts.waited.as_secs_f64())?;
                told.set_item("lists", lists)?;
            }
        }
        if self.options.shapes.is_some() {
            told.set_item("unpadded", self.unpadded.load(Ordering::Relaxed))?;
        }
        if self.options.slot_room.is_some() {
            told.set_item("oversized", self.oversized.load(Ordering::Relaxed))?;
        }
        Ok(told)
    }

    /// The sizes that batches are padded to: for each node type the nodes of each level, the seeds first, and for each
    /// layer destinations, sources and edges of the block of each relation. None: they are not padded.
    #[getter]
    #[expect(clippy::type_complexity, reason = "Python's lists of lists")]
    fn shapes(&self) -> Option<(Vec<Vec<usize>>, Vec<Vec<BlockSize>>)> {
        let (shapes, metagraph) = (self.options.shapes.as_ref()?, self.dataset.metagraph());
        let of_layer = |layer| {
            let blocks = metagraph.relations().map(|of| shapes.block(layer, of));
            blocks.map(|block| (block.destinations, block.sources, block.edges)).collect()
        };
        let nodes = metagraph.types().map(|of| shapes.nodes_of(of)).collect();
        Some((nodes, (0..shapes.layers()).map(of_layer).collect()))
    }

    /// The dataset.
    #[getter]
    fn dataset(&self) -> PyResult<PyDataset> {
        PyDataset::of(&Arc::new(self.dataset.without_chosen_nodes()))
    }

    /// The names of the node types, and the three names of each relation, if batches have several; else None.
    #[getter]
    #[expect(clippy::type_complexity, reason = "the names as PyG's metadata() has them")]
    fn metadata(&self) -> Option<(Vec<String>, Vec<(String, String, String)>)> {
        let metagraph = self.dataset.metagraph();
        let names = |relation| {
            let [source, name, destination] = metagraph.names(relation).map(str::to_owned);
            (source, name, destination)
        };
        let types = || metagraph.types().map(|of| metagraph.type_name(of).to_owned()).collect();
        (!self.dataset.is_homogeneous()).then(|| (types(), metagraph.relations().map(names).collect()))
    }

    /// The name of the node type whose splits are seeds, in a typed graph.
    #[getter]
    fn target(&self) -> Option<&str> {
        self.dataset.target().map(|of| self.dataset.metagraph().type_name(of))
    }

    /// The names of the node types of seeds, in a typed graph: the target, or those given in place of a split.
    #[getter]
    fn seed_types(&self) -> Vec<&str> {
        let name = |of| self.dataset.metagraph().type_name(of);
        let given: Vec<_> = self.dataset.chosen_types().map(name).collect();
        if given.is_empty() { self.target().into_iter().collect() } else { given }
    }

    /// Nodes of a split, or those given in its place, of all types.
    fn seed_count(&self, split: &str) -> PyResult<usize> {
        Ok(self.dataset.seed_count(split_named(split)?))
    }

    /// Rank and world size.
    #[getter]
    fn part(&self) -> (u32, u32) {
        (self.options.part.index, self.options.part.of)
    }

    /// Sets whether a validation pass follows each epoch of the main split from now on. It changes no batch.
    fn expect_validation(&self, expect: bool) -> PyResult<()> {
        self.check_process()?;
        let mut guard = self.open()?;
        guard.as_mut().ok_or_else(closed)?.stream.expect_validation(expect);
        Ok(())
    }

    /// The values that a batch of a split depends on, for a state.
    fn identity<'py>(&self, py: Python<'py>, split: &str) -> PyResult<Bound<'py, PyDict>> {
        let (options, told) = (&self.options, PyDict::new(py));
        told.set_item("fingerprint", self.dataset.fingerprint())?;
        let ordered = options.seed_order != AskedOrder::Shuffle;
        let shown = |name: &str| match name {
            // A shuffle does not depend on edges.
            "order_edges" | "order_tolerance" => ordered,
            // The content of the file counts, and not its path.
            "order" => false,
            _ => true,
        };
        for field in options.that(OptionPurpose::Identity).filter(|field| shown(field.name)) {
            told.set_item(field.name, value_of(py, field, options)?)?;
        }
        told.set_item("fanouts", options.fanouts.text())?;
        told.set_item("order_file", options.made_order.as_ref().and_then(MadeOrder::file))?;
        for (name, value) in options.kind_identity() {
            told.set_item(name, value)?;
        }
        told.set_item("input_nodes", self.dataset.chosen_nodes())?;
        told.set_item("shuffle", options.shuffled.has(split_named(split)?))?;
        told.set_item("world_size", options.part.of)?;
        Ok(told)
    }

    /// The values that a checkpoint must share with these batches, as JSON (docs/reference/checkpoint-format.md).
    #[getter]
    fn fingerprint(&self) -> String {
        let mut fields = self.options.fingerprint();
        fields.insert("dataset".to_owned(), self.dataset.fingerprint().into());
        serde_json::Value::Object(fields).to_string()
    }

    /// Ends the threads. Remaining tensors keep their memory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.process.is_here() {
            return Ok(());
        }
        for exchange in &self.exchanges {
            exchange.call_method0(py, "leave")?;
        }
        py.detach(|| match self.take() {
            Some(open) => match open.stream.close() {
                // Its roles were asked to leave, and could not finish their work.
                Err(_) if !self.exchanges.is_empty() => Ok(()),
                closed => closed.map_err(|error| self.error(error)),
            },
            None => Ok(()),
        })
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

/// Destinations, sources and edges of a block.
type BlockSize = (usize, usize, usize);

/// Locks the mutex, even if a thread has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Its contents are always consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts by their names.
fn counted<'py>(py: Python<'py>, counts: &[(&str, u64)]) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    counts.iter().try_for_each(|(name, count)| told.set_item(name, count))?;
    Ok(told)
}

fn closed() -> PyErr {
    UvatrainError::new_err("this loader is closed: make a new one")
}
