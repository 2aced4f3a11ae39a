//! The contract of every backend, for each kernel.

use std::sync::Arc;

use uva_cuda::kernels::gather::{GridBound, Kernel};
use uva_cuda::memory::{PinHow, PinOptions, PinnedTable};
use uva_cuda::{Context, CudaEvent, CudaStream};
use uva_rows::conformance::{self, Extent};
use uva_rows::cuda::{
    DeviceRows, DeviceTable, FillError, Pinned, ReadBack, Spliced, SplitSource, StagingSource,
};
use uva_rows::{GatherError, HostPlace, MappedTable, RowSource, WideningSource};

use super::machine::*;

fn conforms(kernel: Kernel, by_region: bool) {
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    let make = |table: &[u8], row_bytes: usize| {
        let table = PinnedTable::new(&context, Arc::new(Aside::of(table)), &PinOptions::default()).unwrap();
        assert_ne!(table.report().how, PinHow::Copied, "{:?}", table.report());
        // Few blocks, so that each warp processes several rows.
        let bound = GridBound::Blocks(2);
        let source = Pinned::new(kernels.clone(), Arc::new(table), row_bytes, kernel, bound).unwrap();
        let source = source.by_region(by_region);
        ReadBack::new(&context, kernels.clone(), source).unwrap()
    };
    conformance::whole_tables(extent(), &|table, row_bytes| Box::new(make(table, row_bytes)));
    let make: &conformance::Make<'_> = &|table, row_bytes| Box::new(make(table, row_bytes));
    if !cuda_sim::on_a_gpu() {
        // uva-kernel-sim tests the kernels themselves at every size; making a table is slow here.
        let sizes = [1, 3, 16, 100, 188, 480].into_iter();
        return conformance::every_row_size_at_every_offset(make, sizes, 0..128);
    }
    conformance::every_row_size_at_every_offset(make, [1, 2, 3, 16, 100, 188, 480, 516].into_iter(), 0..128);
    conformance::every_row_size_at_every_offset(make, 1..=1025, 0..1);
    conformance::every_row_size_at_every_offset(make, 1..=1025, 77..78);
    if kernel == Kernel::Wide {
        conformance::large_table(make);
    }
}

#[test]
#[ignore = "11 s of a core: scripts/measure/long_tests.sh"]
fn the_naive_kernel_conforms() {
    if cuda_sim::in_process_with("cuda::conformance::the_naive_kernel_conforms", &[]) {
        conforms(Kernel::Naive, false);
    }
}

#[test]
fn the_shift_kernel_conforms() {
    if cuda_sim::in_process_with("cuda::conformance::the_shift_kernel_conforms", &[]) {
        conforms(Kernel::Shift, false);
    }
}

#[test]
fn the_wide_kernel_conforms() {
    if cuda_sim::in_process_with("cuda::conformance::the_wide_kernel_conforms", &[]) {
        conforms(Kernel::Wide, false);
    }
}

#[test]
#[ignore = "12 s of a core: scripts/measure/long_tests.sh"]
fn rows_that_are_read_region_by_region_are_the_same_by_every_kernel() {
    let name = "cuda::conformance::rows_that_are_read_region_by_region_are_the_same_by_every_kernel";
    if cuda_sim::in_process_with(name, &[]) {
        // The others take half a minute with the stand-in: scripts/measure/long_tests.sh and runs on a GPU include
        // them.
        let kernels = [Kernel::Wide, Kernel::Shift, Kernel::Naive];
        for kernel in kernels.into_iter().take(if extent() == Extent::All { 3 } else { 1 }) {
            conforms(kernel, true);
        }
    }
}

#[test]
fn a_table_that_is_not_whole_rows_is_refused() {
    if !cuda_sim::in_process_with("cuda::conformance::a_table_that_is_not_whole_rows_is_refused", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let table = Arc::new(PinnedTable::new(&context, Arc::new(vec![0; 10]), &PinOptions::default()).unwrap());
    for row_bytes in [0, 3] {
        let bound = GridBound::Device;
        let refused = Pinned::new(kernels(&context), table.clone(), row_bytes, Kernel::Wide, bound);
        let Err(FillError::Rows(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error, GatherError::TableLength { length: 10, row_bytes });
    }
}

fn owned(table: &[u8], row_bytes: usize) -> MappedTable<'static> {
    MappedTable::owned(Arc::new(Aside::of(table)), row_bytes, 2).unwrap()
}

#[test]
fn a_host_source_staged_to_the_device_conforms() {
    if !cuda_sim::in_process_with("cuda::conformance::a_host_source_staged_to_the_device_conforms", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    conformance::whole_tables(extent(), &|table, row_bytes| {
        let source = StagingSource::new(&context, owned(table, row_bytes)).unwrap();
        Box::new(ReadBack::new(&context, kernels.clone(), source).unwrap())
    });
}

#[test]
fn a_host_source_with_device_cached_rows_conforms_and_counts_hits() {
    let name = "cuda::conformance::a_host_source_with_device_cached_rows_conforms_and_counts_hits";
    if !cuda_sim::in_process_with(name, &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    let by = (Kernel::Wide, GridBound::Blocks(2));
    let made = |table: &[u8], row_bytes: usize, ids: &[i64]| {
        let source = Spliced::new(&context, owned(table, row_bytes), ids, by).unwrap();
        ReadBack::new(&context, kernels.clone(), source).unwrap()
    };
    conformance::static_cache(extent(), &|table, row_bytes, ids| Box::new(made(table, row_bytes, ids)));
    conformance::whole_tables(extent(), &|table, row_bytes| Box::new(made(table, row_bytes, &[])));
}

#[test]
fn rows_that_are_not_cached_are_refused_where_they_do_not_fit() {
    let name = "cuda::conformance::rows_that_are_not_cached_are_refused_where_they_do_not_fit";
    if !cuda_sim::in_process_with(name, &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let by = (Kernel::Wide, GridBound::Device);
    let of = |ids: &[i64]| Spliced::new(&context, owned(&[7; 40], 4), ids, by);
    let refused = of(&[3, 3]).unwrap_err();
    assert!(matches!(refused, FillError::Rows(GatherError::RepeatedId { position: 1, id: 3 })), "{refused}");
    let refused = of(&[10]).unwrap_err();
    assert!(matches!(refused, FillError::Rows(GatherError::IdOutOfRange { id: 10, .. })), "{refused}");
    let mut source = of(&[9, 0]).unwrap();
    let refused = source.reserve(2, usize::MAX / 16).unwrap_err();
    assert!(matches!(refused, FillError::CacheTooLarge { rows: 2, .. }), "{refused}");
    let machine = Machine::new();
    let mut filler =
        machine.bare_filler(CudaStream::new(&context).unwrap(), machine.spliced(&[1]), SHAPE).unwrap();
    filler.reserve_room(FEATURES_AT, 499).unwrap();
    let batch = Batch::new(&mut Random(1), 500, 1);
    let refused = batch.fill(&mut filler, 0, None, &CudaEvent::local(&context).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("500 rows in lane 0: reserve room for them"), "{refused}");
}

#[test]
fn widened_rows_staged_to_the_device_conform() {
    if !cuda_sim::in_process_with("cuda::conformance::widened_rows_staged_to_the_device_conform", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    for narrow in uva_rows::NarrowFloat::ALL {
        // One value in a row, and a row that does not consist of whole lines.
        for values in [1, 65] {
            let table: Vec<u8> = (0..2 * 65 * 40_u32).map(|i| (i * 7 % 251) as u8).collect();
            let table = table[..narrow.bytes() * values * 40].to_vec();
            let widened = || WideningSource::new(owned(&table, narrow.bytes() * values), narrow).unwrap();
            let staged = StagingSource::new(&context, widened()).unwrap();
            let mut on_device = ReadBack::new(&context, kernels.clone(), staged).unwrap();
            let ids: Vec<i64> = (0..40).rev().collect();
            let [mut out, mut expected] = [vec![0; 40 * 4 * values], vec![0; 40 * 4 * values]];
            on_device.fill(&ids, HostPlace::new(&mut out)).unwrap();
            widened().fill(&ids, HostPlace::new(&mut expected)).unwrap();
            assert_eq!(out, expected, "{narrow:?}, {values} in a row");
        }
    }
}

#[test]
fn a_split_of_both_ways_conforms() {
    if !cuda_sim::in_process_with("cuda::conformance::a_split_of_both_ways_conforms", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    conformance::whole_tables(extent(), &|table, row_bytes| {
        let pinned = PinnedTable::new(&context, Arc::new(Aside::of(table)), &PinOptions::default()).unwrap();
        let bound = GridBound::Blocks(2);
        let pinned = Pinned::new(kernels.clone(), Arc::new(pinned), row_bytes, Kernel::Wide, bound).unwrap();
        let staged = StagingSource::new(&context, owned(table, row_bytes)).unwrap();
        let source = SplitSource::new(pinned, staged).unwrap();
        Box::new(ReadBack::new(&context, kernels.clone(), source).unwrap())
    });
}

#[test]
fn a_table_on_the_device_conforms() {
    if !cuda_sim::in_process_with("cuda::conformance::a_table_on_the_device_conforms", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    conformance::whole_tables(extent(), &|table, row_bytes| {
        let table = Arc::new(DeviceTable::new(&context, table, "a table").unwrap());
        let bound = GridBound::Blocks(2);
        let source = DeviceRows::new(kernels.clone(), table, row_bytes, Kernel::Wide, bound).unwrap();
        Box::new(ReadBack::new(&context, kernels.clone(), source).unwrap())
    });
}
