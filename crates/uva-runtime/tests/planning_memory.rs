//! A separate program from `integration`: the allocator counts the bytes of all threads.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uva_graph::Dataset;
use uva_plan::CachePolicy;
use uva_runtime::LoaderOptions;
use uva_runtime::backend::Backend;
use uva_runtime::tune::planning;

/// Bytes allocated now, and the most at a time.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn add(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

fn remove(bytes: usize) {
    NOW.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator with the same arguments, so that allocator's guarantees
// hold here. Counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises about `layout` are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        remove(layout.size());
        // SAFETY: `pointer` came from the system's allocator, through one of these methods, with this `layout`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        remove(layout.size());
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_plan_allocates_at_most_three_bytes_an_edge() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 500_000, 20.0)).unwrap());
    let options = LoaderOptions { fanouts: [4, 3].into(), batch_size: 200, ..LoaderOptions::default() };
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let budget = (dataset.edges() / 2) as u64;
    let (plan, _) =
        planning::plan(&dataset, &options, &Backend::Cpu, budget, CachePolicy::PRESAMPLE, &|_| {}).unwrap();
    // Samplers map another 4 bytes per node and thread while they count, which this does not include.
    let taken = MOST.load(Ordering::Relaxed) - before;
    // Both caches were timed with several sizes.
    assert!(plan.timed_sampling.len() > 2 && plan.timed_gathering.len() > 2, "{plan:?}");
    assert!(plan.timed_sampling.iter().all(|(rate, _)| (0.0..1.0).contains(rate)));
    assert!(taken < 3 * dataset.edges(), "{taken} bytes for {} edges", dataset.edges());
}
