//! Datasets with a graph.

use std::path::Path;

use uva_graph::{Dataset, Meta, Verify, node_file};
use uva_runtime::LoaderOptions;
use uva_runtime::backend::BackendOptions;
use uva_runtime::options::input_nodes::{InputSeeds, open_for_batches};

use super::kind::{DataKind, NodeFileProblem};
use crate::exit;
use crate::flags::training::{ModelFlags, TrainFlags};
use crate::runs::pipeline::{loader_options, with_first_layer, with_input_nodes};

/// A dataset with a graph.
pub(super) struct GraphData;

impl DataKind for GraphData {
    fn is_typed(&self, data: &Path) -> bool {
        Meta::read(data).is_ok_and(|meta| meta.has_several_types())
    }

    fn check_training(&self, flags: &TrainFlags) -> anyhow::Result<()> {
        flags.check()
    }

    fn check_model(&self, flags: &ModelFlags) -> anyhow::Result<()> {
        flags.check()
    }

    fn check_rows(&self, data: &Path) -> anyhow::Result<()> {
        let data = data.display();
        Err(exit::usage(format!(
            "{data}: not a hop set (no hops.json): make one with `uvatrain propagate`, or measure a dataset with \
             `bench pipeline`"
        ))
        .into())
    }

    fn open_for_training(&self, flags: &TrainFlags) -> anyhow::Result<(Dataset, LoaderOptions)> {
        let loader = loader_options(flags.loader.options_of_models(), &flags.loader, &flags.backend)?;
        let seeds = InputSeeds::in_files(flags.input_nodes.as_slice());
        let dataset = open_for_batches(&flags.data, Verify::Stamp, loader.target.as_ref(), Some(&seeds))?;
        let (dataset, loader) = with_first_layer(dataset, loader, flags.first_layer.as_deref())?;
        Ok(with_input_nodes(dataset, loader, flags.input_nodes.as_slice())?)
    }

    fn backend(&self, _: &TrainFlags, options: BackendOptions) -> BackendOptions {
        options
    }

    fn check_on_device(&self, _: &TrainFlags, _: bool) -> anyhow::Result<()> {
        Ok(())
    }

    fn draws(&self, options: &LoaderOptions) -> bool {
        !options.takes_all_neighbours()
    }

    fn rows_of_file(
        &self,
        dataset: &Dataset,
        file: &Path,
        problem: NodeFileProblem<'_>,
    ) -> anyhow::Result<Vec<i64>> {
        node_file::read(file, dataset.nodes_of(dataset.seed_type()), "nodes").map_err(problem)
    }
}
