//! The contract of every backend, for each kernel.

use std::sync::Arc;

use uva_cuda::Context;
use uva_cuda::kernels::gather::{GridBound, Kernel};
use uva_cuda::memory::{PinHow, PinOptions, PinnedTable};
use uva_rows::conformance;
use uva_rows::cuda::CudaGather;

use super::machine::*;

fn conforms(kernel: Kernel) {
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    let make = |table: &[u8], row_bytes: usize| {
        let table = PinnedTable::new(&context, Arc::new(Aside::of(table)), &PinOptions::default()).unwrap();
        assert_ne!(table.report().how, PinHow::Copied, "{:?}", table.report());
        // Few blocks, so that a warp comes back for more.
        let bound = GridBound::Blocks(2);
        CudaGather::new(kernels.clone(), Arc::new(table), row_bytes, kernel, bound).unwrap()
    };
    conformance::whole_tables(&|table, row_bytes| Box::new(make(table, row_bytes)));
    let make: &conformance::Make<'_> = &|table, row_bytes| Box::new(make(table, row_bytes));
    if !cuda_sim::on_a_gpu() {
        // The kernels themselves are tried at every size by uva-kernel-sim; a table is slow to make here.
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
fn the_naive_kernel_conforms() {
    if under("conformance::the_naive_kernel_conforms", &[]) {
        conforms(Kernel::Naive);
    }
}

#[test]
fn the_shift_kernel_conforms() {
    if under("conformance::the_shift_kernel_conforms", &[]) {
        conforms(Kernel::Shift);
    }
}

#[test]
fn the_wide_kernel_conforms() {
    if under("conformance::the_wide_kernel_conforms", &[]) {
        conforms(Kernel::Wide);
    }
}

#[test]
fn a_table_that_is_not_whole_rows_is_refused() {
    if !under("conformance::a_table_that_is_not_whole_rows_is_refused", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let table = Arc::new(PinnedTable::new(&context, Arc::new(vec![0; 10]), &PinOptions::default()).unwrap());
    for row_bytes in [0, 3] {
        let error =
            CudaGather::new(kernels(&context), table.clone(), row_bytes, Kernel::Wide, GridBound::Device)
                .unwrap_err();
        assert!(error.to_string().contains("10 bytes"), "{error}");
    }
}
