//! Batches in device memory: checks that the host makes without a device.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::input::check::check;
use crate::tests::support::options;
use crate::torch::borrowed::Borrowed;
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use uva_batch::{ArrayMemory, BatchColumns, BlockSize, Column, ColumnArray, Element};
use uva_cuda::DeviceSlice;
use uva_model::{ModelKind, TrainerOptions};

const GPU: TrainDevice = TrainDevice::Cuda(0);

/// Values at an address, which are only measured.
fn at(
    address: u64,
    bytes: usize,
    element: Element,
    rows: usize,
    width: Option<usize>,
) -> ColumnArray<'static> {
    // SAFETY: the tests below end in a refusal before anything is read.
    let slice = unsafe { DeviceSlice::from_raw(address, bytes, 0) };
    ColumnArray { memory: ArrayMemory::Device(slice), element, rows, width }
}

fn array(element: Element, rows: usize, width: Option<usize>) -> ColumnArray<'static> {
    at(0x1000, rows * width.unwrap_or(1) * element.bytes(), element, rows, width)
}

/// A batch of three seeds and nine nodes of six columns, over blocks of these sizes.
fn batch_of(layers: &[BlockSize]) -> BatchColumns<'static> {
    let numbers = |rows| array(Element::I32, rows, None);
    let mut batch = BatchColumns::new(3, layers.to_vec())
        .with(Column::X, array(Element::F32, 9, Some(6)))
        .with(Column::Labels, array(Element::I64, 3, None))
        .with(Column::Degrees, numbers(9));
    for (layer, counts) in layers.iter().enumerate() {
        batch = batch
            .with(Column::Indptr.at(layer), numbers(counts.destinations + 1))
            .with(Column::Indices.at(layer), numbers(counts.edges))
            .with(Column::Weights.at(layer), array(Element::F32, counts.edges, None));
    }
    BatchColumns { nodes: 9, ..batch }
}

const LAYERS: [BlockSize; 2] = [
    BlockSize { destinations: 3, sources: 5, edges: 4 },
    BlockSize { destinations: 5, sources: 9, edges: 7 },
];

fn batch() -> BatchColumns<'static> {
    batch_of(&LAYERS)
}

/// Checks a batch for a model on a device.
fn checked(options: &TrainerOptions, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
    let trainer = Trainer::new(options, 6, 3, TrainDevice::StandIn).unwrap();
    check(&trainer.trains(), batch)
}

#[test]
fn counts_that_contradict_each_other_or_the_model_are_refused() {
    let gcn = options(ModelKind::Gcn, 4, 2);
    checked(&gcn, &batch()).unwrap();
    let refused = |batch: BatchColumns<'_>, part: &str| {
        let error = checked(&gcn, &batch).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{part}: {error}");
    };
    refused(batch_of(&LAYERS[..1]), "1 blocks for a model of 2 layers");
    refused(batch().with(Column::X, array(Element::F32, 9, Some(5))), "5 feature columns");
    refused(BatchColumns { nodes: 8, ..batch() }, "below it has 8 rows");
    refused(BatchColumns { seeds: 4, ..batch() }, "4 seeds above 3 destinations");
    refused(batch().without(Column::Degrees), "without degrees");
    refused(batch().without(Column::Indices.at(1)), "block 1: a batch without its lists");
    let with = |change: fn(&mut BlockSize)| {
        let mut layers = LAYERS;
        change(&mut layers[0]);
        BatchColumns { seeds: layers[0].destinations, ..batch_of(&layers) }
    };
    refused(with(|block| block.destinations = 6), "6 destinations are more than the 5 sources");
    refused(with(|block| block.sources = 4), "below it has 5 rows");
    refused(with(|block| block.destinations = 0), "4 edges without a destination");
    refused(with(|block| block.edges = 1 << 31), "more than i32 can count");
}

#[test]
fn slices_of_another_size_place_or_device_are_refused() {
    let refused = |array: ColumnArray<'_>, device, part: &str| match Borrowed::array(&array, "rows", device) {
        Err(error @ TrainError::Input(_)) => assert!(error.to_string().contains(part), "{part}: {error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("not refused: {part}"),
    };
    let (i32s, i64s) = (Element::I32, Element::I64);
    refused(at(0x1000, 13, i32s, 3, None), GPU, "13 bytes of rows are not 3 int32 values");
    refused(at(0x1000, 12, i32s, usize::MAX / 2, None), GPU, "12 bytes of rows are not");
    refused(array(i64s, 3, None), TrainDevice::Cuda(1), "rows are on device 0 for a trainer on cuda:1");
    refused(at(0x1004, 24, i64s, 3, None), GPU, "multiple of 8 bytes");
    refused(at(0x1000, 23, Element::F16, 3, Some(4)), GPU, "not 3 rows of 4 float16 values");
    refused(at(0x1001, 24, Element::F16, 3, Some(4)), GPU, "multiple of 2 bytes");
}

#[test]
fn sums_without_the_other_rows_that_the_model_reads_are_refused() {
    let [sage, gcn] = [ModelKind::Sage, ModelKind::Gcn].map(|model| options(model, 4, 2));
    let problem = |options, batch: &BatchColumns<'_>| checked(options, batch).unwrap_err().to_string();
    let without = batch().without(Column::X);
    assert!(problem(&gcn, &without).contains("without feature rows"));
    let sums = without.with(Column::Aggregated, array(Element::F32, 5, Some(6)));
    checked(&gcn, &sums).unwrap();
    assert!(problem(&sage, &sums).contains("own rows"));
    let own = |rows| sums.clone().with(Column::X, array(Element::F32, rows, Some(6)));
    checked(&sage, &own(5)).unwrap();
    assert!(problem(&sage, &own(9)).contains("9 feature rows where the batch has 5"));
    let residual = TrainerOptions { residual: true, ..sage.clone() };
    assert!(problem(&residual, &own(5)).contains("takes none: `residual`"));
}

#[test]
fn a_trainer_on_the_cpu_refuses_device_memory() {
    let mut trainer = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, 3, TrainDevice::Cpu).unwrap();
    let error = trainer.train_batch(0, 0, &batch(), &mut || Ok(())).unwrap_err();
    assert!(error.to_string().contains("device memory for a trainer on the CPU"), "{error}");
}
