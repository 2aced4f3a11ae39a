//! The name of one array of a batch.

use std::fmt;

use uva_graph::{Metagraph, NodeType, Relation};

use crate::schema::Scope;
use crate::{COLUMNS, Column, ColumnError};

/// The name of one array of a batch: a column, the layer for a column of layers, and the node type or relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnKey {
    /// The column.
    pub column: Column,
    /// The layer, from the seeds; 0 for a column that has no layers.
    pub layer: usize,
    /// The number of the node type or relation that it [belongs to](crate::ColumnSpec::scope); 0 in a homogeneous graph.
    /// The feature rows of a hop set have one array for each table that the model reads, with its index.
    pub part: usize,
}

impl Column {
    /// The column's array in a layer. A column without layers has one array for all of them.
    #[must_use]
    pub const fn at(self, layer: usize) -> ColumnKey {
        let layer = if self.spec().is_of_layers() { layer } else { 0 };
        ColumnKey { column: self, layer, part: 0 }
    }

    /// One of the column's arrays, if it has several.
    #[must_use]
    pub const fn part(self, part: usize) -> ColumnKey {
        ColumnKey { column: self, layer: 0, part }
    }

    /// The column's array of a node type.
    #[must_use]
    pub fn of(self, node_type: NodeType) -> ColumnKey {
        self.part(node_type.index())
    }

    /// The column's array of a relation in a layer.
    #[must_use]
    pub fn between(self, layer: usize, relation: Relation) -> ColumnKey {
        ColumnKey { part: relation.index(), ..self.at(layer) }
    }
}

impl ColumnKey {
    /// The node type that the array belongs to: for a column of node types.
    #[must_use]
    pub fn node_type(&self) -> NodeType {
        NodeType(self.part as u16)
    }

    /// The relation that the array belongs to: for a column of layers.
    #[must_use]
    pub fn relation(&self) -> Relation {
        Relation(self.part as u16)
    }

    /// The full name in batches of this graph: `labels` and `block0.indptr` if the graph is homogeneous, else with the node
    /// type or relation, as in `labels.paper` and `block0.author__writes__paper.indptr`.
    #[must_use]
    pub fn name_in(&self, metagraph: &Metagraph) -> String {
        let spec = self.column.spec();
        match spec.scope() {
            Scope::Type if metagraph.is_named() => {
                format!("{}.{}", spec.name, metagraph.type_name(self.node_type()))
            }
            Scope::LayerRelation if metagraph.is_named() => {
                format!("block{}.{}.{}", self.layer, metagraph.full_name(self.relation()), spec.name)
            }
            _ => spec.full_name(self.layer),
        }
    }

    /// Parses the full name of an array. A name without a node type is that of `target`, one without a relation that of
    /// the only relation.
    ///
    /// # Errors
    /// [`ColumnError::Unknown`] with the nearest name, or [`ColumnError::NoSuchLayer`].
    pub fn parse(
        name: &str,
        layers: usize,
        metagraph: &Metagraph,
        target: NodeType,
    ) -> Result<Self, ColumnError> {
        let unknown =
            || ColumnError::Unknown { name: name.to_owned(), nearest: nearest(name, layers, metagraph) };
        let of_layer = name.strip_prefix("block").and_then(|rest| rest.split_once('.'));
        let found = match of_layer {
            Some((layer, rest)) => layer.parse().ok().and_then(|layer: usize| {
                let (relation, column) = match rest.rsplit_once('.') {
                    Some((relation, column)) if metagraph.is_named() => {
                        (metagraph.find_relation(relation).ok()?, column)
                    }
                    None if metagraph.relation_count() == 1 => (Relation::ONLY, rest),
                    _ => return None,
                };
                Some(Column::from_name(column)?.between(layer, relation))
            }),
            None => match name.split_once('.') {
                Some((column, of)) if metagraph.is_named() => {
                    let of = metagraph.find_type(of).ok();
                    of.and_then(|of| Some(Column::from_name(column)?.of(of)))
                        .filter(|key| key.column.spec().scope() == Scope::Type)
                }
                _ => Column::from_name(name).map(|column| match column.spec().scope() {
                    Scope::Type => column.of(target),
                    _ => column.into(),
                }),
            },
        };
        match found {
            Some(key) if key.column.spec().is_of_layers() == of_layer.is_some() => {
                if key.column.spec().is_of_layers() && key.layer >= layers {
                    return Err(ColumnError::NoSuchLayer { layer: key.layer, layers });
                }
                Ok(key)
            }
            _ => Err(unknown()),
        }
    }
}

impl From<Column> for ColumnKey {
    fn from(column: Column) -> Self {
        column.at(0)
    }
}

impl fmt::Display for ColumnKey {
    /// Writes the name in batches of a homogeneous graph: `labels`, `block0.indptr`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.column.spec().full_name(self.layer))
    }
}

/// The full name closest to `name`, if any is close. Both the full name and the column's own name are compared.
fn nearest(name: &str, layers: usize, metagraph: &Metagraph) -> Option<String> {
    let types = metagraph.type_count();
    let in_batch = COLUMNS.iter().flat_map(|spec| {
        let (layers, parts) = match spec.scope() {
            Scope::Batch => (1, 1),
            Scope::Type => (1, types),
            Scope::LayerRelation => (layers, metagraph.relation_count()),
        };
        (0..layers * parts).map(move |at| ColumnKey {
            column: spec.column,
            layer: at / parts,
            part: at % parts,
        })
    });
    let own = |name: &str| {
        let parts = || name.split('.');
        let of_layer = name.starts_with("block");
        if of_layer { parts().next_back() } else { parts().next() }.unwrap_or_default().to_owned()
    };
    in_batch
        .map(|key| key.name_in(metagraph))
        .map(|full| {
            let whole = strsim::jaro(name, &full);
            ([whole.max(strsim::jaro(&own(name), &own(&full))), whole], full)
        })
        .filter(|([likeness, _], _)| *likeness > 0.7)
        // The first of equally close names, which has the layer at the seeds.
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, full)| full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<ColumnKey, ColumnError> {
        ColumnKey::parse(name, 2, &Metagraph::homogeneous(), NodeType::ONLY)
    }

    #[test]
    fn names_round_trip_and_unknown_ones_report_the_nearest() {
        for spec in &COLUMNS {
            assert_eq!(Column::from_name(spec.name), Some(spec.column));
            let layer = if spec.is_of_layers() { 1 } else { 0 };
            assert_eq!(parse(&spec.full_name(layer)), Ok(spec.column.at(layer)));
            assert_eq!(spec.column.at(layer).name_in(&Metagraph::homogeneous()), spec.full_name(layer));
        }
        let refused = |name: &str| parse(name).unwrap_err().to_string();
        assert!(refused("label").contains("`labels`"), "{}", refused("label"));
        assert!(refused("indcies").contains("`block0.indices`"));
        assert!(refused("indptr").contains("`block0.indptr`"), "{}", refused("indptr"));
        assert!(refused("block0.labels").contains("is `labels`"));
        assert!(!refused("@@").contains("nearest"), "{}", refused("@@"));
        assert_eq!(parse("block2.indptr"), Err(ColumnError::NoSuchLayer { layer: 2, layers: 2 }));
        for odd in ["block.indptr", "block-1.indptr", "blockx.indptr", "block", "", "labels.node", "x."] {
            assert!(matches!(parse(odd), Err(ColumnError::Unknown { .. })), "{odd}");
        }
    }

    #[test]
    fn names_in_typed_graphs_carry_the_node_type_or_relation() {
        let relations = [["paper", "cites", "paper"], ["author", "writes", "paper"]];
        let graph = Metagraph::new(["author", "paper"], relations).unwrap();
        let paper = NodeType(1);
        let parse = |name: &str| ColumnKey::parse(name, 2, &graph, paper);
        for spec in &COLUMNS {
            let (key, name) = match spec.scope() {
                Scope::Batch => (spec.column.into(), spec.name.to_owned()),
                Scope::Type => (spec.column.of(paper), format!("{}.paper", spec.name)),
                Scope::LayerRelation => (
                    spec.column.between(1, Relation(1)),
                    format!("block1.author__writes__paper.{}", spec.name),
                ),
            };
            assert_eq!((key.name_in(&graph), parse(&name)), (name, Ok(key)));
        }
        assert_eq!(parse("block0.writes.indptr"), Ok(Column::Indptr.between(0, Relation(1))));
        assert_eq!(parse("labels"), Ok(Column::Labels.of(paper)), "of the target");
        let refused = |name: &str| parse(name).unwrap_err().to_string();
        assert!(refused("label.paper").contains("`labels.paper`"), "{}", refused("label.paper"));
        assert!(refused("x.papr").contains("`x.paper`"), "{}", refused("x.papr"));
        assert!(refused("block0.indptr").contains("`block0."), "{}", refused("block0.indptr"));
        assert_eq!(parse("block2.writes.indptr"), Err(ColumnError::NoSuchLayer { layer: 2, layers: 2 }));
        for odd in [
            "block0.writ.indptr",
            "block0.writes.labels",
            "indptr.paper",
            "labels.paper.x",
            "aggregated.paper",
        ] {
            assert!(matches!(parse(odd), Err(ColumnError::Unknown { .. })), "{odd}");
        }
        let one = Metagraph::new(["user"], [["user", "likes", "user"]]).unwrap();
        let of_one = |name: &str| ColumnKey::parse(name, 1, &one, NodeType::ONLY);
        assert_eq!(of_one("block0.indptr"), of_one("block0.user__likes__user.indptr"));
        assert_eq!(Column::X.at(0).name_in(&one), "x.user");
    }
}
