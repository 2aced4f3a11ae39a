//! Commands about datasets, and their options.

mod batch;
mod dataset;
mod generate;
mod order;
mod partition;
mod partition_parts;
mod propagate;

use clap::Subcommand;

pub use batch::BatchFlags;
pub use dataset::{
    EdgeListFlags, EdgeListIds, ExportFlags, ImportFlags, ImportedFeatures, InfoFlags, LiteralsFlag,
    ThirdColumnFlag,
};
pub use generate::GenerateFlags;
pub use order::OrderFlags;
pub use partition::PartitionFlags;
pub use partition_parts::PartLayout;
pub use propagate::PropagateFlags;

/// Commands about datasets, in the order of help.
#[derive(Subcommand, Debug)]
pub enum DataCommand {
    /// Generate a graph with planted classes
    Generate(Box<GenerateFlags>),
    /// Convert a graph in another format into a dataset
    Import(Box<ImportFlags>),
    /// Convert a dataset into a format of other programs
    Export(ExportFlags),
    /// Propagate features over the graph, for models that train without neighbours
    Propagate(Box<PropagateFlags>),
    /// Partition the nodes with few cut edges, and write the parts
    Partition(Box<PartitionFlags>),
    /// Show the content of a dataset, hop set or partition, and check it
    Info(InfoFlags),
    /// Order the training seeds by proximity in the graph, for `train --order`
    Order(OrderFlags),
    /// Print a batch as a run makes it: sizes, hash, arrays
    Batch(Box<BatchFlags>),
}
