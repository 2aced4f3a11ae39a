//! `cache_insert` compared with a plain loop: every alignment of either side, row sizes, grids, and no other writes.

use std::ffi::c_void;

use uva_kernel_sim::launch;
use uva_kernels::cache::{CACHE_INSERT, CacheInsertion, InsertArguments};

const ROWS: usize = 40;
const SLOTS: usize = 24;
const UNTOUCHED: u8 = 0xEE;

/// Inserts `count` rows, from the first slot on, and compares everything.
fn check(row_bytes: usize, from_offset: usize, to_offset: usize, count: usize, blocks: u32, threads: u32) {
    let case = format!(
        "{count} rows of {row_bytes} bytes, offsets {from_offset} and {to_offset}, {blocks} blocks of {threads}"
    );
    let noise = |at: usize| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0];
    // 16-byte words, so that an offset is relative to a multiple of 16.
    let mut gathered = vec![0_u128; (ROWS * row_bytes + from_offset).div_ceil(16)];
    let mut cache = vec![0_u128; (SLOTS * row_bytes + to_offset).div_ceil(16) + 4];
    // SAFETY: plain bytes of vectors that live to the end.
    let bytes = |words: &mut Vec<u128>| unsafe {
        std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), words.len() * 16)
    };
    let gathered = bytes(&mut gathered);
    gathered.iter_mut().enumerate().for_each(|(at, byte)| *byte = noise(at));
    let cache = bytes(&mut cache);
    cache.fill(UNTOUCHED);
    // Row 2 i goes to slot i from position 39 - i; slots of odd numbers were row 2 i + 1's.
    let insertions: Vec<CacheInsertion> = (0..count)
        .map(|i| CacheInsertion {
            evicted: if i % 2 == 1 { 2 * i as i64 + 1 } else { -1 },
            inserted: 2 * i as i64,
            position: (ROWS - 1 - i) as u64,
            slot: i as i64,
        })
        .collect();
    let mut slot_map: Vec<i32> =
        (0..2 * SLOTS).map(|row| if row % 4 == 3 { row as i32 / 2 } else { -1 }).collect();
    let (mut expected_cache, mut expected_map) = (cache.to_vec(), slot_map.clone());
    for (i, insertion) in insertions.iter().enumerate() {
        let row = &gathered[from_offset + insertion.position as usize * row_bytes..][..row_bytes];
        expected_cache[to_offset + i * row_bytes..][..row_bytes].copy_from_slice(row);
        expected_map[2 * i] = i as i32;
        if i % 2 == 1 {
            expected_map[2 * i + 1] = -1;
        }
    }
    let mut arguments = InsertArguments {
        insertions: insertions.as_ptr() as u64,
        count: count as u64,
        gathered: gathered[from_offset..].as_ptr() as u64,
        row_bytes: row_bytes as u64,
        slot_map: slot_map.as_mut_ptr() as u64,
        cache: cache[to_offset..].as_mut_ptr() as u64,
    };
    let parameters = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
    // SAFETY: one parameter, of the kernel's type; all memory that it refers to has the given sizes.
    unsafe { launch(CACHE_INSERT, [blocks, 1, 1], [threads, 1, 1], 0, parameters.as_ptr()) }
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(cache == expected_cache, "{case}: rows differ from a plain loop's, or bytes around them changed");
    assert_eq!(slot_map, expected_map, "{case}: slots");
}

#[test]
fn every_row_size_at_every_alignment_of_either_side_is_inserted() {
    for row_bytes in (1..=68).chain([100, 128, 188, 256, 400, 480, 516, 1024, 1025, 2048, 2052, 4096]) {
        for from_offset in 0..16 {
            for to_offset in [0, 1, 4, 8, (from_offset * 7 + 3) % 16] {
                check(row_bytes, from_offset, to_offset, 6, 1, 64);
            }
        }
    }
}

#[test]
fn any_number_of_insertions_is_carried_out_by_any_grid() {
    for (blocks, threads) in [(1, 32), (1, 512), (3, 64), (20, 96)] {
        for count in 0..=SLOTS {
            check(64, 0, 0, count, blocks, threads);
            check(5, 3, 1, count, blocks, threads);
        }
    }
}
