//! The options that determine the columns of a run's batches, and their maximum sizes.

use uva_graph::NodeType;
use uva_sample::SamplerOptions;

use crate::schema::Presence;
use crate::{Aggregation, Column, FeatureType, StaticShapes};

/// The options of a run that determine the layout of its batches.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchSpec {
    /// The options of sampling.
    pub sampling: SamplerOptions,
    /// Seeds per batch.
    pub batch_size: usize,
    /// The node type whose splits are seeds.
    pub target: NodeType,
    /// Upper bound in bytes of a batch's ids and blocks, and again of its feature rows; with `None`, the largest batch
    /// that the fanouts allow.
    pub slot_bytes: Option<u64>,
    /// The type of a batch's feature values.
    pub feature_type: FeatureType,
    /// The aggregation of the producer.
    pub aggregation: Aggregation,
    /// Whether rows are gathered outside the slots before they are summed. The rows then have a separate bound.
    pub gathers_before_sums: bool,
    /// Whether the producer chooses batch by batch whether it sums: slots then fit both forms, and a batch's header has
    /// the form ([`BatchHeader::is_summed`](crate::BatchHeader::is_summed)).
    pub chooses_sums: bool,
    /// Columns with [`Presence::Asked`] or [`Presence::ForModel`] that batches have.
    pub asked: Vec<Column>,
    /// The shapes that batches are padded to, if any.
    pub shapes: Option<StaticShapes>,
    /// For a hop set, the number of tables of rows in a batch; `None` if batches are sampled in a graph.
    pub tables: Option<usize>,
}

impl BatchSpec {
    /// Whether batches of a dataset with or without labels have this column.
    #[must_use]
    pub fn has(&self, column: Column, labelled: bool) -> bool {
        match column.spec().presence {
            Presence::Always => true,
            Presence::Labelled => labelled,
            Presence::Asked | Presence::ForModel => self.asked.contains(&column),
            Presence::Padded => self.shapes.is_some(),
            Presence::WeighedEdges => self.sampling.kind.weighs_edges(),
            Presence::Rows => {
                self.aggregation == Aggregation::None
                    || self.aggregation.keeps_own_rows()
                    || self.chooses_sums
            }
            Presence::Summed => self.aggregation != Aggregation::None,
        }
    }
}
