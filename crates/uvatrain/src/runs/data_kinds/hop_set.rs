//! Hop sets.

use std::path::Path;

use anyhow::Context;
use uva_graph::{Dataset, Hops, Verify, node_file};
use uva_propagate::HopSet;
use uva_runtime::backend::BackendOptions;
use uva_runtime::options::hop_options::HopRowsPlace;
use uva_runtime::{DiskReader, LoaderOptions, RuntimeError};

use super::kind::{DataKind, NodeFileProblem};
use crate::exit;
use crate::flags::training::{ModelFlags, TrainFlags};

/// A hop set.
pub(super) struct HopSetData;

impl DataKind for HopSetData {
    fn is_typed(&self, _: &Path) -> bool {
        false
    }

    fn check_training(&self, flags: &TrainFlags) -> anyhow::Result<()> {
        Ok(flags.check_for_hops()?)
    }

    fn check_model(&self, flags: &ModelFlags) -> anyhow::Result<()> {
        flags.check_for_hops()
    }

    fn check_rows(&self, _: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    fn open_for_training(&self, flags: &TrainFlags) -> anyhow::Result<(Dataset, LoaderOptions)> {
        let dataset = HopSet::open_dataset(&flags.data, Verify::Stamp)?;
        let hops = dataset.hops().context("a hop set has rows of hops")?;
        let (loader, asked) = (flags.loader.options(), flags.hops.options());
        let batches = asked.batches(hops, loader.batch_size).map_err(RuntimeError::from)?;
        let features = asked.place.features(loader.features).map_err(RuntimeError::from)?;
        if asked.place == HopRowsPlace::Host && loader.reader != DiskReader::Auto {
            return Err(exit::usage(format!(
                "--reader {}: not supported with --place host, which reads the mapped files: use --place disk",
                loader.reader
            ))
            .into());
        }
        Ok((dataset, LoaderOptions { features, ..loader.of_hops(batches) }))
    }

    fn backend(&self, flags: &TrainFlags, options: BackendOptions) -> BackendOptions {
        BackendOptions { gather: flags.hops.options().place.gather(), ..options }
    }

    fn check_on_device(&self, flags: &TrainFlags, is_on_gpu: bool) -> anyhow::Result<()> {
        if !is_on_gpu && flags.loader.typed().iter().any(|field| field.name == "gather_threads") {
            return Err(exit::usage(
                "--gather-threads: not supported with a hop set on the CPU, where each worker copies the rows of its batches: \
                 give --samplers instead",
            )
            .into());
        }
        Ok(())
    }

    fn draws(&self, _: &LoaderOptions) -> bool {
        false
    }

    fn rows_of_file(
        &self,
        dataset: &Dataset,
        file: &Path,
        problem: NodeFileProblem<'_>,
    ) -> anyhow::Result<Vec<i64>> {
        let hops = dataset.hops().context("a hop set has rows of hops")?;
        let ids = node_file::read_unbounded(file, "nodes").map_err(problem)?;
        Ok(rows_of(hops, &ids).map_err(|id| {
            let remedy = "`uvatrain propagate --nodes all` makes one that has a row for each node";
            exit::usage(format!("--nodes: {}: the hop set has no row of node {id}; {remedy}", file.display()))
        })?)
    }
}

/// The first row of each of these nodes in a hop set.
///
/// # Errors
/// A node without a row.
fn rows_of(hops: Hops<'_>, ids: &[i64]) -> Result<Vec<i64>, i64> {
    let mut rows: Vec<(i64, i64)> = hops.nodes().iter().copied().zip(0..).collect();
    rows.sort_unstable();
    ids.iter()
        .map(|&id| match rows.get(rows.partition_point(|(node, _)| *node < id)) {
            Some(&(node, row)) if node == id => Ok(row),
            _ => Err(id),
        })
        .collect()
}
