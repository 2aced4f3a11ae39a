//! The addresses that a device may use: all allocated, mapped, imported or registered ranges, each with the number of
//! running operations that use it.
//!
//! Invariant: an operation holds its ranges while it runs, and a range's pages are removed only after it has left the
//! table and is no longer held. So a use of an address that was freed too early is an illegal address here, never a
//! crash.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use uva_kernels::Access;

use crate::machine::registry::lock;

/// The kind of memory of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Memory of cuMemAlloc, or imported from it.
    Allocation,
    /// Mapped by cuMemMap.
    Virtual,
    /// Memory of cuMemHostAlloc.
    Pinned,
    /// Memory of the caller, by cuMemHostRegister.
    Registered,
}

impl Kind {
    pub fn is_device(self) -> bool {
        matches!(self, Self::Allocation | Self::Virtual)
    }
}

#[derive(Debug)]
struct Range {
    bytes: u64,
    kind: Kind,
    readable: bool,
    writable: bool,
    uses: Arc<Uses>,
}

#[derive(Debug, Default)]
struct Uses {
    running: Mutex<usize>,
    idle: Condvar,
}

/// By first address; they never overlap.
static RANGES: Mutex<BTreeMap<u64, Range>> = Mutex::new(BTreeMap::new());

/// A guard of ranges in use.
#[derive(Debug, Default)]
pub struct Hold(Vec<Arc<Uses>>);

impl Hold {
    fn take(&mut self, uses: &Arc<Uses>) {
        *lock(&uses.running) += 1;
        self.0.push(uses.clone());
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for uses in &self.0 {
            let mut running = lock(&uses.running);
            *running -= 1;
            if *running == 0 {
                uses.idle.notify_all();
            }
        }
    }
}

/// Inserts a range. Returns false if it overlaps another one.
pub fn insert(start: u64, bytes: u64, kind: Kind, readable: bool, writable: bool) -> bool {
    let mut ranges = lock(&RANGES);
    let before = ranges.range(..start.saturating_add(bytes)).next_back();
    if before.is_some_and(|(first, range)| first + range.bytes > start) {
        return false;
    }
    ranges.insert(start, Range { bytes, kind, readable, writable, uses: Arc::default() });
    true
}

/// Changes the access rights of the range that begins at `start`.
pub fn protect(start: u64, readable: bool, writable: bool) {
    if let Some(range) = lock(&RANGES).get_mut(&start) {
        (range.readable, range.writable) = (readable, writable);
    }
}

/// A removed range: new operations do not find it, but some may still use it.
#[derive(Debug)]
pub struct Removed(Arc<Uses>);

impl Removed {
    /// Waits until no operation uses it, like the driver's own functions.
    pub fn wait(self) {
        let mut running = lock(&self.0.running);
        while *running > 0 {
            running = self.0.idle.wait(running).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Whether no operation uses it.
    pub fn is_idle(&self) -> bool {
        *lock(&self.0.running) == 0
    }
}

/// Takes the range that begins at `start` out of the table.
pub fn remove(start: u64) -> Option<Removed> {
    lock(&RANGES).remove(&start).map(|range| Removed(range.uses))
}

/// Marks `bytes` bytes from `start` as in use; `None` if any byte may not be used in this way.
///
/// Registered ranges, and mappings of virtual addresses, may be joined; two allocations may not, even if adjacent.
pub fn hold(start: u64, bytes: u64, access: Access, device_only: bool) -> Option<Hold> {
    let mut hold = Hold::default();
    if bytes == 0 {
        return Some(hold);
    }
    let end = start.checked_add(bytes)?;
    let ranges = lock(&RANGES);
    let mut at = start;
    let mut kind = None;
    while at < end {
        let (first, range) = ranges.range(..=at).next_back()?;
        let range_end = first + range.bytes;
        let allowed = match access {
            Access::Read => range.readable,
            Access::Write => range.writable,
        };
        let joins = match kind {
            None => true,
            Some(kind) => kind == range.kind && matches!(kind, Kind::Registered | Kind::Virtual),
        };
        if range_end <= at || !allowed || !joins || (device_only && !range.kind.is_device()) {
            return None;
        }
        kind = Some(range.kind);
        hold.take(&range.uses);
        at = range_end;
    }
    Some(hold)
}

/// Marks the whole range around `address` as in use, for reads of unknown length.
pub fn hold_around(address: u64) -> Option<Hold> {
    let ranges = lock(&RANGES);
    let (first, range) = ranges.range(..=address).next_back()?;
    if first + range.bytes <= address || !range.readable {
        return None;
    }
    let mut hold = Hold::default();
    hold.take(&range.uses);
    Some(hold)
}

/// The first address and the kind of the range that contains `address`.
pub fn around(address: u64) -> Option<(u64, Kind)> {
    let ranges = lock(&RANGES);
    let (first, range) = ranges.range(..=address).next_back()?;
    (address < first + range.bytes).then_some((*first, range.kind))
}

/// Whether any byte of these is in the table.
pub fn overlaps(start: u64, bytes: u64) -> bool {
    let ranges = lock(&RANGES);
    let before = ranges.range(..start.saturating_add(bytes)).next_back();
    before.is_some_and(|(first, range)| first + range.bytes > start)
}
