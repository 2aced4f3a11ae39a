//! The columns of a batch, in one table from which everything else is derived.

use std::fmt;

use crate::Element;

/// A column that a batch can have. The arrays of all layers, node types and relations belong to one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Column {
    /// Ids of all nodes, the seeds first.
    InputNodes,
    /// Ids of the seeds.
    Seeds,
    /// Labels of the seeds.
    Labels,
    /// In-degrees of the input nodes.
    Degrees,
    /// Offsets of a layer's block.
    Indptr,
    /// Local ids of a layer's picks.
    Indices,
    /// Places of a layer's picks in the dataset.
    EdgeIds,
    /// Types of a layer's picks.
    EdgeType,
    /// Weights of a layer's picks.
    Weights,
    /// Places of the seeds in their split.
    InputId,
    /// Trees of all nodes.
    Tree,
    /// Times of the seeds.
    SeedTime,
    /// Mask of real (non-padding) seeds.
    SeedMask,
    /// Feature rows of a layer's picks.
    EdgeAttr,
    /// Feature rows.
    X,
    /// Sums of feature rows.
    Aggregated,
    /// The row that each maximum of feature rows is from.
    Argmax,
}

/// The static description of a column, independent of a run.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// The column.
    pub column: Column,
    /// Its name; for a column of layers, the part after `block{l}.`.
    pub name: &'static str,
    /// The type of its values, and their number per row.
    pub values: Values,
    /// Its number of rows.
    pub rows: Rows,
    /// The batches that have it.
    pub presence: Presence,
    /// The stage that writes it.
    pub written_by: Stage,
    /// Whether a sampler on a GPU writes it there: such a column does not need to cross the link.
    pub made_on_gpu: bool,
    /// The slots that hold it.
    pub lives_in: Slots,
    /// The column whose first rows it is. Such a column uses no memory of its own.
    pub first_of: Option<Column>,
    /// Its tag in the batch's hash, if it is part of the hash.
    pub hash_tag: Option<HashTag>,
}

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One value of this type per row.
    One(Element),
    /// The type of the dataset's labels: per row one int64, one uint8 for each class, or one or several float32.
    Labels,
    /// A row of features, with the type of the feature table, or float32 if the run widens it.
    Features,
    /// A row of edge features, with the type of their table.
    EdgeFeatures,
    /// float32, as many per row as a node has features.
    Sums,
    /// int32, as many per row as a node has features.
    Places,
}

/// The number of rows of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One per seed.
    Seeds,
    /// One per input node.
    Nodes,
    /// One per destination of the layer, and one more.
    Offsets,
    /// One per edge of the layer.
    Edges,
    /// One per destination of the outermost layer.
    Outermost,
}

/// The arrays of a column in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One.
    Batch,
    /// One for each node type.
    Type,
    /// One for each layer, and in it for each relation.
    LayerRelation,
}

/// The batches that have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// All batches.
    Always,
    /// Batches of datasets with labels.
    Labelled,
    /// Batches of runs that request it.
    Asked,
    /// Batches of runs that pad.
    Padded,
    /// Batches of runs whose built-in model or whose producer's sums need it.
    ForModel,
    /// Batches of a sampler kind that weights edges.
    WeighedEdges,
    /// All batches, unless sums replace the rows ([`Aggregation`](crate::Aggregation)).
    Rows,
    /// Batches of runs whose producer sums.
    Summed,
}

/// The stages that write to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The sampler, into the batch slot.
    Sampler,
    /// The producer, into the feature slot.
    Producer,
}

/// The slots that hold a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Batch slot and feature slot, at the same offset: the producer copies it.
    Both,
    /// Only the feature slot, after the other columns.
    Feature,
}

/// The place of a column's values in the batch's hash (docs/spec/reproducible-batches.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashTag {
    /// The tag, for layer 0 if the column has layers.
    pub first: u64,
    /// Increment of the tag per layer.
    pub per_layer: u64,
}

/// All columns, in the order in which they lie in a slot.
///
/// Neighbouring columns of node types lie type by type: `input_nodes.a, seeds.a, labels.a, input_nodes.b, …`. Neighbouring
/// columns of layers with the same presence lie layer by layer, and in each relation by relation: `block0.indptr,
/// block0.indices, block1.indptr, …`. The order within a slot is part of the launcher–client protocol.
pub const COLUMNS: [ColumnSpec; 17] = [
    ColumnSpec {
        column: Column::InputNodes,
        name: "input_nodes",
        values: Values::One(Element::I64),
        rows: Rows::Nodes,
        hash_tag: Some(HashTag { first: 1, per_layer: 0 }),
        made_on_gpu: true,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Seeds,
        name: "seeds",
        values: Values::One(Element::I64),
        rows: Rows::Seeds,
        first_of: Some(Column::InputNodes),
        hash_tag: Some(HashTag { first: 0, per_layer: 0 }),
        made_on_gpu: true,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Labels,
        name: "labels",
        values: Values::Labels,
        rows: Rows::Seeds,
        presence: Presence::Labelled,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Degrees,
        name: "degrees",
        values: Values::One(Element::I32),
        rows: Rows::Nodes,
        presence: Presence::ForModel,
        made_on_gpu: true,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Indptr,
        name: "indptr",
        values: Values::One(Element::I32),
        rows: Rows::Offsets,
        hash_tag: Some(HashTag { first: 16, per_layer: 2 }),
        made_on_gpu: true,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Indices,
        name: "indices",
        values: Values::One(Element::I32),
        rows: Rows::Edges,
        hash_tag: Some(HashTag { first: 17, per_layer: 2 }),
        made_on_gpu: true,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::EdgeIds,
        name: "edge_ids",
        values: Values::One(Element::I64),
        rows: Rows::Edges,
        presence: Presence::Asked,
        made_on_gpu: true,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::EdgeType,
        name: "edge_type",
        values: Values::One(Element::U16),
        rows: Rows::Edges,
        presence: Presence::Asked,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Weights,
        name: "weights",
        values: Values::One(Element::F32),
        rows: Rows::Edges,
        presence: Presence::WeighedEdges,
        hash_tag: Some(HashTag { first: 128, per_layer: 1 }),
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::InputId,
        name: "input_id",
        values: Values::One(Element::I64),
        rows: Rows::Seeds,
        presence: Presence::Asked,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Tree,
        name: "tree",
        values: Values::One(Element::I32),
        rows: Rows::Nodes,
        presence: Presence::Asked,
        hash_tag: Some(HashTag { first: 2, per_layer: 0 }),
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::SeedTime,
        name: "seed_time",
        values: Values::One(Element::I64),
        rows: Rows::Seeds,
        presence: Presence::Asked,
        hash_tag: Some(HashTag { first: 3, per_layer: 0 }),
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::SeedMask,
        name: "seed_mask",
        values: Values::One(Element::U8),
        rows: Rows::Seeds,
        presence: Presence::Padded,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::EdgeAttr,
        name: "edge_attr",
        values: Values::EdgeFeatures,
        rows: Rows::Edges,
        presence: Presence::Asked,
        written_by: Stage::Producer,
        lives_in: Slots::Feature,
        ..SAMPLED
    },
    // These come last, the first present column at the start of a page. With sums, `x` has only the rows of the
    // outermost layer's destinations (`ColumnPlace::rows`).
    ColumnSpec {
        column: Column::X,
        name: "x",
        values: Values::Features,
        rows: Rows::Nodes,
        presence: Presence::Rows,
        written_by: Stage::Producer,
        lives_in: Slots::Feature,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Aggregated,
        name: "aggregated",
        values: Values::Sums,
        rows: Rows::Outermost,
        presence: Presence::Summed,
        written_by: Stage::Producer,
        lives_in: Slots::Feature,
        ..SAMPLED
    },
    ColumnSpec {
        column: Column::Argmax,
        name: "argmax",
        values: Values::Places,
        rows: Rows::Outermost,
        presence: Presence::Asked,
        written_by: Stage::Producer,
        lives_in: Slots::Feature,
        ..SAMPLED
    },
];

/// The common form of a column: always present, written by the sampler, in both slots, not part of the hash.
const SAMPLED: ColumnSpec = ColumnSpec {
    column: Column::InputNodes,
    name: "",
    values: Values::One(Element::I64),
    rows: Rows::Nodes,
    presence: Presence::Always,
    written_by: Stage::Sampler,
    made_on_gpu: false,
    lives_in: Slots::Both,
    first_of: None,
    hash_tag: None,
};

// A column's number is its index in the table.
const _: () = {
    let mut at = 0;
    while at < COLUMNS.len() {
        assert!(COLUMNS[at].column as usize == at);
        at += 1;
    }
};

impl ColumnSpec {
    /// What each of its arrays belongs to.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        match self.rows {
            Rows::Seeds | Rows::Nodes => Scope::Type,
            Rows::Offsets | Rows::Edges => Scope::LayerRelation,
            Rows::Outermost => Scope::Batch,
        }
    }

    /// Whether each layer has one.
    #[must_use]
    pub const fn is_of_layers(&self) -> bool {
        matches!(self.scope(), Scope::LayerRelation)
    }

    /// Its full name in batches of a homogeneous graph, with this layer if the column has layers.
    #[must_use]
    pub fn full_name(&self, layer: usize) -> String {
        if self.is_of_layers() { format!("block{layer}.{}", self.name) } else { self.name.to_owned() }
    }
}

impl Column {
    /// Its static description, independent of a run.
    #[must_use]
    pub const fn spec(self) -> &'static ColumnSpec {
        &COLUMNS[self as usize]
    }

    /// The column with this name, without a layer: `indptr`, not `block0.indptr`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        COLUMNS.iter().find(|spec| spec.name == name).map(|spec| spec.column)
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn page(name: &str) -> String {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        std::fs::read_to_string(docs.join(name)).expect("the page")
    }

    /// The table of docs/spec/wire-protocol.md, as the schema has it.
    fn documented() -> String {
        let mut table =
            "| column | type | rows | which batches | written by | slots |\n|---|---|---|---|---|---|\n"
                .to_owned();
        for spec in &COLUMNS {
            let name = match spec.scope() {
                Scope::Batch => spec.name.to_owned(),
                Scope::Type => format!("{}[.{{t}}]", spec.name),
                Scope::LayerRelation => format!("block{{l}}.[{{r}}.]{}", spec.name),
            };
            let values = match spec.values {
                Values::One(element) => element.name(),
                Values::Labels => "int64, or a row of uint8 or float32",
                Values::Features => "a row of the table's type, or of float32",
                Values::EdgeFeatures => "a row of the edge table's type",
                Values::Sums => "a row of float32",
                Values::Places => "a row of int32",
            };
            let rows = match spec.rows {
                Rows::Seeds => "seeds",
                Rows::Nodes => "nodes",
                Rows::Offsets => "destinations + 1",
                Rows::Edges => "edges",
                Rows::Outermost => "destinations of the outermost layer",
            };
            let presence = match spec.presence {
                Presence::Always => "all",
                Presence::Labelled => "where the dataset has labels",
                Presence::Asked => "where requested",
                Presence::Padded => "where batches are padded",
                Presence::ForModel => "where the model or GCN's sums need it",
                Presence::WeighedEdges => "samplers that weigh edges",
                Presence::Rows => "all but those of GCN's sums",
                Presence::Summed => "where the producer sums",
            };
            let written_by = match spec.written_by {
                Stage::Sampler => "sampler",
                Stage::Producer => "producer",
            };
            let slots = match (spec.first_of, spec.lives_in) {
                (Some(whole), _) => format!("the first of `{whole}`"),
                (None, Slots::Both) => "both".to_owned(),
                (None, Slots::Feature) => "feature".to_owned(),
            };
            table += &format!("| `{name}` | {values} | {rows} | {presence} | {written_by} | {slots} |\n");
        }
        table
    }

    #[test]
    fn the_wire_protocols_table_of_columns_is_the_schema() {
        let table = documented();
        assert!(
            page("spec/wire-protocol.md").contains(&table),
            "docs/spec/wire-protocol.md should have:\n{table}"
        );
    }

    #[test]
    fn the_documented_hash_tags_are_the_schemas() {
        let page = page("spec/reproducible-batches.md");
        for (spec, tag) in COLUMNS.iter().filter_map(|spec| Some((spec, spec.hash_tag?))) {
            let tag = match (tag.per_layer, spec.is_of_layers()) {
                (0, false) => format!("| {} |", tag.first),
                (1, true) => format!("| {} + l |", tag.first),
                (step, true) => format!("| {} + {step}·l |", tag.first),
                (_, false) => panic!("{} is of no layer", spec.name),
            };
            let name = spec.name.replace('_', " ");
            let line = page.lines().find(|line| line.starts_with(&tag)).expect(&tag);
            assert!(line.contains(&name), "{name} in {line}");
        }
    }

    #[test]
    fn the_hash_of_a_batch_is_the_sum_over_the_columns_that_have_a_tag() {
        let (nodes, seeds) = ([40_i64, 7, 19, 3, 88], 2);
        let layers: [(&[i32], &[i32], &[f32]); 2] = [
            (&[0, 2, 3], &[2, 1, 0], &[0.5, 0.5, 1.0]),
            (&[0, 1, 3, 4], &[3, 4, 0, 1], &[1.0, 0.25, 0.75, 1.0]),
        ];
        let blocks = layers.map(|(indptr, indices, weights)| uva_sample::BlockRef {
            destinations: indptr.len() - 1,
            sources: nodes.len(),
            indptr,
            indices,
            edge_ids: &[],
            weights,
        });
        let of_integers = |values: &[i32]| values.iter().map(|value| *value as u64).collect::<Vec<_>>();
        let values = |column, layer: usize| -> Vec<u64> {
            let (indptr, indices, weights) = layers[layer];
            match column {
                Column::InputNodes => nodes.map(|node| node as u64).to_vec(),
                Column::Seeds => nodes[..seeds].iter().map(|node| *node as u64).collect(),
                Column::Indptr => of_integers(indptr),
                Column::Indices => of_integers(indices),
                Column::Weights => weights.iter().map(|weight| u64::from(weight.to_bits())).collect(),
                // Of batches of trees only.
                Column::Tree | Column::SeedTime => Vec::new(),
                other => panic!("{other:?} has a tag"),
            }
        };
        let mut sum = 0_u64;
        for (spec, tag) in COLUMNS.iter().filter_map(|spec| Some((spec, spec.hash_tag?))) {
            for layer in 0..if spec.is_of_layers() { layers.len() } else { 1 } {
                let tag = tag.first + tag.per_layer * layer as u64;
                for (position, value) in values(spec.column, layer).into_iter().enumerate() {
                    let mixed = uva_graph::mix(uva_graph::mix((tag << 56) + position as u64) ^ value);
                    sum = sum.wrapping_add(mixed);
                }
            }
        }
        assert_eq!(sum, uva_sample::batch_hash(&nodes, seeds, &blocks));
    }
}
