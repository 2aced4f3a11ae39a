//! Ranges of memory that a forked child cannot access.
//!
//! A slot belongs to the process that created it. A forked child has copies of the pointers into the slot, so the
//! addresses must not become free in the child: a later mapping there would be read as rows of a batch. So in a child
//! of `fork` each guarded range is mapped without access. Reading it is a SIGSEGV, and the child does not keep its
//! memory alive.
//!
//! `vfork` and `posix_spawn` run no handlers of `pthread_atfork`, which is correct, since their child shares the
//! mappings of its parent until it calls exec.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// [`Range::start`] of an entry without a range.
const UNUSED: usize = 0;
/// [`Range::start`] of an entry that a thread is about to fill. No range has this address, since ranges are
/// page-aligned.
const CLAIMED: usize = 1;

/// The head of the list of ranges. Entries are pushed at the head and live as long as the process.
static FIRST: AtomicPtr<Range> = AtomicPtr::new(ptr::null_mut());
/// Whether the handler is registered.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// An entry of the list. The list has no lock, since a child would inherit one that another thread holds.
#[derive(Debug)]
struct Range {
    /// The first byte, [`UNUSED`] or [`CLAIMED`]. The address is stored last with Release, in [`ForkGuard::list`], and
    /// loaded first with Acquire, in [`guard_child`]: the other fields then belong to this range.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Whether a child has the mapping. If not, its addresses are free in the child.
    inherited: AtomicBool,
    /// Never changes once the entry is in the list.
    next: *const Range,
}

/// The pages of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// A file, shared: fork copies no page tables for it.
    Shared,
    /// Private anonymous memory. Fork must not make its pages copy-on-write: pinned pages must not move.
    Private,
}

/// A guard that hides a range of memory from children of `fork`. Must be dropped before the range is unmapped.
#[derive(Debug)]
pub(crate) struct ForkGuard(&'static Range);

// SAFETY: `Range::next` is the only field that is not atomic. It is written before the entry is in the list, and points
// to an entry that lives as long as the process.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

impl ForkGuard {
    /// Guards the `bytes` bytes from `start` on, which must be whole pages of a mapping owned by the caller.
    ///
    /// # Panics
    /// If the system has no memory to register a handler.
    pub(crate) fn new(start: *mut u8, bytes: usize, backing: Backing) -> Self {
        // Two threads may both register it, which is harmless: the handler can run twice. Relaxed: no other data is
        // ordered by it.
        if !REGISTERED.load(Ordering::Relaxed) {
            // SAFETY: the handler is a function of this program that only makes system calls (see there).
            let registered = unsafe { libc::pthread_atfork(None, None, Some(guard_child)) };
            assert_eq!(registered, 0, "no memory to register a handler of forks");
            REGISTERED.store(true, Ordering::Relaxed);
        }
        let inherited = backing == Backing::Shared || advise(start, bytes, Advice::LinuxWipeOnFork).is_ok();
        if !inherited {
            // If wiping is not supported, the child gets no pages, and the handler reserves the addresses.
            let _ = advise(start, bytes, Advice::LinuxDontFork);
        }
        Self::list(start.addr(), bytes, inherited)
    }

    fn list(start: usize, bytes: usize, inherited: bool) -> Self {
        let range = Self::unused();
        range.bytes.store(bytes, Ordering::Relaxed);
        range.inherited.store(inherited, Ordering::Relaxed);
        range.start.store(start, Ordering::Release);
        Self(range)
    }

    /// Claims an entry for this thread: a free one, or a new one.
    fn unused() -> &'static Range {
        for range in ranges() {
            // Relaxed: an unused entry has no content to synchronise.
            let claimed = range.start.compare_exchange(UNUSED, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
            if claimed.is_ok() {
                return range;
            }
        }
        let range = Box::leak(Box::new(Range {
            start: AtomicUsize::new(CLAIMED),
            bytes: AtomicUsize::new(0),
            inherited: AtomicBool::new(false),
            next: ptr::null(),
        }));
        // Relaxed: an entry's `next` is loaded after FIRST, and the exchange below checks the value.
        let mut first = FIRST.load(Ordering::Relaxed);
        loop {
            range.next = first;
            // Release: partner of the load in `ranges`, which then sees `next`.
            match FIRST.compare_exchange_weak(first, range, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return range,
                Err(other) => first = other,
            }
        }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        // Relaxed: a fork that sees the range unmapped sees this store too, since both calls take the kernel's lock of
        // the address space.
        self.0.start.store(UNUSED, Ordering::Relaxed);
    }
}

/// All entries.
fn ranges() -> impl Iterator<Item = &'static Range> {
    // SAFETY: entries are leaked boxes, which stay valid. Acquire: partner of the exchange that inserted the entry.
    let first = unsafe { FIRST.load(Ordering::Acquire).as_ref() };
    // SAFETY: as above; the acquire above also orders the entries after the first one, each of which was in the list
    // when its predecessor was inserted.
    std::iter::successors(first, |range| unsafe { range.next.as_ref() })
}

/// Makes every guarded range inaccessible, in a child of `fork`.
///
/// Async-signal-safe: reads atomics and makes direct system calls, without libc's state, memory or locks. Ranges stay
/// listed, so a child of the child is guarded too.
unsafe extern "C" fn guard_child() {
    for range in ranges() {
        // Acquire: partner of the store in `ForkGuard::list`.
        let start = range.start.load(Ordering::Acquire);
        if start == UNUSED || start == CLAIMED {
            continue;
        }
        let place =
            if range.inherited.load(Ordering::Relaxed) { MapFlags::FIXED } else { MapFlags::FIXED_NOREPLACE };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | place;
        let (at, bytes) = (ptr::without_provenance_mut::<c_void>(start), range.bytes.load(Ordering::Relaxed));
        // SAFETY: the range is listed, so at the fork it was a whole mapping of its owner, and it still is in the
        // child, where no other code has run. The memory that the owner's pointers reach in this process becomes
        // inaccessible and stays reserved, which is the purpose. If the child has no mapping at the address, none is
        // replaced. A failure leaves the state that fork has made: the parent's memory or no mapping, and no foreign
        // memory.
        let _ = unsafe { rustix::mm::mmap_anonymous(at, bytes, ProtFlags::empty(), flags) };
    }
}

fn advise(start: *mut u8, bytes: usize, advice: Advice) -> rustix::io::Result<()> {
    // SAFETY: the range is the caller's own mapping, and neither advice changes a byte of it in this process.
    unsafe { rustix::mm::madvise(start.cast(), bytes, advice) }
}
