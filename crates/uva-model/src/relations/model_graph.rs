//! The types of a graph as a model sees them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use uva_graph::{Metagraph, NodeType, TypedDataset};
use uva_options::json_values;

/// The node types and relations that decide which parameters a model over relations has. Types and relations are in
/// the order of the dataset, which numbers them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelGraph {
    /// The node types.
    pub types: Vec<ModelType>,
    /// The source type, the name and the destination type of each relation.
    pub relations: Vec<[String; 3]>,
    /// The type of the seeds.
    pub target: String,
}

/// A node type as a model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelType {
    /// Its name.
    pub name: String,
    /// Columns of its feature rows; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<usize>,
    /// Without features its number of nodes, which is that of the rows of its table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
}

json_values!(ModelGraph);

impl ModelGraph {
    /// The types of a dataset whose seeds are of the type `target`.
    #[must_use]
    pub fn of(dataset: &TypedDataset, target: NodeType) -> Self {
        let metagraph: &Metagraph = dataset.metagraph();
        let of_type = |node_type| {
            let columns = dataset.table_of(node_type).map(|table| table.dim);
            let nodes = columns.is_none().then(|| dataset.nodes_of(node_type));
            ModelType { name: metagraph.type_name(node_type).to_owned(), columns, nodes }
        };
        Self {
            types: metagraph.types().map(of_type).collect(),
            relations: metagraph.relations().map(|of| metagraph.names(of).map(str::to_owned)).collect(),
            target: metagraph.type_name(target).to_owned(),
        }
    }

    /// The number of a type.
    #[must_use]
    pub fn find_type(&self, name: &str) -> Option<usize> {
        self.types.iter().position(|of_type| of_type.name == name)
    }

    /// The full name of a relation, as columns of a batch have it.
    #[must_use]
    pub fn full_name(&self, relation: usize) -> String {
        self.relations[relation].join("__")
    }

    /// The largest number of relations that lead into one type.
    #[must_use]
    pub fn most_into_one_type(&self) -> usize {
        let into = |of_type: &ModelType| self.relations.iter().filter(|[.., to]| *to == of_type.name).count();
        self.types.iter().map(into).max().unwrap_or(0)
    }

    /// The first type or relation in which another graph differs; `None` if it has the same.
    #[must_use]
    pub fn difference_to(&self, other: &Self) -> Option<String> {
        if self.target != other.target {
            return Some(format!("the seeds are of the type {}, not {}", other.target, self.target));
        }
        let shown = |of_type: Option<&ModelType>| match of_type {
            None => "missing".to_owned(),
            Some(ModelType { name, columns: Some(columns), .. }) => {
                format!("{name} with {columns} feature columns")
            }
            Some(ModelType { name, nodes: Some(nodes), .. }) => {
                format!("{name} without features and with {nodes} nodes")
            }
            Some(ModelType { name, .. }) => format!("{name} without features"),
        };
        let types = self.types.len().max(other.types.len());
        for number in 0..types {
            let (own, others) = (self.types.get(number), other.types.get(number));
            if own != others {
                return Some(format!("node type {number} is {}, not {}", shown(others), shown(own)));
            }
        }
        let name =
            |of: Option<&[String; 3]>| of.map_or_else(|| "missing".to_owned(), |names| names.join("__"));
        for number in 0..self.relations.len().max(other.relations.len()) {
            let (own, others) = (self.relations.get(number), other.relations.get(number));
            if own != others {
                return Some(format!("relation {number} is {}, not {}", name(others), name(own)));
            }
        }
        None
    }

    /// Rejects names that occur twice, or that name no type.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        if let Some(twice) = self.types.iter().find(|of_type| !names.insert(of_type.name.as_str())) {
            return Err(format!("it has the node type {} twice", twice.name));
        }
        let ends = self.relations.iter().flat_map(|[from, _, to]| [from, to]);
        if let Some(unknown) = ends.chain([&self.target]).find(|name| !names.contains(name.as_str())) {
            return Err(format!("it has no node type {unknown}"));
        }
        let mut relations = HashSet::new();
        match self.relations.iter().find(|relation| !relations.insert(*relation)) {
            Some(twice) => Err(format!("it has the relation {} twice", twice.join("__"))),
            None => Ok(()),
        }
    }
}
