//! Events: points in a stream that others wait for, in this or another process.
//!
//! An event of one process keeps its last record; records complete independently. A shared event is a pair of counters
//! in a memfd: the number of enqueued records, and the highest completed one. A wait uses the number of records at its
//! call. Records of a process that has died never complete.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::thread::futex;
use rustix::time::ClockId;

use crate::device_memory::memory_file::{Mapping, MemoryFile, PAGE, Purpose};
use crate::machine::codes::{Code, Outcome};
use crate::machine::context::{self, Context};
use crate::machine::registry::{Registry, give, lock, number, pointer};

/// The time that a waiter sleeps before it checks whether its context has been lost.
pub const LOOK: Duration = Duration::from_millis(20);

const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;

/// An event.
pub struct Event {
    pub context: Arc<Context>,
    /// The context that was current at creation; green contexts are distinct here.
    pub made_in: u64,
    kind: Kind,
}

enum Kind {
    Local { last: Mutex<Option<Arc<Record>>>, timing: bool },
    Shared(Arc<SharedEvent>),
}

/// One record of a local event.
#[derive(Default)]
pub struct Record {
    /// The time at which the stream reached it, in nanoseconds of the monotonic clock.
    reached: Mutex<Option<u64>>,
    done: Condvar,
}

/// The shared part of an event, at the start of its memfd.
#[repr(C)]
struct Counters {
    recorded: AtomicU64,
    completed: AtomicU64,
    /// Changes with every completion; waiters sleep on it.
    changes: AtomicU32,
}

/// An event's counters, mapped.
pub struct SharedEvent {
    pub file: MemoryFile,
    mapping: Mapping,
    /// Whether the event was created here, not imported.
    own: bool,
}

impl SharedEvent {
    fn counters(&self) -> &Counters {
        // SAFETY: the file is an event's own (its name says so), sealed, and of a whole page, which holds the counters
        // at its aligned start; every process reaches them through atomics only.
        unsafe { &*(self.mapping.address() as usize as *const Counters) }
    }

    fn complete(&self, number: u64) {
        let counters = self.counters();
        // Release: a reader of the number sees all that the stream did before. Pairs with the load in `is_complete`.
        counters.completed.fetch_max(number, Ordering::Release);
        counters.changes.fetch_add(1, Ordering::Release);
        // Not private: waiters are other processes. It fails on bad arguments only.
        let _ = futex::wake(&counters.changes, futex::Flags::empty(), i32::MAX as u32);
    }
}

/// The records at one moment.
#[derive(Clone)]
pub enum Ticket {
    /// No record yet, which is complete by definition.
    Nothing,
    Local(Arc<Record>),
    Shared(Arc<SharedEvent>, u64),
}

impl Ticket {
    fn is_complete(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Local(record) => lock(&record.reached).is_some(),
            Self::Shared(event, number) => event.counters().completed.load(Ordering::Acquire) >= *number,
        }
    }

    /// Waits until it is complete.
    ///
    /// # Errors
    /// The error by which the waiter's own `context` was lost in the meantime. Another process's death is not an error:
    /// its records never complete.
    pub fn wait(&self, context: &Context) -> Outcome {
        loop {
            context.check()?;
            match self {
                Self::Nothing => return Ok(()),
                Self::Local(record) => {
                    let reached = lock(&record.reached);
                    if reached.is_some() {
                        return Ok(());
                    }
                    drop(record.done.wait_timeout(reached, LOOK));
                }
                Self::Shared(event, _) => {
                    let changes = &event.counters().changes;
                    // Read before the check, so that a completion after it makes the sleep return at once.
                    let seen = changes.load(Ordering::Acquire);
                    if self.is_complete() {
                        return Ok(());
                    }
                    let timeout = futex::Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
                    // Woken, changed before, timed out or interrupted: check again.
                    let _ = futex::wait(changes, futex::Flags::empty(), seen, Some(&timeout));
                }
            }
        }
    }

    /// Completes the record, and wakes its waiters.
    pub fn complete(&self) {
        match self {
            Self::Nothing => {}
            Self::Local(record) => {
                *lock(&record.reached) = Some(clock_ns());
                record.done.notify_all();
            }
            Self::Shared(event, number) => event.complete(*number),
        }
    }
}

impl Event {
    /// The records so far.
    pub fn recorded(&self) -> Ticket {
        match &self.kind {
            Kind::Local { last, .. } => lock(last).clone().map_or(Ticket::Nothing, Ticket::Local),
            Kind::Shared(event) => match event.counters().recorded.load(Ordering::Acquire) {
                0 => Ticket::Nothing,
                number => Ticket::Shared(event.clone(), number),
            },
        }
    }

    /// Begins another record.
    pub fn record(&self) -> Ticket {
        match &self.kind {
            Kind::Local { last, .. } => {
                let record = Arc::<Record>::default();
                *lock(last) = Some(record.clone());
                Ticket::Local(record)
            }
            Kind::Shared(event) => {
                let number = event.counters().recorded.fetch_add(1, Ordering::AcqRel) + 1;
                Ticket::Shared(event.clone(), number)
            }
        }
    }

    /// The shared part of an event made for other processes.
    pub fn shared(&self) -> Option<&Arc<SharedEvent>> {
        match &self.kind {
            Kind::Shared(event) if event.own => Some(event),
            _ => None,
        }
    }

    fn reached_ns(&self) -> Result<u64, Code> {
        let Kind::Local { last, timing: true } = &self.kind else { return Err(Code::INVALID_HANDLE) };
        let record = lock(last).clone().ok_or(Code::INVALID_HANDLE)?;
        let reached = *lock(&record.reached);
        reached.ok_or(Code::NOT_READY)
    }
}

static EVENTS: Registry<Event> = Registry::new();

/// Nanoseconds of the monotonic clock.
pub fn clock_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Resolves an event's handle.
///
/// # Errors
/// `CUDA_ERROR_INVALID_HANDLE` if it is not an event.
pub fn get(event: *mut c_void) -> Result<Arc<Event>, Code> {
    EVENTS.get(number(event))
}

/// Registers an event of another process, and returns its handle.
pub fn import(context: Arc<Context>, file: MemoryFile) -> Result<u64, Code> {
    let mapping = Mapping::of(&file)?;
    let kind = Kind::Shared(Arc::new(SharedEvent { file, mapping, own: false }));
    Ok(EVENTS.insert(Arc::new(Event { context, made_in: context::current_handle(), kind })))
}

/// Removes the events of a context that is being destroyed.
pub fn end_all_of(context: &Arc<Context>) {
    EVENTS.retain(|event| !context::same(&event.context, context));
}

/// Creates an event.
///
/// # Safety
/// `event` is null or writable.
pub unsafe fn create(event: *mut *mut c_void, flags: c_uint) -> Outcome {
    let interprocess = flags & INTERPROCESS != 0;
    if event.is_null() || flags > 7 || (interprocess && flags & DISABLE_TIMING == 0) {
        return Err(Code::INVALID_VALUE);
    }
    let kind = if interprocess {
        let file = MemoryFile::create(Purpose::Event, PAGE)?;
        let mapping = Mapping::of(&file)?;
        Kind::Shared(Arc::new(SharedEvent { file, mapping, own: true }))
    } else {
        Kind::Local { last: Mutex::new(None), timing: flags & DISABLE_TIMING == 0 }
    };
    let (context, made_in) = (context::current()?, context::current_handle());
    let handle = EVENTS.insert(Arc::new(Event { context, made_in, kind }));
    // SAFETY: the caller's promise.
    unsafe { give(event, pointer(handle)) }
}

pub fn destroy(event: *mut c_void) -> Outcome {
    EVENTS.remove(number(event)).map(|_| ())
}

pub fn query(event: *mut c_void) -> Outcome {
    if get(event)?.recorded().is_complete() { Ok(()) } else { Err(Code::NOT_READY) }
}

pub fn synchronize(event: *mut c_void) -> Outcome {
    let event = get(event)?;
    event.recorded().wait(&event.context)
}

/// Returns the time between two events.
///
/// # Safety
/// `milliseconds` is null or writable.
pub unsafe fn elapsed(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) -> Outcome {
    let (start, end) = (get(start)?.reached_ns()?, get(end)?.reached_ns()?);
    let nanoseconds = i128::from(end) - i128::from(start);
    // SAFETY: the caller's promise.
    unsafe { give(milliseconds, nanoseconds as f32 / 1e6) }
}
