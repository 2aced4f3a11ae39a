//! Options of commands about datasets.

mod dataset;
mod generate;
mod order;
mod partition;
mod partition_parts;
mod propagate;

pub use dataset::{
    EdgeListFlags, EdgeListIds, ExportFlags, ImportFlags, ImportedFeatures, InfoFlags, SelfLoopsFlag,
    ThirdColumnFlag,
};
pub use generate::GenerateFlags;
pub use order::OrderFlags;
pub use partition::PartitionFlags;
pub use partition_parts::PartLayout;
pub use propagate::PropagateFlags;
