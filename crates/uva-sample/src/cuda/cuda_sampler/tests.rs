use std::sync::Arc;

use crate::{BatchBounds, BatchSampler, MiniBatch, NeighborSampler};
use uva_cuda::kernels::gather::IdWidth;
use uva_cuda::memory::{PinOptions, PinPages, PinnedTable};
use uva_cuda::{CacheKind, Context, Module, ModuleOptions};
use uva_graph::Split;

use super::*;
use crate::cuda::source::PinnedArray;

/// After four thousand million batches the stamps wrap, and old entries must not look like new ones.
#[test]
fn a_stamp_that_wraps_leaves_no_old_entry() {
    if !cuda_sim::in_process("cuda::cuda_sampler::tests::a_stamp_that_wraps_leaves_no_old_entry") {
        return;
    }
    let context = Context::primary(0).unwrap();
    let of_module = ModuleOptions {
        cache: cuda_sim::kernel_cache().map_or(CacheKind::Off, CacheKind::Folder),
        ..Default::default()
    };
    let kernels = SampleKernels::new(&Module::sample(&context, &of_module).unwrap()).unwrap();
    let indptr: Vec<i64> = (0..=20).map(|node| node * 2).collect();
    let indices: Vec<i64> = (0..40).map(|place| place * 7 % 20).collect();
    let pin = |values: &[i64]| {
        let bytes: Vec<u8> = bytemuck::cast_slice(values).to_vec();
        let options = PinOptions { pages: PinPages::Thp, ..PinOptions::default() };
        PinnedArray::whole(Arc::new(PinnedTable::new(&context, Arc::new(bytes), &options).unwrap()))
    };
    let graph = GraphSource::new(pin(&indptr), pin(&indices), IdWidth::I64).unwrap();
    let sampler = SamplerOptions { fanouts: [1, 2].into(), ..SamplerOptions::default() };
    let bounds = BatchBounds::new(4, &sampler.fanouts, 20, 40).unwrap();
    let options =
        CudaSamplerOptions { grid: GridBound::Blocks(2), ..CudaSamplerOptions::new(sampler, bounds) };
    let stream = CudaStream::new(&context).unwrap();
    let mut device = CudaSampler::new(kernels, stream, graph.clone(), &options).unwrap();
    let mut cpu = NeighborSampler::new(graph.csc(), options.sampler.clone()).unwrap();
    let mut expected = MiniBatch::with_bounds(&options.bounds);
    for stamp in [0, 1, u32::MAX - 2, u32::MAX - 1, u32::MAX, 1, 2] {
        device.stamp = stamp;
        let key = BatchKey { split: Split::Valid, epoch: 0, batch: stamp };
        let seeds = [i64::from(stamp % 5), 19, 7];
        let counts = device.sample(key, &seeds).unwrap();
        assert_eq!(counts, cpu.sample_into(key, &seeds, &mut expected).unwrap(), "stamp {stamp}");
    }
    assert_eq!(device.stamp, 3);
}
