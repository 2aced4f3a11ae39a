//! Batches in device memory: what the host can refuse without a device.

#![allow(unsafe_code)]

use super::support::options;
use crate::borrowed::Borrowed;
use crate::device::TrainDevice;
use crate::trainer::Trainer;
use crate::{DeviceBatch, DeviceBlock, TrainError};
use uva_cuda::DeviceSlice;
use uva_graph::ElementType;
use uva_model::ModelKind;

const GPU: TrainDevice = TrainDevice::Cuda(0);

/// A slice that is only measured.
fn slice(bytes: usize) -> DeviceSlice<'static> {
    at(0x1000, bytes)
}

fn at(address: u64, bytes: usize) -> DeviceSlice<'static> {
    // SAFETY: the tests below end in a refusal before anything is read.
    unsafe { DeviceSlice::from_raw(address, bytes, 0) }
}

const BLOCKS: [DeviceBlock<'static>; 0] = [];

fn blocks() -> [DeviceBlock<'static>; 2] {
    [(3, 5, 4), (5, 9, 7)].map(|(destinations, sources, edges)| DeviceBlock {
        destinations,
        sources,
        edges,
        indptr: slice(4 * (destinations + 1)),
        indices: slice(4 * edges),
        weights: Some(slice(4 * edges)),
        edge_attr: None,
    })
}

fn batch<'a>(blocks: &'a [DeviceBlock<'a>]) -> DeviceBatch<'a> {
    DeviceBatch {
        features: Some(slice(4 * 9 * 6)),
        aggregated: None,
        element: ElementType::F32,
        rows: 9,
        dim: 6,
        padding: 0,
        labels: Some(slice(8 * 3)),
        degrees: Some(slice(4 * 9)),
        blocks,
        proof: None,
    }
}

#[test]
fn counts_that_contradict_each_other_or_the_model_are_refused() {
    let good = blocks();
    batch(&good).check(2, (6, 0), true).unwrap();
    let refused = |batch: DeviceBatch<'_>, part: &str| {
        let error = batch.check(2, (6, 0), true).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{part}: {error}");
    };
    refused(DeviceBatch { blocks: &BLOCKS, ..batch(&good) }, "0 blocks for a model of 2 layers");
    refused(DeviceBatch { dim: 5, ..batch(&good) }, "5 feature columns");
    refused(DeviceBatch { rows: 8, ..batch(&good) }, "below it has 8 rows");
    refused(DeviceBatch { degrees: None, ..batch(&good) }, "without degrees");
    let with = |change: fn(&mut DeviceBlock<'static>)| {
        let mut blocks = blocks();
        change(&mut blocks[0]);
        blocks
    };
    refused(batch(&with(|block| block.destinations = 6)), "6 destinations are more than the 5 sources");
    refused(batch(&with(|block| block.sources = 4)), "below it has 5 rows");
    refused(batch(&with(|block| block.destinations = 0)), "4 edges without a destination");
    refused(batch(&with(|block| block.edges = 1 << 31)), "more than i32 can count");
}

#[test]
fn slices_of_another_size_place_or_device_are_refused() {
    let refused = |result: Result<Borrowed<'_>, TrainError>, part: &str| match result {
        Err(error @ TrainError::Input(_)) => assert!(error.to_string().contains(part), "{part}: {error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("not refused: {part}"),
    };
    refused(
        Borrowed::device_vector::<i32>(slice(13), 3, "degrees", GPU),
        "degrees: 13 bytes are not 3 numbers",
    );
    refused(Borrowed::device_vector::<i32>(slice(12), usize::MAX / 2, "x", GPU), "12 bytes are not");
    refused(
        Borrowed::device_vector::<i64>(slice(24), 3, "labels", TrainDevice::Cuda(1)),
        "labels are on device 0 for a trainer on cuda:1",
    );
    refused(Borrowed::device_vector::<i64>(at(0x1004, 24), 3, "labels", GPU), "multiple of 8 bytes");
    refused(
        Borrowed::device_table(slice(23), ElementType::F16, 3, 4, "rows", GPU),
        "not 3 rows of 4 f16 elements",
    );
    refused(
        Borrowed::device_table(at(0x1001, 24), ElementType::F16, 3, 4, "rows", GPU),
        "multiple of 2 bytes",
    );
}

#[test]
fn sums_come_with_the_rows_that_the_model_reads_besides_or_are_refused() {
    let good = blocks();
    let sums = Some(slice(4 * 5 * 6));
    let told = |result: Result<(), TrainError>| result.unwrap_err().to_string();
    let without = DeviceBatch { features: None, ..batch(&good) };
    assert!(told(without.check(2, (6, 0), true)).contains("without feature rows"));
    let without = DeviceBatch { aggregated: sums, ..without };
    without.check(2, (6, 0), true).unwrap();
    without.check_sums(false, None).unwrap();
    assert!(told(without.check_sums(true, None)).contains("own rows"));
    let with = DeviceBatch { aggregated: sums, ..batch(&good) };
    with.check_sums(true, None).unwrap();
    // Rows of the last block's destinations, and lists of the others.
    assert_eq!((with.feature_count(), with.listed().len()), (5, 1));
    assert_eq!((batch(&good).feature_count(), batch(&good).listed().len()), (9, 2));
    assert!(
        told(with.check_sums(true, Some("`residual`: a map".to_owned()))).contains("takes none: `residual`")
    );
}

#[test]
fn a_trainer_on_the_cpu_refuses_device_memory() {
    let mut trainer = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, 3, TrainDevice::Cpu).unwrap();
    let blocks = blocks();
    let error = trainer.train_batch(0, 0, &batch(&blocks), &mut || Ok(())).unwrap_err();
    assert!(error.to_string().contains("device memory for a trainer on the CPU"), "{error}");
}
