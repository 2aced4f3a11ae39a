//! The options that decide which columns a run's batches have, and their maximum sizes.

use uva_sample::SamplerOptions;

use crate::schema::Presence;
use crate::{Aggregation, Column, FeatureType, StaticShapes};

/// The part of a run's options that its batches' layout depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchSpec {
    /// How neighbours are sampled.
    pub sampling: SamplerOptions,
    /// Seeds a batch.
    pub batch_size: usize,
    /// Upper bound in bytes of a batch's ids and blocks, and again of its feature rows; `None`: the largest batch that
    /// the fanouts allow.
    pub slot_bytes: Option<u64>,
    /// The type of a batch's feature values.
    pub feature_type: FeatureType,
    /// What the producer sums up.
    pub aggregation: Aggregation,
    /// Whether rows that are summed are gathered first, beside the slots: they have a bound of their own then.
    pub gathers_before_sums: bool,
    /// Whether the producer chooses batch by batch whether it sums: slots have room for both forms, and a batch's header
    /// says which it has ([`BatchHeader::is_summed`](crate::BatchHeader::is_summed)).
    pub chooses_sums: bool,
    /// Columns with [`Presence::Asked`] or [`Presence::ForModel`] that batches shall have.
    pub asked: Vec<Column>,
    /// The shapes that batches are padded to, where they are.
    pub shapes: Option<StaticShapes>,
    /// Of a hop set, the tables of rows that a batch has; `None`: batches are sampled in a graph.
    pub tables: Option<usize>,
}

impl BatchSpec {
    /// Whether batches of a dataset with labels, or without, have this column.
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
