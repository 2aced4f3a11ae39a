//! Refusals, failures, and leftovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uva_cuda::kernels::gather::Kernel;
use uva_cuda::{CudaEvent, CudaStream};
use uva_rows::cuda::{BadId, FillError, SlotPlace, SlotShape};
use uva_rows::{GatherError, RowSource};

use super::machine::*;

#[test]
fn a_bad_id_is_in_the_report_by_zero_copy_and_refused_at_once_otherwise() {
    if !cuda_sim::in_process_with(
        "cuda::faults::a_bad_id_is_in_the_report_by_zero_copy_and_refused_at_once_otherwise",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    let ready = CudaEvent::local(&machine.context).unwrap();
    for mode in MODES {
        let mut filler = machine.filler(mode);
        for (number, id) in [-1, ROWS as i64, i64::MIN, i64::MAX, 1 << 32].into_iter().enumerate() {
            for position in [0, 100, 499] {
                let mut batch = Batch::new(&mut Random(number as u64), 500, number as u64 + 1);
                // A second bad id at the end: the first is the one that counts.
                for (at, id) in [(499, -77), (position, id)] {
                    batch.ids[at] = id;
                    batch.payload[IDS_AT + at * 8..][..8].copy_from_slice(&id.to_ne_bytes());
                }
                let result = batch.fill(&mut filler, 1, None, &ready);
                if mode == GatherMode::ZeroCopy {
                    result.unwrap();
                    let fill = filler.drain().unwrap().remove(0);
                    assert_eq!(fill.bad, Some(BadId { table: 0, position: position as u64, id }), "{mode:?}");
                } else {
                    let Err(FillError::Rows(error)) = result else { panic!("{mode:?}: {result:?}") };
                    assert_eq!(error, GatherError::IdOutOfRange { position, id, rows: ROWS });
                    assert!(filler.drain().unwrap().is_empty(), "nothing was enqueued");
                }
            }
        }
        // The slot remains usable.
        two_slots_in_turns(&machine, filler, 6, 77);
    }
}

#[test]
fn ranges_outside_a_slot_are_refused_and_the_filler_still_works() {
    if !cuda_sim::in_process_with(
        "cuda::faults::ranges_outside_a_slot_are_refused_and_the_filler_still_works",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler(GatherMode::ZeroCopy);
    let ready = CudaEvent::local(&machine.context).unwrap();
    let payload = vec![0; FEATURES_AT];
    for (slot, array, ids, features_at) in [
        (2, 64..128, 64..128, FEATURES_AT),
        (0, STRIDE - 64..STRIDE + 1, STRIDE - 64..STRIDE, FEATURES_AT),
        (0, 64..128, 64..128, STRIDE - 64),
        (0, 64..128, 64..136, FEATURES_AT),
        (0, 64..128, 64..128, 0),
        (0, 0..64, 0..64, FEATURES_AT),
    ] {
        let place = SlotPlace {
            slot,
            arrays: &[(array.start, &payload[..array.len()])],
            on_device: None,
            ids_at: ids.start,
            features_at,
            sums: None,
            made: None,
            brought: None,
            tables_at: None,
            of_set: None,
            begun: None,
            stamp: 1,
            after: None,
            ready: &ready,
        };
        let result = filler.submit(&vec![0; ids.len() / 8], place);
        assert!(matches!(result, Err(FillError::Layout(_))), "{result:?}");
    }
    assert!(filler.drain().unwrap().is_empty());
    two_slots_in_turns(&machine, filler, 6, 78);
    let shape = SlotShape { slots: 3, ..SHAPE };
    let stream = CudaStream::new(&machine.context).unwrap();
    let refused = machine.bare_filler(stream, machine.pinned(Kernel::Shift), shape);
    assert!(matches!(refused, Err(FillError::Layout(_))), "{refused:?}");
}

/// No fill allocates page-locked memory: a fill that needs more than was reserved gives an error.
#[test]
fn a_batch_beyond_its_reserve_is_refused_under_a_held_kernel() {
    let test = "cuda::faults::a_batch_beyond_its_reserve_is_refused_under_a_held_kernel";
    if !cuda_sim::in_process_with(test, &[]) {
        return;
    }
    let machine = Machine::new();
    let stream = CudaStream::new(&machine.context).unwrap();
    let mut filler = machine.bare_filler(stream, machine.pinned(Kernel::Shift), SHAPE).unwrap();
    let ready = CudaEvent::local(&machine.context).unwrap();
    let mut random = Random(3);
    let (small, large) = (Batch::new(&mut random, 10, 1), Batch::new(&mut random, MOST_IDS, 2));
    let refused = |result| {
        assert!(matches!(&result, Err(FillError::Layout(what)) if what.contains("reserve")), "{result:?}")
    };
    refused(small.fill(&mut filler, 0, None, &ready));
    // All arrays before the ids, and a few ids.
    filler.reserve_room(IDS_AT + 4096, 512).unwrap();
    let consumer = CudaStream::new(&machine.context).unwrap();
    let hold = Pool::new(&machine, 1, 0).hold(&machine, &consumer);
    refused(large.fill(&mut filler, 0, None, &ready));
    small.fill(&mut filler, 0, None, &ready).unwrap();
    assert_eq!(filler.drain().unwrap().len(), 1);
    assert!(
        matches!(filler.reserve_room(1 << 20, MOST_IDS), Err(FillError::Layout(_))),
        "only before the first fill"
    );
    hold.let_go();
    consumer.synchronize().unwrap();
}

/// Fails one driver call in the middle of fills: the error names it, and every later fill is refused.
fn breaks(test: &str, mode: GatherMode, function: &str, call: usize) {
    if !cuda_sim::in_process_with(test, &[("CUDA_SIM_FAIL", &format!("{function}:{call}=719"))]) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler(mode);
    let ready = CudaEvent::local(&machine.context).unwrap();
    let mut random = Random(9);
    let error = (0..50)
        .find_map(|index| {
            let batch = Batch::new(&mut random, 2000, index + 1);
            batch.fill(&mut filler, (index % 2) as usize, None, &ready).err()
        })
        .expect("the fault is met within 50 fills");
    assert!(matches!(error, FillError::Cuda(_)), "{error:?}");
    let documented = function.trim_end_matches("_v2");
    assert!(error.to_string().contains(documented), "`{documented}` is missing in: {error}");
    let again = Batch::new(&mut random, 1, 1).fill(&mut filler, 0, None, &ready).unwrap_err();
    assert!(matches!(&again, FillError::Broken(why) if why.contains(documented)), "{again:?}");
    assert!(matches!(filler.finished(), Err(FillError::Broken(_))));
    assert!(matches!(filler.drain(), Err(FillError::Broken(_))));
    drop(filler);
}

#[test]
fn a_launch_that_fails_ends_the_filler_with_the_calls_name() {
    let test = "cuda::faults::a_launch_that_fails_ends_the_filler_with_the_calls_name";
    breaks(test, GatherMode::ZeroCopy, "cuLaunchKernel", 7);
}

#[test]
fn a_copy_that_fails_ends_the_filler_with_the_calls_name() {
    let test = "cuda::faults::a_copy_that_fails_ends_the_filler_with_the_calls_name";
    breaks(test, GatherMode::Dma, "cuMemcpyHtoDAsync_v2", 6);
}

#[test]
fn a_record_that_fails_ends_the_filler_with_the_calls_name() {
    breaks(
        "cuda::faults::a_record_that_fails_ends_the_filler_with_the_calls_name",
        GatherMode::Split,
        "cuEventRecord",
        12,
    );
}

#[test]
fn a_filler_that_is_dropped_waits_for_what_it_enqueued() {
    if !cuda_sim::in_process_with(
        "cuda::faults::a_filler_that_is_dropped_waits_for_what_it_enqueued",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    for mode in MODES {
        let mut filler = machine.filler(mode);
        let consumer = CudaStream::new(&machine.context).unwrap();
        let (free, ready) =
            (CudaEvent::local(&machine.context).unwrap(), CudaEvent::local(&machine.context).unwrap());
        let hold = Pool::new(&machine, 1, 0).hold(&machine, &consumer);
        free.record(&consumer).unwrap();
        let batch = Batch::new(&mut Random(4), MOST_IDS, 7);
        batch.fill(&mut filler, 1, Some(&free), &ready).unwrap();
        let gone = Arc::new(AtomicBool::new(false));
        let told = gone.clone();
        let dropper = std::thread::spawn(move || {
            drop(filler);
            told.store(true, Ordering::Release);
        });
        never("the filler was gone before the device had done its part", || gone.load(Ordering::Acquire));
        hold.let_go();
        dropper.join().unwrap();
        assert!(ready.query().unwrap(), "{mode:?}");
        let out = machine.read(&consumer, 1);
        consumer.synchronize().unwrap();
        batch.check(out.as_slice(), &machine.table_bytes, &format!("{mode:?}"));
    }
}

#[test]
fn a_filler_is_abandoned_while_the_device_waits_for_a_lost_event() {
    if !cuda_sim::in_process_with(
        "cuda::faults::a_filler_is_abandoned_while_the_device_waits_for_a_lost_event",
        &[],
    ) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler(GatherMode::ZeroCopy);
    // A consumer that holds its slot indefinitely.
    let consumer = CudaStream::new(&machine.context).unwrap();
    let (free, ready) =
        (CudaEvent::local(&machine.context).unwrap(), CudaEvent::local(&machine.context).unwrap());
    let hold = Pool::new(&machine, 1, 0).hold(&machine, &consumer);
    free.record(&consumer).unwrap();
    let batch = Batch::new(&mut Random(1), 100, 1);
    // Neither waits, and the host does not delay the second slot either.
    batch.fill(&mut filler, 0, Some(&free), &ready).unwrap();
    batch.fill(&mut filler, 1, None, &ready).unwrap();
    assert!(filler.finished().unwrap().is_empty());
    assert!(!ready.query().unwrap());
    filler.abandon();
    // As at the end of a process whose peer has died: memory that the device may still use is left to the system.
    std::mem::forget((machine, consumer, hold, free, ready));
}
