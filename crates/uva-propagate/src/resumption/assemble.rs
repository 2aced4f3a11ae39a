//! Assembly of parts: the columns of a hop's file, or all hops of a row.

use uva_graph::GraphError;
use uva_graph::npy::NpyArray;
use uva_mem::files::OwnDirectory;

use super::journal::FinishedFile;
use super::part::{self, FinishedPart, HashedArray};
use crate::options::HopType;

/// Bytes of rows that are assembled before they are written.
const BLOCK_BYTES: usize = 1 << 20;

/// Writes the file `name` of the set: each row has the columns of all parts, hop after hop. `row` is the shape of a
/// row. `stops` is called between blocks. `None` if it was stopped.
pub(crate) fn file(
    (parts_folder, set): (&OwnDirectory, &OwnDirectory),
    (name, row, tag): (&str, &[usize], u32),
    (element, rows): (HopType, usize),
    parts: &[FinishedPart],
    stops: &mut dyn FnMut() -> bool,
) -> Result<Option<FinishedFile>, GraphError> {
    if let ([only], [_]) = (parts, row) {
        // A part of all columns is the file. A second name for it costs no copy; some file systems do not support
        // links.
        part::remove(set, name)?;
        if set.link(name, parts_folder, &only.name()).is_ok() {
            let bytes = part::sync(set, name)?;
            return Ok(Some(FinishedFile { name: name.to_owned(), tag, bytes, hash: only.hash.clone() }));
        }
    }
    let arrays = parts
        .iter()
        .map(|part| NpyArray::open(&parts_folder.path().join(part.name())))
        .collect::<Result<Vec<_>, _>>()?;
    let widths: Vec<usize> = parts.iter().map(|part| part.columns.len() * element.bytes()).collect();
    let row_bytes: usize = widths.iter().sum();
    let mut file = HashedArray::create(set, name, element, row, tag)?;
    let block_rows = (BLOCK_BYTES / row_bytes).max(1);
    let mut block = Vec::with_capacity(block_rows * row_bytes);
    for first in (0..rows).step_by(block_rows) {
        if stops() {
            return Ok(None);
        }
        block.clear();
        for row in first..(first + block_rows).min(rows) {
            for (array, width) in arrays.iter().zip(&widths) {
                block.extend_from_slice(&array.bytes()[row * width..][..*width]);
            }
        }
        file.write(&block)?;
    }
    let (bytes, hash) = file.finish()?;
    Ok(Some(FinishedFile { name: name.to_owned(), tag, bytes, hash }))
}
