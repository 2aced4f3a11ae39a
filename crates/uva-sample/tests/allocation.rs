//! Batches make no allocation, and a sampler's memory is bounded. Counted by a custom allocator.

#[path = "integration/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Graph, key};
use uva_graph::Split;
use uva_sample::{SamplerKind, SamplerOptions, SeedOrder};

thread_local! {
    /// Allocations of this thread so far, and their bytes. Initialised as a constant, so reading it allocates nothing.
    static ALLOCATED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(layout: Layout) {
    let (times, bytes) = ALLOCATED.get();
    ALLOCATED.set((times + 1, bytes + layout.size()));
}

// SAFETY: every call is passed on to the system's allocator with the same arguments, so that allocator's guarantees
// hold here. Counting accesses a thread-local cell without a destructor and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller's promises about `layout` are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout);
        // SAFETY: `pointer` came from the system's allocator, through one of these methods, with this `layout`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn graph(nodes: i64) -> Graph {
    let list = |node: i64| (0..node % 37).map(|i| (node * 31 + i * i * 7) % nodes).collect();
    let lists: Vec<Vec<i64>> = (0..nodes).map(list).collect();
    let weights: Vec<Vec<f32>> =
        lists.iter().map(|list| (0..list.len()).map(|place| (place % 5) as f32).collect()).collect();
    Graph::from_lists(&lists).weighted(&weights)
}

#[test]
fn batches_and_epochs_allocate_nothing() {
    let wide = graph(5000);
    let narrow = wide.clone().narrow();
    for (graph, kind) in
        [&wide, &narrow].into_iter().flat_map(|graph| SamplerKind::ALL.map(|kind| (graph, kind)))
    {
        // With replacement every list is drawn from, so 70,000 would be refused.
        for (fanouts, replace) in [
            (&[15, 10, 5][..], false),
            (&[15, 10, 5], true),
            (&[-1, 3], false),
            (&[70_000], false),
            (&[300], true),
        ] {
            let replace = replace && kind.replaces();
            // A layer that is drawn as a whole needs more nodes than a list has picks.
            let larger = |fanout: i32| if fanout < 0 { fanout } else { (50 * fanout).min(70_000) };
            let of_layer = kind.draws_together();
            let fanouts = fanouts.iter().map(|&fanout| if of_layer { larger(fanout) } else { fanout });
            let fanouts = common::fanouts_for(kind, &fanouts.collect::<Vec<i32>>());
            let options =
                SamplerOptions { kind, fanouts: fanouts[..].into(), replace, ..SamplerOptions::default() };
            let mut sampler = graph.sampler_for(&options);
            let mut batch = graph.room_for(500, &options);
            let mut order = SeedOrder::new(1, Split::Train, 5000, true, 500, false).unwrap();
            let mut seeds = Vec::with_capacity(500);

            let before = ALLOCATED.get();
            let mut edges = 0;
            // Kinds that read more than lists take longer.
            for epoch in 0..if kind.picks_in_lists() { 3 } else { 1 } {
                order.prepare(epoch).unwrap();
                for number in 0..order.batches() {
                    seeds.clear();
                    seeds.extend(order.batch(number).iter().map(|&seed| i64::from(seed)));
                    edges += sampler.sample_into(key(number as u32), &seeds, &mut batch).unwrap().edges();
                }
            }
            assert_eq!(ALLOCATED.get(), before, "{kind} {fanouts:?}");
            assert!(edges > 10_000);
        }
    }
}

#[test]
fn a_sampler_takes_what_its_kind_says_for_each_node_and_little_else() {
    let nodes = 1_000_000;
    let graph = Graph::from_lists(&vec![Vec::new(); nodes]).weighted(&[]);
    for kind in SamplerKind::ALL {
        let options = SamplerOptions { kind, fanouts: [15, 15, 15].into(), ..SamplerOptions::default() };
        let (_, before) = ALLOCATED.get();
        let sampler = graph.sampler_for(&options);
        let (_, after) = ALLOCATED.get();
        drop(sampler);
        // Local ids, and numbers of draws, are on separate pages, which this allocator does not count.
        let pages = if kind.draws_together() { 8 } else { 4 };
        let rest = (after - before) as i64 - ((kind.bytes_a_node(false) - pages) * nodes) as i64;
        assert!((0..512 << 10).contains(&rest), "{kind}: {rest} bytes");
    }
    assert_eq!(SamplerKind::NEIGHBOR.bytes_a_node(true), 4);
}
