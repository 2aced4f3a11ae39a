//! A batch in the memory of a device: of a CUDA device, or of its stand-in on the host.

#![allow(unsafe_code)]

use crate::TrainDevice;
use crate::tests::support::{Batch, EDGE_DIM, OwnedBlock};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};
use uva_batch::{ArrayMemory, BatchColumns, BlockSize, Column, ColumnArray, Element, Proof};
use uva_cuda::memory::DeviceBuffer;
use uva_cuda::{Context, DeviceSlice};

/// Words of a report, and which of them is the stamp.
const WORDS: i64 = 8;
const STAMP: usize = 0;
/// A word that is all ones for a whole batch.
const BAD: usize = 3;

/// A batch copied to a device.
pub(crate) struct OnDevice {
    pub(crate) features: Tensor,
    pub(crate) labels: Tensor,
    pub(crate) degrees: Tensor,
    pub(crate) blocks: Vec<(usize, usize, [Tensor; 2], Tensor)>,
    /// The batch's report, stamped with 1.
    pub(crate) report: Tensor,
    /// The report's memory, if it is the driver's.
    memory: Option<DeviceBuffer>,
}

impl OnDevice {
    pub(crate) fn new(batch: &Batch, device: TrainDevice) -> Self {
        let device = device.torch();
        fn copy<T: tch::kind::Element>(values: &[T], device: Device) -> Tensor {
            Tensor::from_slice(values).to_device(device)
        }
        let block = |b: &OwnedBlock| {
            let lists = [copy(&b.indptr, device), copy(&b.indices, device)];
            (b.destinations, b.sources, lists, copy(&b.edge_attr, device).view([-1, EDGE_DIM as i64]))
        };
        let mut report = [7i64; WORDS as usize];
        (report[STAMP], report[BAD]) = (1, -1);
        let copied = Self {
            features: copy(&batch.features, device).view([-1, batch.dim as i64]),
            labels: copy(&batch.labels, device),
            degrees: copy(&batch.degrees, device),
            blocks: batch.blocks.iter().map(block).collect(),
            report: copy(&report, device),
            memory: None,
        };
        if let Device::Cuda(ordinal) = device {
            tch::Cuda::synchronize(ordinal as i64);
        }
        copied
    }

    /// Moves the report to memory of the driver, where a kernel can read it under the stand-in as well.
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

    /// The batch with these sums, and only these rows.
    pub(crate) fn summed<'a>(&'a self, sums: &'a Tensor, rows: Option<&'a Tensor>) -> BatchColumns<'a> {
        let columns = self.columns().without(Column::X).with(Column::Aggregated, array(sums));
        rows.map_or(columns.clone(), |rows| columns.with(Column::X, array(rows)))
    }

    pub(crate) fn columns(&self) -> BatchColumns<'_> {
        let counts = |(destinations, sources, [_, indices], _): &(usize, usize, [Tensor; 2], Tensor)| {
            BlockSize { destinations: *destinations, sources: *sources, edges: indices.numel() }
        };
        let layers = self.blocks.iter().map(counts).collect();
        let mut columns = BatchColumns::new(self.labels.numel(), layers)
            .with(Column::Labels, array(&self.labels))
            .with(Column::X, array(&self.features))
            .with(Column::Degrees, array(&self.degrees));
        for (layer, (_, _, [indptr, indices], edge_attr)) in self.blocks.iter().enumerate() {
            columns = columns
                .with(Column::Indptr.at(layer), array(indptr))
                .with(Column::Indices.at(layer), array(indices))
                .with(Column::EdgeAttr.at(layer), array(edge_attr));
        }
        columns.proof = Some(Proof { words: slice(&self.report), expected: [(STAMP, 1), (BAD, -1)] });
        columns
    }
}

/// A tensor in device memory as an array.
pub(crate) fn array(tensor: &Tensor) -> ColumnArray<'_> {
    let element = match tensor.kind() {
        Kind::Int64 => Element::I64,
        Kind::Int => Element::I32,
        Kind::Float => Element::F32,
        kind => panic!("{kind:?}"),
    };
    let size: Vec<usize> = tensor.size().iter().map(|&size| size as usize).collect();
    ColumnArray {
        memory: ArrayMemory::Device(slice(tensor)),
        element,
        rows: size[0],
        width: size.get(1).copied(),
    }
}

pub(crate) fn slice(tensor: &Tensor) -> DeviceSlice<'_> {
    let bytes = tensor.numel() * tensor.kind().elt_size_in_bytes();
    // SAFETY: the tensor is contiguous, on device 0 or on the host in its place, and lives as long as the slice.
    unsafe { DeviceSlice::from_raw(tensor.data_ptr() as u64, bytes, 0) }
}
