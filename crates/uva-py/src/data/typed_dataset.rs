//! An open typed dataset: its types and relations, and their arrays without a copy.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{NodeType, Relation, TypedDataset, names};

use crate::arrays::array::Array;
use crate::arrays::dlpack::DlpackType;
use crate::arrays::elements::of_features;
use crate::arrays::table::PrivateTable;
use crate::data::dataset::{on_threads, verify_of};
use crate::errors::{UvatrainError, of_graph};

/// A dataset with several types of nodes and edges, checked and mapped. `uvatrain.TypedDataset` is the public class.
#[pyclass(frozen, name = "TypedDataset", module = "uvatrain._core")]
pub struct PyTypedDataset {
    graph: TypedDataset,
}

#[pymethods]
impl PyTypedDataset {
    /// Opens the dataset in the directory `path`; `verify` as for `Dataset`.
    #[new]
    #[pyo3(signature = (path, verify="stamp"))]
    fn new(py: Python<'_>, path: PathBuf, verify: &str) -> PyResult<Self> {
        let how = verify_of(verify)?;
        let graph = py.detach(|| on_threads(|| TypedDataset::open_verified(&path, how)))?;
        Ok(Self { graph })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.graph.path().to_owned()
    }

    /// The name in meta.json, else the directory's.
    #[getter]
    fn name(&self) -> &str {
        self.graph.name()
    }

    /// The fingerprint of the content, 16 hex digits; it does not depend on path or name.
    #[getter]
    fn fingerprint(&self) -> String {
        self.graph.fingerprint()
    }

    /// The content of meta.json, as JSON.
    #[getter]
    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(self.graph.meta())
            .map_err(|error| UvatrainError::new_err(format!("meta.json: {error}")))
    }

    /// The type whose splits are seeds.
    #[getter]
    fn target(&self) -> Option<String> {
        self.graph.target().map(|target| self.graph.metagraph().type_name(target).to_owned())
    }

    /// Name, number of nodes and number of classes of each type.
    #[getter]
    fn node_types(&self) -> Vec<(String, usize, usize)> {
        let metagraph = self.graph.metagraph();
        let of = |node_type| {
            let name = metagraph.type_name(node_type).to_owned();
            (name, self.graph.nodes_of(node_type), self.graph.classes_of(node_type))
        };
        metagraph.types().map(of).collect()
    }

    /// The three names and the number of edges of each relation.
    #[getter]
    fn edge_types(&self) -> Vec<([String; 3], usize)> {
        let metagraph = self.graph.metagraph();
        let of = |relation| (metagraph.names(relation).map(str::to_owned), self.graph.edges_of(relation));
        metagraph.relations().map(of).collect()
    }

    /// The names of arrays of a type that no other method has.
    fn other_arrays(&self, node_type: usize) -> PyResult<Vec<String>> {
        Ok(self.graph.other_arrays_of(self.node_type(node_type)?))
    }

    /// An array of a node type by the name of its file, without a copy; None if there is no such file, or no array
    /// library has its type.
    fn node_array(&self, node_type: usize, file: &str) -> PyResult<Option<Array>> {
        let node_type = self.node_type(node_type)?;
        let rows = self.graph.rows(node_type).filter(|_| file == names::FEATURES);
        let element = rows.map(|rows| of_features(rows.element));
        lent(&self.graph.directory_of_type(node_type).join(file), element)
    }

    /// An array of a relation by the name of its file, likewise. The features are those of its own file.
    fn edge_array(&self, relation: usize, file: &str) -> PyResult<Option<Array>> {
        let relations = self.graph.metagraph().relation_count();
        let relation = u16::try_from(relation).ok().filter(|&number| usize::from(number) < relations);
        let relation = Relation(relation.ok_or_else(|| PyIndexError::new_err("no such relation"))?);
        let name = if self.graph.metagraph().is_named() { names::FEATURES } else { names::EDGE_FEATURES };
        let rows = self.graph.edge_rows(relation).filter(|_| file == name);
        let element = rows.map(|rows| of_features(rows.table.element));
        lent(&self.graph.directory_of_relation(relation).join(file), element)
    }
}

impl PyTypedDataset {
    fn node_type(&self, number: usize) -> PyResult<NodeType> {
        let types = self.graph.metagraph().type_count();
        let number = u16::try_from(number).ok().filter(|&number| usize::from(number) < types);
        Ok(NodeType(number.ok_or_else(|| PyIndexError::new_err("no such node type"))?))
    }
}

/// The array of the file at `path`, whose values are of type `element`, or of the type that the file says.
fn lent(path: &Path, element: Option<DlpackType>) -> PyResult<Option<Array>> {
    if !path.is_file() {
        return Ok(None);
    }
    let array = NpyArray::open(path).map_err(of_graph)?;
    let (rows, columns) = match *array.shape() {
        [rows] => (rows, None),
        [rows, columns] => (rows, Some(columns)),
        _ => return Ok(None),
    };
    let element = element.or(match array.kind() {
        NpyType::I64 => Some(DlpackType::I64),
        NpyType::I32 => Some(DlpackType::I32),
        NpyType::U16 => Some(DlpackType::U16),
        NpyType::U8 => Some(DlpackType::U8),
        NpyType::I8 => Some(DlpackType::I8),
        NpyType::F32 => Some(DlpackType::F32),
        NpyType::F16 => Some(DlpackType::F16),
        _ => None,
    });
    let Some(element) = element else { return Ok(None) };
    Ok(Some(PrivateTable::map(path, rows, columns, element)?.lent()))
}
