//! Streams: in-order queues, each executed by its own thread, concurrently with the caller.
//!
//! A fault loses the context: queued work of all its streams is then dropped, and no event after the fault is ever
//! completed. The threads are never joined: a stream may wait for an event of a process that has died, and that must
//! hold up neither its own destruction nor the end of this process.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::execution::event::{self, LOOK, Ticket};
use crate::machine::codes::{Code, Outcome};
use crate::machine::context::{self, Context, must_be_current};
use crate::machine::entry::in_host_function;
use crate::machine::mps;
use crate::machine::registry::{Registry, give, lock, number, pointer};
use crate::machine::settings::{Strictness, known_settings};
use crate::machine::types::HostFunction;

/// An operation of a stream.
enum Operation {
    /// Runs on the stream's thread; its error loses the context.
    Work(Box<dyn FnOnce(&Queue) -> Outcome + Send>),
    /// Completes a record of an event.
    Mark(Ticket),
}

/// A stream's queue.
pub struct Queue {
    pub context: Arc<Context>,
    /// The context of its creation; green contexts are distinct here.
    made_in: u64,
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    operations: VecDeque<Operation>,
    enqueued: u64,
    finished: u64,
    closed: bool,
}

/// A stream, as referred to by its handle.
struct Stream {
    queue: Arc<Queue>,
}

static STREAMS: Registry<Stream> = Registry::new();

/// The queues of handle 0, one per context that used it.
static DEFAULTS: Mutex<Vec<Arc<Queue>>> = Mutex::new(Vec::new());

impl Queue {
    /// Starts a queue and its thread.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY` if the thread cannot be started.
    pub fn start(context: &Arc<Context>, made_in: u64) -> Result<Arc<Self>, Code> {
        let queue = Arc::new(Self {
            context: context.clone(),
            made_in,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let worked = queue.clone();
        std::thread::Builder::new()
            .name("cuda-sim-stream".to_owned())
            .spawn(move || worked.work())
            .map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(queue)
    }

    /// Appends an operation, and returns its number.
    pub fn enqueue(&self, operation: impl FnOnce(&Self) -> Outcome + Send + 'static) -> u64 {
        self.push(Operation::Work(Box::new(operation)))
    }

    /// Completes a record when the stream reaches it.
    pub fn enqueue_mark(&self, ticket: Ticket) {
        self.push(Operation::Mark(ticket));
    }

    fn push(&self, operation: Operation) -> u64 {
        mps::enqueued();
        let mut state = lock(&self.state);
        state.operations.push_back(operation);
        state.enqueued += 1;
        self.changed.notify_all();
        state.enqueued
    }

    /// Lets the thread end when the queue is empty. Queued work still runs, as in the driver.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Whether everything enqueued so far has finished.
    fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.finished == state.enqueued
    }

    /// Waits for everything enqueued so far.
    ///
    /// # Errors
    /// The error by which the context was lost.
    pub fn synchronize(&self) -> Outcome {
        let last = lock(&self.state).enqueued;
        self.wait_for(last)
    }

    /// Waits for the operation of that number.
    ///
    /// # Errors
    /// As [`Queue::synchronize`].
    pub fn wait_for(&self, operation: u64) -> Outcome {
        let mut state = lock(&self.state);
        loop {
            self.context.check()?;
            if state.finished >= operation {
                return Ok(());
            }
            let slept = self.changed.wait_timeout(state, LOOK);
            state = slept.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    fn work(&self) {
        let delay = known_settings().map_or(0, |settings| settings.delay_us);
        // Each stream has its own generator, seeded with the clock.
        let mut random = std::ptr::from_ref(self) as u64 ^ event::clock_ns() | 1;
        loop {
            let operation = {
                let mut state = lock(&self.state);
                loop {
                    if let Some(operation) = state.operations.pop_front() {
                        break operation;
                    }
                    if state.closed {
                        return;
                    }
                    state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
            };
            if delay > 0 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                std::thread::sleep(Duration::from_micros(random % (delay + 1)));
            }
            // After a fault no operation runs; dropping an operation frees what it holds.
            let sound = self.context.check().is_ok();
            match operation {
                Operation::Work(work) if sound => match catch_unwind(AssertUnwindSafe(|| work(self))) {
                    Ok(Ok(())) => {}
                    Ok(Err(code)) => self.context.poison(code),
                    Err(_) => {
                        eprintln!("cuda-sim: an operation of a stream panicked");
                        self.context.poison(Code::LAUNCH_FAILED);
                    }
                },
                Operation::Mark(ticket) if sound => {
                    // Under the lock, so that no thread sees the record complete while the stream is still busy with
                    // it.
                    let mut state = lock(&self.state);
                    ticket.complete();
                    state.finished += 1;
                    mps::finished();
                    self.changed.notify_all();
                    continue;
                }
                _ => {}
            }
            lock(&self.state).finished += 1;
            mps::finished();
            self.changed.notify_all();
        }
    }
}

/// The queue of a stream's handle; 0, 1 and 2 mean the default stream of the current context.
///
/// # Errors
/// `CUDA_ERROR_INVALID_HANDLE` for no stream; `CUDA_ERROR_INVALID_CONTEXT` for one of a context that is not current.
pub fn queue(handle: *mut c_void) -> Result<Arc<Queue>, Code> {
    if number(handle) <= 2 {
        return default_of(&context::current()?);
    }
    let queue = STREAMS.get(number(handle))?.queue.clone();
    must_be_current(&queue.context)?;
    Ok(queue)
}

/// The stream of handle 0. Other streams do not wait for it, nor it for them.
fn default_of(context: &Arc<Context>) -> Result<Arc<Queue>, Code> {
    let (mut defaults, made_in) = (lock(&DEFAULTS), context::current_handle());
    let own = |queue: &&Arc<Queue>| context::same(&queue.context, context) && queue.made_in == made_in;
    if let Some(queue) = defaults.iter().find(own) {
        return Ok(queue.clone());
    }
    let queue = Queue::start(context, made_in)?;
    defaults.push(queue.clone());
    Ok(queue)
}

/// Creates a stream in `context`, or in a green context of it, and returns its handle.
pub fn create_in(context: &Arc<Context>, made_in: u64) -> Result<u64, Code> {
    Ok(STREAMS.insert(Arc::new(Stream { queue: Queue::start(context, made_in)? })))
}

/// The queues of a context, the default stream's included.
pub fn all_of(context: &Arc<Context>) -> Vec<Arc<Queue>> {
    let mut queues: Vec<_> = STREAMS.all().into_iter().map(|stream| stream.queue.clone()).collect();
    queues.extend(lock(&DEFAULTS).iter().cloned());
    queues.retain(|queue| context::same(&queue.context, context));
    queues
}

/// Ends the streams of a context that is being destroyed.
pub fn end_all_of(context: &Arc<Context>) {
    for stream in STREAMS.retain(|stream| !context::same(&stream.queue.context, context)) {
        stream.queue.close();
    }
    for queue in lock(&DEFAULTS).extract_if(.., |queue| context::same(&queue.context, context)) {
        queue.close();
    }
}

/// Creates a stream.
///
/// # Safety
/// `stream` is null or writable.
pub unsafe fn create(stream: *mut *mut c_void, flags: c_uint, _priority: c_int) -> Outcome {
    // CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING; a priority out of range is clamped, and has no effect here.
    if stream.is_null() || flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    let handle = create_in(&context::current()?, context::current_handle())?;
    // SAFETY: the caller's promise.
    unsafe { give(stream, pointer(handle)) }
}

pub fn destroy(stream: *mut c_void) -> Outcome {
    STREAMS.remove(number(stream))?.queue.close();
    Ok(())
}

pub fn synchronize(stream: *mut c_void) -> Outcome {
    queue(stream)?.synchronize()
}

pub fn query(stream: *mut c_void) -> Outcome {
    let queue = queue(stream)?;
    let idle = queue.is_idle();
    // Checked after the count: an operation that faulted has lost the context before it counts as finished.
    queue.context.check()?;
    if idle { Ok(()) } else { Err(Code::NOT_READY) }
}

pub fn record_event(event: *mut c_void, stream: *mut c_void) -> Outcome {
    let event = event::get(event)?;
    let queue = queue(stream)?;
    let strict = known_settings().is_ok_and(|settings| settings.is_strict(Strictness::GreenEvents));
    if !context::same(&event.context, &queue.context) || (strict && event.made_in != queue.made_in) {
        return Err(Code::INVALID_HANDLE);
    }
    queue.enqueue_mark(event.record());
    Ok(())
}

pub fn wait_event(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> Outcome {
    // CU_EVENT_WAIT_EXTERNAL belongs to graphs.
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let queue = queue(stream)?;
    // Only the records so far.
    let ticket = event::get(event)?.recorded();
    queue.enqueue(move |queue| {
        // The wait is given up only if the context has been lost, and no later work runs then.
        let _ = ticket.wait(&queue.context);
        Ok(())
    });
    Ok(())
}

/// # Safety
/// `function` may be called with `data` from another thread, once, later.
pub unsafe fn launch_host_function(
    stream: *mut c_void,
    function: HostFunction,
    data: *mut c_void,
) -> Outcome {
    let function = function.ok_or(Code::INVALID_VALUE)?;
    let data = data as usize;
    queue(stream)?.enqueue(move |_| {
        // SAFETY: the caller's promise.
        in_host_function(|| unsafe { function(data as *mut c_void) });
        Ok(())
    });
    Ok(())
}
