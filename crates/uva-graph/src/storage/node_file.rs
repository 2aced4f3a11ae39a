//! Files that name nodes: an array of ids, a mask, or text with one id a line. Shared by all front ends.

use std::io::Read;
use std::path::Path;

use uva_mem::files::{open_regular, read_regular_text};

use crate::GraphError;
use crate::npy::{NpyArray, NpyType};
use crate::storage::verify::outside;
use uva_files::quote::shown;

/// Larger text files are rejected: an array takes less space and is faster to read.
const MOST_TEXT: u64 = 1 << 30;
/// The first bytes of every `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The ids in the file at `path`, in its order, each one of `nodes` nodes. An id may occur several times.
///
/// | file | ids |
/// |---|---|
/// | `.npy`, int64 or int32 \[ids\] | its entries |
/// | `.npy`, bool \[nodes\] | the positions at which it is true, ascending |
/// | any other | its lines, a decimal number each; empty lines do not count |
///
/// A file is a `.npy` array if it begins as one, or if its name ends in `.npy`.
///
/// # Errors
/// [`GraphError::Usage`] for `option`, with the file and the line or entry: no id, an id that is not a node, or a line
/// that is not a number. [`GraphError::Io`] and [`GraphError::Invalid`] if the file cannot be read, or is another
/// array.
pub fn read(path: &Path, nodes: usize, option: &str) -> Result<Vec<i64>, GraphError> {
    ids(path, Some(nodes), option)
}

/// Like [`read`], for an unknown number of nodes: accepts ids of any size and masks of any length.
///
/// # Errors
/// As [`read`], except for ids that are not nodes.
pub fn read_unbounded(path: &Path, option: &str) -> Result<Vec<i64>, GraphError> {
    ids(path, None, option)
}

fn ids(path: &Path, nodes: Option<usize>, option: &str) -> Result<Vec<i64>, GraphError> {
    let refused = |problem: String| GraphError::usage(option, format!("{}: {problem}", path.display()));
    let text = match is_array(path)? {
        true => None,
        false => Some(read_regular_text(path, MOST_TEXT).map_err(GraphError::io(path, "read"))?),
    };
    let ids = match &text {
        None => of_array(&NpyArray::open(path)?, nodes)?,
        Some(text) => of_text(text).map_err(refused)?,
    };
    if ids.is_empty() {
        return Err(refused("there is no node in it".to_owned()));
    }
    let Some(nodes) = nodes else { return Ok(ids) };
    let Some(place) = first_outside(&ids, nodes) else { return Ok(ids) };
    let place_in_file = match text.as_deref().and_then(|text| lines(text).nth(place)) {
        Some((line, _)) => format!("line {line}"),
        None => format!("entry {place}"),
    };
    Err(refused(format!("{place_in_file} is {}, {}", ids[place], of_nodes(nodes))))
}

/// The integers of an array of one axis, int64 or int32.
///
/// # Errors
/// [`GraphError::Invalid`] for another shape or type.
pub fn integers(array: &NpyArray) -> Result<Vec<i64>, GraphError> {
    if array.shape().len() != 1 {
        return Err(array.wrong_shape("[ids]"));
    }
    Ok(match array.kind() {
        NpyType::I64 => array.elements::<i64>(NpyType::I64)?.to_vec(),
        NpyType::I32 => array.elements::<i32>(NpyType::I32)?.iter().map(|id| i64::from(*id)).collect(),
        _ => return Err(array.wrong_type("int64 or int32")),
    })
}

/// The ids at which a mask is true, ascending.
pub fn positions(mask: impl IntoIterator<Item = bool>) -> Vec<i64> {
    (0..).zip(mask).filter(|(_, is)| *is).map(|(id, _)| id).collect()
}

/// The position of the first id outside of `nodes` nodes.
pub(crate) fn first_outside(ids: &[i64], nodes: usize) -> Option<usize> {
    ids.iter().position(|&id| usize::try_from(id).map_or(true, |id| id >= nodes))
}

/// The end of the message about such an id.
pub(crate) fn of_nodes(nodes: usize) -> String {
    format!("{} of the dataset's {nodes} nodes", outside(nodes as u64))
}

fn is_array(path: &Path) -> Result<bool, GraphError> {
    if path.extension().is_some_and(|extension| extension == "npy") {
        return Ok(true);
    }
    let file = open_regular(path).map_err(GraphError::io(path, "open"))?;
    let mut begin = Vec::with_capacity(MAGIC.len());
    file.take(MAGIC.len() as u64).read_to_end(&mut begin).map_err(GraphError::io(path, "read"))?;
    Ok(begin == MAGIC)
}

fn of_array(array: &NpyArray, nodes: Option<usize>) -> Result<Vec<i64>, GraphError> {
    match (array.kind(), nodes) {
        (NpyType::Bool, _)
            if array.shape().len() == 1 && nodes.is_none_or(|nodes| array.shape() == [nodes]) =>
        {
            Ok(positions(array.bytes().iter().map(|byte| *byte != 0)))
        }
        (NpyType::Bool, Some(nodes)) => Err(array.wrong_shape(format!("[{nodes}], an entry for each node"))),
        (NpyType::Bool, None) => Err(array.wrong_shape("[nodes], an entry for each node")),
        (NpyType::I64 | NpyType::I32, _) => integers(array),
        _ => Err(array.wrong_type("int64 or int32 (ids), or bool (a mask)")),
    }
}

fn of_text(text: &str) -> Result<Vec<i64>, String> {
    let id = |(line, content): (usize, &str)| {
        content.parse().map_err(|_| format!("line {line} is '{}': expected a node id", shown(content)))
    };
    lines(text).map(id).collect()
}

/// The lines that are not empty, without spaces around them, and their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty())
}
