//! Tests of the shim: blocks, warps, shuffles, shared memory and atomics behave as in CUDA.

use std::ffi::c_void;

use uva_kernel_sim::{AccessLog, LaunchError, entry_points, launch, launch_logged};

/// The addresses of kernel parameters, as `cuLaunchKernel` takes them.
fn pointers<const N: usize>(values: &mut [u64; N]) -> [*mut c_void; N] {
    values.each_mut().map(|value| std::ptr::from_mut(value).cast())
}

fn address<T>(values: &mut [T]) -> u64 {
    values.as_mut_ptr() as u64
}

#[test]
fn a_shuffle_reaches_every_lane_of_every_warp() {
    let mut values: Vec<u32> = (0..4 * 96).collect();
    let mut arguments = [address(&mut values)];
    // SAFETY: one pointer to 4 blocks × 96 values.
    unsafe { launch("selftest_reverse", [4, 1, 1], [96, 1, 1], 0, pointers(&mut arguments).as_ptr()) }
        .unwrap();
    for (at, value) in values.iter().enumerate() {
        assert_eq!(*value as usize, at / 32 * 32 + 31 - at % 32);
    }
}

#[test]
fn a_block_shares_its_memory_and_a_barrier_waits_for_all_its_warps() {
    let mut values: Vec<u32> = (0..3 * 256).collect();
    let mut sums = vec![0_u32; 3 * 256];
    let mut arguments = [address(&mut values), address(&mut sums)];
    // SAFETY: two pointers to 3 blocks × 256 values.
    unsafe { launch("selftest_block_sum", [3, 1, 1], [256, 1, 1], 0, pointers(&mut arguments).as_ptr()) }
        .unwrap();
    for (block, sums) in sums.chunks(256).enumerate() {
        let expected: u32 = values[block * 256..][..256].iter().sum();
        assert!(sums.iter().all(|sum| *sum == expected), "block {block}: {sums:?}");
    }
}

#[test]
fn threads_and_blocks_are_numbered_as_cuda_numbers_them() {
    let (grid, block) = ([2, 3, 2], [5, 2, 4]);
    let all = 12 * 40;
    let mut threads = vec![[9_u32; 3]; all];
    let mut blocks = vec![[9_u32; 3]; all];
    let mut arguments = [address(&mut threads), address(&mut blocks)];
    // SAFETY: two pointers to three numbers for each of 12 blocks × 40 threads.
    unsafe { launch("selftest_where", grid, block, 0, pointers(&mut arguments).as_ptr()) }.unwrap();
    for at in 0..all {
        let (block_number, thread) = (at as u32 / 40, at as u32 % 40);
        assert_eq!(threads[at], [thread % 5, thread / 5 % 2, thread / 10]);
        assert_eq!(blocks[at], [block_number % 2, block_number / 2 % 3, block_number / 6]);
    }
}

#[test]
fn mistakes_of_a_kernel_are_errors_and_the_next_launch_works() {
    let mut values = vec![7_u32; 64];
    let mut one = [address(&mut values)];
    for (name, part) in
        [("selftest_diverge", "different operations"), ("selftest_return_early", "returned while others")]
    {
        // SAFETY: one pointer to at least 32 values.
        let error =
            unsafe { launch(name, [1, 1, 1], [32, 1, 1], 0, pointers(&mut one).as_ptr()) }.unwrap_err();
        assert!(error.to_string().contains(part) && error.to_string().contains(name), "{error}");
    }
    let mut word = [0_u32];
    let mut two = [address(&mut values), address(&mut word)];
    // SAFETY: pointers to bytes to read and a word to write.
    let error =
        unsafe { launch("selftest_misaligned", [1, 1, 1], [1, 1, 1], 0, pointers(&mut two).as_ptr()) };
    assert!(error.unwrap_err().to_string().contains("not aligned"));
    a_shuffle_reaches_every_lane_of_every_warp();
}

#[test]
fn what_cannot_be_launched_is_refused_before_anything_runs() {
    let none = std::ptr::null();
    // SAFETY: refused before any argument is read.
    let refused = |name, grid, block, shared| unsafe { launch(name, grid, block, shared, none) }.unwrap_err();
    assert_eq!(refused("gather_fast", [1; 3], [1; 3], 0), LaunchError::Unknown("gather_fast".to_owned()));
    for (grid, block) in
        [([1, 0, 1], [32, 1, 1]), ([1, 1, 1], [0, 1, 1]), ([1, 1, 1], [32, 33, 1]), ([1; 3], [u32::MAX; 3])]
    {
        assert!(matches!(refused("gather_begin", grid, block, 0), LaunchError::Shape { .. }));
    }
    assert!(matches!(
        refused("gather_begin", [1; 3], [1; 3], 16),
        LaunchError::SharedMemory { bytes: 16, .. }
    ));
}

#[test]
fn launches_on_several_threads_do_not_disturb_each_other() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    a_block_shares_its_memory_and_a_barrier_waits_for_all_its_warps();
                }
            });
        }
    });
}

#[test]
fn a_small_stack_is_enough_to_launch() {
    let thread = std::thread::Builder::new().stack_size(64 * 1024);
    let run = a_block_shares_its_memory_and_a_barrier_waits_for_all_its_warps;
    thread.spawn(run).unwrap().join().unwrap();
}

#[test]
fn the_log_keeps_only_what_touches_the_watched_range() {
    let mut bytes = vec![0_u32; 8];
    let mut word = [0_u32];
    let start = address(&mut bytes);
    for (watched, logged) in
        [(start + 4..start + 8, true), (start + 8..start + 12, false), (start..start + 4, false)]
    {
        let mut log = AccessLog::new(watched);
        // The kernel reads four bytes at its argument + 1.
        let mut arguments = [start + 3, address(&mut word)];
        // SAFETY: pointers to bytes to read and a word to write.
        unsafe {
            launch_logged(
                "selftest_misaligned",
                [1; 3],
                [1; 3],
                0,
                pointers(&mut arguments).as_ptr(),
                &mut log,
            )
        }
        .unwrap();
        assert_eq!(log.instructions.len(), usize::from(logged), "{log:?}");
        for access in &log.instructions {
            assert_eq!(
                (access.lanes[0].address, access.lanes[0].bytes, access.lanes[0].lane),
                (start + 4, 4, 0)
            );
        }
    }
}

#[test]
fn a_kernel_that_waits_for_the_host_continues_when_signalled() {
    let flag = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut arguments = [flag.as_ptr() as u64];
            // SAFETY: one pointer to a word that outlives the thread and is only set by an atomic.
            unsafe { launch("spin_until", [1; 3], [1; 3], 0, pointers(&mut arguments).as_ptr()) }
        });
        flag.store(1, std::sync::atomic::Ordering::Release);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn every_entry_point_of_the_kernels_is_there() {
    let names = entry_points();
    for entry in uva_kernels::entry_points() {
        assert!(names.contains(&entry.name), "{}: {names:?}", entry.name);
    }
}
