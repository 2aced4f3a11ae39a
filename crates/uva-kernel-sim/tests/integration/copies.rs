//! `copy_arrays` compared with a plain copy: every alignment of either side, sizes around a piece, and no other writes.

use std::ffi::c_void;

use uva_kernel_sim::launch;
use uva_kernels::copies::{COPIES_AT_ONCE, COPY_ARRAYS, COPY_PIECE, CopyArguments, DeviceCopy};

const UNTOUCHED: u8 = 0xEE;

/// Copies of this many bytes, each from and to an address with these offsets from a multiple of 16.
fn check(copies: &[(usize, usize, usize)], blocks: u32, threads: u32) {
    let room = |bytes: usize| (bytes + 16).next_multiple_of(16) + 16;
    let total: usize = copies.iter().map(|&(bytes, ..)| room(bytes)).sum();
    let mut memory = [(); 2].map(|()| vec![0_u128; total / 16]);
    let [from, to] = memory.each_mut().map(|words| {
        // SAFETY: plain bytes of a vector that lives to the end.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), total) }
    });
    from.iter_mut().enumerate().for_each(|(at, byte)| *byte = ((at as u64 * 0x9E37_79B9) >> 13) as u8);
    to.fill(UNTOUCHED);
    let mut expected = to.to_vec();
    let (mut begin, mut listed) = (0, Vec::new());
    for &(bytes, of_from, of_to) in copies {
        let (at, target) = (begin + of_from, begin + of_to);
        expected[target..][..bytes].copy_from_slice(&from[at..][..bytes]);
        listed.push(DeviceCopy {
            from: from[at..].as_ptr() as u64,
            to: to[target..].as_mut_ptr() as u64,
            bytes: bytes as u64,
        });
        begin += room(bytes);
    }
    let mut arguments = CopyArguments::new(&listed);
    arguments.check().unwrap();
    let parameters = [std::ptr::from_mut(&mut arguments).cast::<c_void>()];
    // SAFETY: one parameter, of the kernel's type; all memory that it refers to has the given sizes.
    unsafe { launch(COPY_ARRAYS, [blocks, 1, 1], [threads, 1, 1], 0, parameters.as_ptr()) }.unwrap();
    assert!(*to == *expected, "{copies:?} by {blocks} blocks of {threads}");
}

#[test]
fn a_copy_is_whole_at_every_alignment_of_either_side() {
    for of_from in 0..16 {
        for of_to in 0..16 {
            check(&[(37, of_from, of_to), (700, of_to, of_from)], 1, 64);
        }
    }
}

#[test]
fn copies_of_any_sizes_share_one_launch_and_any_grid() {
    let piece = COPY_PIECE as usize;
    let sizes = [0, 1, 15, 16, 17, 1023, piece - 1, piece, piece + 1, 3 * piece + 5, 2 * piece];
    let copies: Vec<(usize, usize, usize)> = sizes.iter().map(|&bytes| (bytes, 0, 0)).collect();
    for (blocks, threads) in [(1, 32), (1, 512), (2, 96), (16, 512)] {
        check(&copies, blocks, threads);
    }
    check(&[], 2, 64);
    check(&[(100, 0, 0); COPIES_AT_ONCE], 3, 64);
}
