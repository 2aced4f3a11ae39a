//! Slots compared with a plain loop.

use std::sync::Arc;

use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::{IpcKind, PinOptions, PinnedTable, SharedBuffer, device_to_host};
use uva_cuda::partition::GreenPartition;
use uva_cuda::{Context, CudaEvent, CudaStream};
use uva_rows::cuda::{
    BadId, DeviceRows, DeviceSource, DeviceTable, DeviceTables, FillError, GridBound, HostMadeRows, NoRows,
    Pinned, SlotFiller, SlotPlace, SlotShape, SplitSource, StagingSource,
};
use uva_rows::{GatherError, MappedTable, RowOrigin, RowSource};

use super::machine::*;

#[test]
fn two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_zero_copy() {
    if !cuda_sim::in_process_with(
        "cuda::slots::two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_zero_copy",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    let fills = two_slots_in_turns(&machine, machine.filler(GatherMode::ZeroCopy), 60, 1);
    assert!(fills.iter().all(|fill| fill.by_kernel() == fill.rows));
}

#[test]
fn two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_copies() {
    if !cuda_sim::in_process_with(
        "cuda::slots::two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_copies",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    let fills = two_slots_in_turns(&machine, machine.filler(GatherMode::Dma), 60, 2);
    assert!(fills.iter().all(|fill| fill.by_kernel() == 0));
}

#[test]
fn two_slots_reused_often_equal_plain_loops_with_cached_rows() {
    if !cuda_sim::in_process_with(
        "cuda::slots::two_slots_reused_often_equal_plain_loops_with_cached_rows",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    let ids: Vec<i64> = (0..ROWS as i64).rev().step_by(3).collect();
    let fills = two_slots_in_turns(&machine, machine.filler_of(machine.spliced(&ids)), 60, 4);
    let hits: u64 = fills.iter().map(|fill| fill.read.hits()).sum();
    let rows: usize = fills.iter().map(|fill| fill.rows).sum();
    assert!((rows / 4..rows / 2).contains(&(hits as usize)), "{hits} of {rows}");
}

#[test]
fn two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_both() {
    if !cuda_sim::in_process_with(
        "cuda::slots::two_slots_reused_many_times_hold_what_a_plain_loop_gives_by_both",
        &SHAKEN,
    ) {
        return;
    }
    let machine = Machine::new();
    let filler = machine.filler_of(machine.split(Kernel::Shift));
    assert_eq!(filler.source().share(), 0.5);
    let fills = two_slots_in_turns(&machine, filler, 60, 3);
    let divided = fills.iter().filter(|fill| (1..fill.rows).contains(&fill.by_kernel())).count();
    assert!(divided > 15, "{divided} batches were divided");
}

#[test]
fn pieces_in_flight_are_not_overwritten() {
    if !cuda_sim::in_process_with(
        "cuda::slots::pieces_in_flight_are_not_overwritten",
        &[("CUDA_SIM_DELAY_US", "20000")],
    ) {
        return;
    }
    // A batch is many times as large as all pieces together, and the simulator delays each copy.
    const ROW_BYTES: usize = 500_009;
    const ROWS: usize = 30;
    let context = Context::primary(0).unwrap();
    let table_bytes: Vec<u8> = (0..ROWS * ROW_BYTES).map(|i| (i / ROW_BYTES * 31 + i % 251) as u8).collect();
    let owner = Arc::new(Aside::of(&table_bytes));
    let table = Arc::new(PinnedTable::new(&context, owner, &PinOptions::default()).unwrap());
    let ids: Vec<i64> = (0..200).map(|i| i * 7 % ROWS as i64).collect();
    let payload: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    let features_at = 64 + payload.len();
    let stride = (features_at + ids.len() * ROW_BYTES).next_multiple_of(64);
    let shape = SlotShape { slots: 1, stride };
    let buffer = Arc::new(SharedBuffer::create(&context, shape.stride, IpcKind::Auto, "a slot").unwrap());
    for mode in [GatherMode::Dma, GatherMode::Split] {
        let bytes = MappedTable::owned(Arc::new(Aside::of(&table_bytes)), ROW_BYTES, 1).unwrap();
        let staged = StagingSource::new(&context, bytes).unwrap();
        let source: Box<dyn DeviceSource> = match mode {
            GatherMode::Split => {
                let bound = GridBound::Multiprocessors(1);
                let pinned =
                    Pinned::new(kernels(&context), table.clone(), ROW_BYTES, Kernel::Shift, bound).unwrap();
                Box::new(SplitSource::new(pinned, staged).unwrap())
            }
            _ => Box::new(staged),
        };
        let stream = CudaStream::new(&context).unwrap();
        let mut filler = SlotFiller::new(stream, kernels(&context), source, buffer.clone(), shape).unwrap();
        let ready = CudaEvent::local(&context).unwrap();
        filler.reserve_room(features_at, ids.len()).unwrap();
        let place = SlotPlace {
            slot: 0,
            arrays: &[(64, &payload)],
            on_device: None,
            ids_at: 64,
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
        let read = filler.fill(&ids, place).unwrap();
        assert_eq!(read.total(), ids.len() as u64);
        assert_rows(&context, &buffer, features_at, &ids, (&table_bytes, ROW_BYTES), &format!("{mode:?}"));
    }
}

/// A table of several pieces, the last of them partial: rows on both sides of every boundary.
#[test]
fn a_table_on_the_device_has_the_rows_that_it_was_copied_from() {
    if !cuda_sim::in_process_with(
        "cuda::slots::a_table_on_the_device_has_the_rows_that_it_was_copied_from",
        &SHAKEN,
    ) {
        return;
    }
    const PIECE: usize = 16 << 20;
    let context = Context::primary(0).unwrap();
    let rows = (2 * PIECE + PIECE / 3) / ROW_BYTES;
    let mut random = Random(5);
    let table_bytes: Vec<u8> = (0..(rows * ROW_BYTES).div_ceil(8))
        .flat_map(|_| random.next().to_ne_bytes())
        .take(rows * ROW_BYTES)
        .collect();
    let table = Arc::new(DeviceTable::new(&context, &table_bytes, "a table").unwrap());
    let mut ids: Vec<i64> = vec![0, rows as i64 - 1];
    for border in [PIECE, 2 * PIECE] {
        let row = (border / ROW_BYTES) as i64;
        ids.extend([row - 1, row, row + 1]);
    }
    let payload: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    let features_at = 64 + payload.len();
    let stride = (features_at + ids.len() * ROW_BYTES).next_multiple_of(64);
    let shape = SlotShape { slots: 1, stride };
    let buffer = Arc::new(SharedBuffer::create(&context, shape.stride, IpcKind::Auto, "a slot").unwrap());
    let bound = GridBound::Multiprocessors(1);
    let source = DeviceRows::new(kernels(&context), table, ROW_BYTES, Kernel::Wide, bound).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let mut filler = SlotFiller::new(stream, kernels(&context), source, buffer.clone(), shape).unwrap();
    filler.reserve_room(features_at, ids.len()).unwrap();
    let ready = CudaEvent::local(&context).unwrap();
    let place = SlotPlace {
        slot: 0,
        arrays: &[(64, &payload)],
        on_device: None,
        ids_at: 64,
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
    let read = filler.fill(&ids, place).unwrap();
    assert_eq!(read.rows(RowOrigin::DeviceTable), ids.len() as u64);
    assert_rows(&context, &buffer, features_at, &ids, (&table_bytes, ROW_BYTES), "on the device");
}

/// Tables of several blocks, with rows on both sides of a boundary. Fills of tables and of the host alternate.
#[test]
fn a_fill_has_the_rows_of_its_ids_from_every_device_table_or_the_host() {
    if !cuda_sim::in_process_with(
        "cuda::slots::a_fill_has_the_rows_of_its_ids_from_every_device_table_or_the_host",
        &SHAKEN,
    ) {
        return;
    }
    const TABLES: usize = 3;
    // 16 MiB of a table are copied at once.
    let (row_bytes, at_once) = (30_011, (16 << 20) / 30_011);
    let rows = at_once + 7;
    let context = Context::primary(0).unwrap();
    let byte = |table: usize, row: usize, byte: usize| (table * 101 + row * 31 + byte % 251) as u8;
    let mut blocks = Vec::new();
    let mut read = |block: std::ops::Range<usize>, parts: &mut [&mut [u8]]| {
        for (table, part) in parts.iter_mut().enumerate() {
            for (row, bytes) in block.clone().zip(part.chunks_exact_mut(row_bytes)) {
                bytes.iter_mut().enumerate().for_each(|(at, to)| *to = byte(table, row, at));
            }
        }
        blocks.push(block);
        Ok(())
    };
    let by = (Kernel::Wide, GridBound::Multiprocessors(1));
    let tables =
        DeviceTables::new(&context, (TABLES, rows, row_bytes), by, "three tables", &mut read).unwrap();
    assert_eq!(blocks, [0..at_once, at_once..rows]);
    assert_eq!(tables.bytes(), TABLES * rows * row_bytes);
    let ids = [at_once as i64, 0, at_once as i64 - 1, rows as i64 - 1, 0];
    let begins: [usize; TABLES] = std::array::from_fn(|table| 1024 + table * (ids.len() * row_bytes + 90));
    let shape = SlotShape { slots: 2, stride: (1024 + TABLES * (6 * row_bytes)).next_multiple_of(64) };
    let buffer =
        Arc::new(SharedBuffer::create(&context, 2 * shape.stride, IpcKind::Auto, "two slots").unwrap());
    let stream = CudaStream::new(&context).unwrap();
    let filler = SlotFiller::new(stream, kernels(&context), NoRows, buffer.clone(), shape).unwrap();
    let mut filler = filler.with_tables(tables);
    filler.reserve_room(256, 0).unwrap();
    filler.reserve_made(128 + 64).unwrap();
    let ready = CudaEvent::local(&context).unwrap();
    let place = SlotPlace {
        slot: 0,
        arrays: &[],
        on_device: None,
        ids_at: 64,
        features_at: 1024,
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
    for turn in 0..4_usize {
        let ids: Vec<i64> = ids.iter().cycle().skip(turn).take(ids.len()).copied().collect();
        let payload: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
        let arrays = [(64, &payload[..])];
        let (slot, stamp) = (turn % 2, turn as u64 + 1);
        let from_tables = SlotPlace { slot, arrays: &arrays, tables_at: Some(&begins), stamp, ..place };
        filler.submit(&ids, from_tables).unwrap();
        let made = |parts: &mut [&mut [u8]]| {
            parts.iter_mut().for_each(|part| part.fill(turn as u8));
            Ok(())
        };
        let ranges = [2048..2048 + 100, 3000..3000 + 20];
        let made = Some(HostMadeRows { ranges: &ranges, make: &made });
        filler.submit(&[], SlotPlace { slot: 1 - slot, made, stamp: stamp + 100, ..place }).unwrap();
        let fills = filler.drain().unwrap();
        assert_eq!(fills.len(), 2);
        assert!(fills.iter().all(|fill| fill.bad.is_none() && fill.ended_ns >= fill.began_ns));
        let mut out = vec![0; buffer.bytes()];
        let stream = CudaStream::new(&context).unwrap();
        // SAFETY: both ends live until the synchronisation.
        unsafe { device_to_host(&stream, buffer.address(), &mut out) }.unwrap();
        stream.synchronize().unwrap();
        let (of_tables, of_host) = (&out[slot * shape.stride..], &out[(1 - slot) * shape.stride..]);
        for (table, begins) in begins.iter().enumerate() {
            for (place, id) in ids.iter().enumerate() {
                let found = &of_tables[begins + place * row_bytes..][..row_bytes];
                let right = (0..row_bytes).all(|at| found[at] == byte(table, *id as usize, at));
                assert!(right, "turn {turn}, table {table}, place {place}");
            }
        }
        assert_eq!(
            (&of_host[2048..2148], &of_host[3000..3020]),
            (&[turn as u8; 100][..], &[turn as u8; 20][..])
        );
    }
    // The filler's source has no rows.
    assert!(matches!(filler.submit(&[], place), Err(FillError::Layout(_))));
    // An id that is not a row is found, and other numbers of tables and mixtures are refused.
    let payload = (rows as i64).to_ne_bytes();
    let arrays = [(64, &payload[..])];
    let one = SlotPlace { arrays: &arrays, tables_at: Some(&begins), ..place };
    filler.submit(&[rows as i64], one).unwrap();
    assert_eq!(filler.drain().unwrap()[0].bad, Some(BadId { table: 0, position: 0, id: rows as i64 }));
    let never =
        |_: &mut [&mut [u8]]| -> Result<(), GatherError> { panic!("called for a fill that is refused") };
    let made = Some(HostMadeRows { ranges: &[], make: &never });
    for place in [SlotPlace { tables_at: Some(&begins[..2]), ..one }, SlotPlace { made, ..one }] {
        let refused = filler.submit(&[1], place);
        assert!(matches!(refused, Err(FillError::Layout(_))), "{refused:?}");
    }
}

/// Rows of the host in two ranges of a slot, made again for each of several alternating fills. The simulator copies
/// late, so a write to page-locked memory that is too early becomes visible.
#[test]
fn rows_that_the_host_makes_come_to_their_ranges_and_others_are_refused() {
    if !cuda_sim::in_process_with(
        "cuda::slots::rows_that_the_host_makes_come_to_their_ranges_and_others_are_refused",
        &[("CUDA_SIM_DELAY_US", "2000")],
    ) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let table = MappedTable::owned(Arc::new(Aside::of(&[7; 40])), 4, 1).unwrap();
    let shape = SlotShape { slots: 2, stride: 4096 };
    let buffer =
        Arc::new(SharedBuffer::create(&context, 2 * shape.stride, IpcKind::Auto, "two slots").unwrap());
    let staged = StagingSource::new(&context, table).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let mut filler = SlotFiller::new(stream, kernels(&context), staged, buffer.clone(), shape).unwrap();
    filler.reserve_room(256, 10).unwrap();
    filler.reserve_made(128 + 64).unwrap();
    let ready = CudaEvent::local(&context).unwrap();
    let ids = [1_i64, 2, 3];
    let payload: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    let ranges = [1024..1024 + 100, 2048..2048 + 64];
    let place = SlotPlace {
        slot: 0,
        arrays: &[(64, &payload)],
        on_device: None,
        ids_at: 64,
        features_at: 1024,
        sums: None,
        made: None,
        brought: None,
        tables_at: None,
        of_set: None,
        begun: None,
        stamp: 99,
        after: None,
        ready: &ready,
    };
    let expected = |fill: u64, range: usize, bytes: usize| -> Vec<u8> {
        (0..bytes).map(|byte| (fill as usize * 31 + range * 101 + byte) as u8).collect()
    };
    for fill in 0..12 {
        let make = |parts: &mut [&mut [u8]]| {
            for (range, part) in parts.iter_mut().enumerate() {
                part.copy_from_slice(&expected(fill, range, part.len()));
            }
            Ok(())
        };
        let slot = (fill % 2) as usize;
        let made = Some(HostMadeRows { ranges: &ranges, make: &make });
        filler.submit(&ids, SlotPlace { slot, stamp: fill + 1, made, ..place }).unwrap();
        if fill % 3 == 2 {
            let fills = filler.drain().unwrap();
            assert!(fills.iter().all(|fill| fill.by_kernel() == 0 && fill.read.total() == 0));
            let mut out = vec![0; buffer.bytes()];
            let stream = CudaStream::new(&context).unwrap();
            // SAFETY: both ends live until the synchronisation.
            unsafe { device_to_host(&stream, buffer.address(), &mut out) }.unwrap();
            stream.synchronize().unwrap();
            let slot = &out[slot * shape.stride..][..shape.stride];
            for (number, range) in ranges.iter().enumerate() {
                assert_eq!(slot[range.clone()], expected(fill, number, range.len()), "fill {fill}");
            }
        }
    }
    // Invalid arguments are refused before anything is enqueued, and so are rows that the host cannot make.
    let never =
        |_: &mut [&mut [u8]]| -> Result<(), GatherError> { panic!("called for a fill that is refused") };
    let (over_ids, too_large) = ([70..80, 2048..2060], [1024..1024 + 100, 2048..2048 + 65]);
    for ranges in [&over_ids, &too_large, &[1024..1100, 1090..1100], &[1024..1030, 4090..4097]] {
        let made = Some(HostMadeRows { ranges, make: &never });
        let refused = filler.submit(&ids, SlotPlace { made, ..place });
        assert!(matches!(refused, Err(FillError::Layout(_))), "{ranges:?}: {refused:?}");
    }
    assert!(matches!(filler.submit(&ids, place), Err(FillError::Layout(_))));
    let fails = |_: &mut [&mut [u8]]| Err(GatherError::Threads { threads: 0, reason: String::new() });
    let failed = filler
        .submit(&ids, SlotPlace { made: Some(HostMadeRows { ranges: &ranges, make: &fails }), ..place });
    assert!(matches!(failed, Err(FillError::Rows(_))), "{failed:?}");
    let nothing = |_: &mut [&mut [u8]]| Ok(());
    filler
        .submit(&ids, SlotPlace { made: Some(HostMadeRows { ranges: &ranges, make: &nothing }), ..place })
        .unwrap();
    filler.drain().unwrap();
}

#[test]
fn a_split_is_right_whatever_the_share() {
    if !cuda_sim::in_process_with("cuda::slots::a_split_is_right_whatever_the_share", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    for (seed, share) in [0.0, 0.1, 0.5, 0.93, 1.0, f64::NAN].into_iter().enumerate() {
        let mut filler = machine.filler_of(machine.split(Kernel::Shift));
        filler.source_mut().set_share(share);
        two_slots_in_turns(&machine, filler, 12, 100 + seed as u64);
    }
}

#[test]
fn the_share_of_a_split_follows_what_was_measured() {
    if !cuda_sim::in_process_with("cuda::slots::the_share_of_a_split_follows_what_was_measured", &[]) {
        return;
    }
    let machine = Machine::new();
    let mut filler = machine.filler_of(machine.split(Kernel::Shift));
    let ready = CudaEvent::local(&machine.context).unwrap();
    let mut random = Random(5);
    let mut shares = vec![filler.source().share()];
    for index in 0..20 {
        Batch::new(&mut random, MOST_IDS, index + 1).fill(&mut filler, 0, None, &ready).unwrap();
        let fill = filler.drain().unwrap().remove(0);
        // Rows are divided by the share before them.
        assert_eq!(fill.by_kernel(), (MOST_IDS as f64 * shares[shares.len() - 1]).round() as usize);
        shares.push(filler.source().share());
    }
    assert!(shares.windows(2).any(|pair| pair[0] != pair[1]), "nothing was learnt: {shares:?}");
    assert!(shares.iter().all(|&share| share > 0.0 && share < 1.0), "{shares:?}");
}

#[test]
fn slots_are_filled_on_a_partition_by_every_kernel() {
    if !cuda_sim::in_process_with("cuda::slots::slots_are_filled_on_a_partition_by_every_kernel", &SHAKEN) {
        return;
    }
    let machine = Machine::new();
    let partition = GreenPartition::new(&machine.context, 8).unwrap();
    for (seed, kernel) in Kernel::ALL.into_iter().enumerate() {
        let filler = machine.filler_on(partition.stream().unwrap(), machine.split(kernel));
        two_slots_in_turns(&machine, filler, 10, 50 + seed as u64);
    }
}
