//! A batch in the memory of a device: of a CUDA device, or of the host that stands in for one.

#![allow(unsafe_code)]

use super::support::{Batch, EDGE_DIM, OwnedBlock};
use crate::{DeviceBatch, DeviceBlock, DeviceEdgeRows, DeviceProof, TrainDevice};
use std::sync::Arc;
use tch::{Device, Tensor};
use uva_cuda::memory::DeviceBuffer;
use uva_cuda::{Context, DeviceSlice};
use uva_graph::ElementType;

/// Words of a report, and which of them is the stamp.
const WORDS: i64 = 8;
const STAMP: usize = 0;
/// A word that is all ones beside a whole batch.
const BAD: usize = 3;

/// A batch copied to a device.
pub(crate) struct OnDevice {
    pub(crate) features: Tensor,
    pub(crate) labels: Tensor,
    pub(crate) degrees: Tensor,
    pub(crate) blocks: Vec<(usize, usize, [Tensor; 2], Tensor)>,
    /// The report beside it, stamped with 1.
    pub(crate) report: Tensor,
    /// The report's memory, where it is the driver's.
    memory: Option<DeviceBuffer>,
    rows: usize,
    dim: usize,
}

impl OnDevice {
    pub(crate) fn new(batch: &Batch, device: TrainDevice) -> Self {
        let device = device.torch();
        fn copy<T: tch::kind::Element>(values: &[T], device: Device) -> Tensor {
            Tensor::from_slice(values).to_device(device)
        }
        let block = |b: &OwnedBlock| {
            let lists = [copy(&b.indptr, device), copy(&b.indices, device)];
            (b.destinations, b.sources, lists, copy(&b.edge_attr, device))
        };
        let mut report = [7i64; WORDS as usize];
        (report[STAMP], report[BAD]) = (1, -1);
        let copied = Self {
            features: copy(&batch.features, device),
            labels: copy(&batch.labels, device),
            degrees: copy(&batch.degrees, device),
            blocks: batch.blocks.iter().map(block).collect(),
            report: copy(&report, device),
            memory: None,
            rows: batch.nodes.len(),
            dim: batch.dim,
        };
        if let Device::Cuda(ordinal) = device {
            tch::Cuda::synchronize(ordinal as i64);
        }
        copied
    }

    /// The same with the report in memory of the driver's, where a kernel can read it under the stand-in too.
    pub(crate) fn reported_to(mut self, context: &Arc<Context>, device: TrainDevice) -> Self {
        let memory = DeviceBuffer::new(context, WORDS as usize * 8, "a report").unwrap();
        let place = memory.address() as *const u8;
        // SAFETY: the tensor lives as long as the buffer, is as long, and has no deleter.
        let mut report =
            unsafe { Tensor::from_blob(place, &[WORDS], &[1], tch::Kind::Int64, device.torch()) };
        report.copy_(&self.report);
        (self.report, self.memory) = (report, Some(memory));
        self
    }

    /// Writes another stamp.
    pub(crate) fn stamp(&self, stamp: i64) {
        let _ = self.report.get(STAMP as i64).fill_(stamp);
    }

    pub(crate) fn blocks(&self) -> Vec<DeviceBlock<'_>> {
        let mut blocks = Vec::new();
        for (destinations, sources, [indptr, indices], edge_attr) in &self.blocks {
            blocks.push(DeviceBlock {
                destinations: *destinations,
                sources: *sources,
                edges: indices.numel(),
                indptr: slice(indptr),
                indices: slice(indices),
                weights: None,
                edge_attr: Some(DeviceEdgeRows {
                    slice: slice(edge_attr),
                    element: ElementType::F32,
                    dim: EDGE_DIM,
                }),
            });
        }
        blocks
    }

    /// The batch with these sums, and no rows but these.
    pub(crate) fn summed<'a>(
        &'a self,
        blocks: &'a [DeviceBlock<'a>],
        sums: &'a Tensor,
        rows: Option<&'a Tensor>,
    ) -> DeviceBatch<'a> {
        DeviceBatch { features: rows.map(slice), aggregated: Some(slice(sums)), ..self.input(blocks) }
    }

    pub(crate) fn input<'a>(&'a self, blocks: &'a [DeviceBlock<'a>]) -> DeviceBatch<'a> {
        DeviceBatch {
            features: Some(slice(&self.features)),
            aggregated: None,
            element: ElementType::F32,
            rows: self.rows,
            dim: self.dim,
            padding: 0,
            labels: Some(slice(&self.labels)),
            degrees: Some(slice(&self.degrees)),
            blocks,
            proof: Some(DeviceProof { words: slice(&self.report), expected: [(STAMP, 1), (BAD, -1)] }),
        }
    }
}

pub(super) fn slice(tensor: &Tensor) -> DeviceSlice<'_> {
    let bytes = tensor.numel() * tensor.kind().elt_size_in_bytes();
    // SAFETY: the tensor is contiguous, on device 0 or on the host in its place, and lives as long as the slice.
    unsafe { DeviceSlice::from_raw(tensor.data_ptr() as u64, bytes, 0) }
}
