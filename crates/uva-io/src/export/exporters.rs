//! The table of exporters, in the order of `--help`.

use super::exporter::Exporter;
use super::{to_edgelist, to_graphbolt, to_npy};

/// Every format that can be exported.
pub const EXPORTERS: &[Exporter] = &[to_npy::EXPORTER, to_edgelist::EXPORTER, to_graphbolt::EXPORTER];

/// The exporter called `name`.
pub fn exporter(name: &str) -> Option<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.name == name)
}
