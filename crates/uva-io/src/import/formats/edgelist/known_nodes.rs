//! The nodes of an edge list, if known from the options or the arrays.

use std::path::Path;

use uva_graph::{GraphError, names};

use super::super::npy::NpyArrays;
use crate::import::options::{EdgeList, Ids};
use crate::import::reading::nodes::NodeRange;
use crate::import::writing::numbering::{DuplicateId, Numbering, named};

/// The numbering, if it is known without reading the edges.
pub(super) fn known(
    options: &EdgeList,
    arrays: Option<&NpyArrays>,
    directory: Option<&Path>,
) -> Result<Option<Numbering>, GraphError> {
    let rows = arrays.map(|arrays| arrays.nodes() as u64);
    if let (Some(rows), Some(nodes)) = (rows, options.nodes)
        && rows != nodes
    {
        return Err(GraphError::usage("nodes", format!("{nodes}, but the features have {rows} rows")));
    }
    match (options.ids, arrays, directory) {
        (Ids::Name, _, _) if options.nodes.is_some() => {
            Err(GraphError::usage("nodes", "not supported with names"))
        }
        (Ids::Name, Some(_), Some(directory)) => {
            let path = directory.join(names::NODE_NAMES);
            let numbering = named(&path)?;
            Ok(Some(numbering))
        }
        (Ids::Name, _, _) => Ok(None),
        (Ids::Number, Some(arrays), _) => match arrays.node_ids() {
            Some(ids) => {
                let path = directory.unwrap_or(Path::new("")).join(names::NODE_IDS);
                let numbering =
                    Numbering::of_numbers(ids.to_vec()).map_err(|DuplicateId { first, second, id }| {
                        let message =
                            format!("{}: entries {first} and {second} are both {id}", path.display());
                        GraphError::usage("arrays", message)
                    })?;
                Ok(Some(numbering))
            }
            None => {
                let nodes = arrays.nodes() as u64;
                Ok(Some(Numbering::Dense(NodeRange::new(nodes, format!("the features have {nodes} rows")))))
            }
        },
        (Ids::Number, None, _) => {
            Ok(options.nodes.map(|nodes| Numbering::Dense(NodeRange::new(nodes, format!("`nodes={nodes}`")))))
        }
    }
}
