//! The kernels that order a gather's visits, compared with a sort by regions.

use std::ffi::c_void;

use uva_kernel_sim::launch;
use uva_kernels::gather::GatherReport;
use uva_kernels::order::{ORDER_STEPS, OrderArguments};

/// The order of these ids, by grids of this many blocks and threads.
fn order(ids: &[i64], regions: usize, row_bits: u32, blocks: u32, threads: u32) -> Vec<u32> {
    let mut places = vec![0_u32; regions + 1];
    let mut order = vec![u32::MAX; ids.len()];
    let mut report = GatherReport::PREPARED;
    let mut arguments = OrderArguments {
        ids: ids.as_ptr() as u64,
        count: ids.len() as u64,
        regions: regions as u64,
        row_bits: u64::from(row_bits),
        places: places.as_mut_ptr() as u64,
        order: order.as_mut_ptr() as u64,
        report: std::ptr::from_mut(&mut report) as u64,
    };
    arguments.check().unwrap();
    for step in ORDER_STEPS {
        let parameters = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
        // SAFETY: one parameter, of the kernels' type; the vectors are as long as it says, and live as the report does.
        unsafe { launch(step, [blocks, 1, 1], [threads, 1, 1], 0, parameters.as_ptr()) }.unwrap();
    }
    assert_ne!(report, GatherReport::PREPARED, "the gather has begun");
    assert_eq!(GatherReport { began_ns: u64::MAX, ..report }, GatherReport::PREPARED, "and nothing else");
    assert_eq!(places[regions] as usize, ids.len(), "every row has a place in a region's range");
    order
}

fn region(id: i64, regions: usize, row_bits: u32) -> usize {
    ((id as u64 >> row_bits) as usize).min(regions - 1)
}

fn check(ids: &[i64], regions: usize, row_bits: u32, blocks: u32, threads: u32) {
    let order = order(ids, regions, row_bits, blocks, threads);
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..ids.len() as u32), "each position once");
    let visited: Vec<usize> =
        order.iter().map(|&position| region(ids[position as usize], regions, row_bits)).collect();
    let mut seen = vec![false; regions];
    for pair in visited.chunk_by(|one, other| one == other) {
        assert!(!seen[pair[0]], "the rows of region {} lie together", pair[0]);
        seen[pair[0]] = true;
    }
}

#[test]
fn rows_of_a_region_are_visited_together_by_any_grid() {
    let ids: Vec<i64> =
        (0..3000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as i64).collect();
    for (blocks, threads) in [(1, 32), (1, 512), (3, 96), (8, 512)] {
        // 64, 2 and 65,536 regions of a table of 65,536 rows.
        for (regions, row_bits) in [(64, 10), (2, 15), (1 << 16, 0)] {
            check(&ids, regions, row_bits, blocks, threads);
        }
    }
}

#[test]
fn ids_that_are_not_rows_have_a_place_too() {
    check(&[-1, i64::MAX, 5, i64::MIN, 5, 1 << 40, 0], 3, 2, 2, 64);
    check(&[], 3, 2, 2, 64);
    check(&[7], 1, 63, 1, 32);
}
