//! Parts: some columns of one hop for the kept rows, in the order of computation.
//!
//! A part is a separate array file. Its elements begin at byte 4096, so that a part of all columns is the hop's file.

use std::io;
use std::ops::Range;

use half::{bf16, f16};
use rayon::ThreadPool;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use uva_graph::GraphError;
use uva_graph::hash::ArrayHash;
use uva_graph::npy::{NpyArray, NpyType, NpyWriter};
use uva_mem::files::OwnDirectory;

use crate::options::HopType;

/// The byte offset of the elements in hop files.
pub const DATA_OFFSET: usize = 4096;

/// Bytes of float32 that are computed before they are written.
const BLOCK_BYTES: usize = 1 << 20;

/// Bytes that writing a part uses: a block, the block narrowed, and the writer's buffer.
pub(crate) const WRITE_BYTES: u64 = 2 * BLOCK_BYTES as u64 + (4 << 20);

/// A finished part, as recorded in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FinishedPart {
    /// The operator's position among the requested ones; `None` for the features themselves.
    pub(crate) operator: Option<usize>,
    pub(crate) hop: u32,
    pub(crate) columns: Range<usize>,
    pub(crate) bytes: u64,
    pub(crate) hash: String,
}

/// The file of these columns.
fn name(operator: Option<usize>, hop: u32, columns: &Range<usize>) -> String {
    let operator = operator.map_or_else(|| "x".to_owned(), |place| place.to_string());
    format!("{operator}.{hop}.{}-{}.npy", columns.start, columns.end)
}

/// Whether a part has this name.
pub(crate) fn is_name(text: &str) -> bool {
    let parsed = || {
        let (operator, rest) = text.strip_suffix(".npy")?.split_once('.')?;
        let (hop, columns) = rest.split_once('.')?;
        let (start, end) = columns.split_once('-')?;
        let operator = if operator == "x" { None } else { Some(operator.parse().ok()?) };
        Some(name(operator, hop.parse().ok()?, &(start.parse().ok()?..end.parse().ok()?)))
    };
    parsed().is_some_and(|name| name == text)
}

/// An array that is written and hashed at once.
pub(crate) struct HashedArray<'d> {
    directory: &'d OwnDirectory,
    name: String,
    writer: NpyWriter,
    hash: ArrayHash,
}

impl<'d> HashedArray<'d> {
    /// Creates the file, replacing an earlier one.
    pub(crate) fn create(
        directory: &'d OwnDirectory,
        name: &str,
        element: HopType,
        row: &[usize],
        tag: u32,
    ) -> Result<Self, GraphError> {
        let writer = create(directory, name, element.npy(), row)?.with_data_at(DATA_OFFSET);
        Ok(HashedArray { directory, name: name.to_owned(), writer, hash: ArrayHash::new(tag as u8) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), GraphError> {
        self.hash.add(bytes);
        self.writer.write_bytes(bytes)
    }

    /// Returns the bytes and the hash of the file, which is then on the disk under its name.
    pub(crate) fn finish(self) -> Result<(u64, String), GraphError> {
        self.writer.finish()?;
        let bytes = sync(self.directory, &self.name)?;
        Ok((bytes, format!("{:016x}", self.hash.finish())))
    }
}

/// Creates an array that replaces an earlier file of this name.
pub(crate) fn create(
    directory: &OwnDirectory,
    name: &str,
    kind: NpyType,
    row: &[usize],
) -> Result<NpyWriter, GraphError> {
    let path = directory.path().join(name);
    remove(directory, name)?;
    let file = directory.create_file(name).map_err(GraphError::io(&path, "create"))?;
    Ok(NpyWriter::onto(file, &path, kind, row))
}

/// Removes a file, which may be missing.
pub(crate) fn remove(directory: &OwnDirectory, name: &str) -> Result<(), GraphError> {
    directory.remove_file(name).map_err(GraphError::io(&directory.path().join(name), "remove"))
}

/// Waits until a file and its name are on the disk; returns its length.
pub(crate) fn sync(directory: &OwnDirectory, name: &str) -> Result<u64, GraphError> {
    let synced = || -> io::Result<u64> {
        let file = directory.open_file(name)?;
        file.sync_all()?;
        directory.sync()?;
        Ok(file.metadata()?.len())
    };
    synced().map_err(GraphError::io(&directory.path().join(name), "flush"))
}

/// Writes the rows of some nodes, one after the other.
pub(crate) type RowWriter<'f> = &'f mut (dyn FnMut(&[i64], &mut [f32]) -> Result<(), GraphError> + Send);

/// Writes a part: `rows` fills blocks of consecutive kept rows, each of `columns`, within the pool. `stops` receives
/// the number of rows written since the last call, and returns whether to stop. `None` if it was stopped.
pub(crate) fn write(
    folder: &OwnDirectory,
    (operator, hop, columns): (Option<usize>, u32, &Range<usize>),
    (element, nodes): (HopType, &[i64]),
    pool: &ThreadPool,
    rows: RowWriter<'_>,
    stops: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<FinishedPart>, GraphError> {
    let width = columns.len();
    let mut file = HashedArray::create(folder, &name(operator, hop, columns), element, &[width], hop)?;
    let block_rows = (BLOCK_BYTES / 4 / width).max(1);
    let mut block = vec![0.0; block_rows.min(nodes.len()) * width];
    let mut first = 0;
    for nodes in nodes.chunks(block_rows) {
        let block = &mut block[..nodes.len() * width];
        pool.install(|| rows(nodes, block))?;
        let bits = match element {
            HopType::F32 => None,
            HopType::F16 => Some(pool.install(|| {
                narrowed(block, f16::INFINITY.to_bits(), |value| f16::from_f32(value).to_bits())
            })),
            HopType::Bf16 => Some(pool.install(|| {
                narrowed(block, bf16::INFINITY.to_bits(), |value| bf16::from_f32(value).to_bits())
            })),
        };
        match bits {
            None => file.write(bytemuck::cast_slice(block))?,
            Some(Ok(bits)) => file.write(bytemuck::cast_slice(&bits))?,
            Some(Err(at)) => {
                let (row, column) = (at / width, columns.start + at % width);
                return Err(too_large(element, block[at], (hop, first + row, nodes[row], column)));
            }
        }
        first += nodes.len();
        if stops(nodes.len()) {
            return Ok(None);
        }
    }
    let (bytes, hash) = file.finish()?;
    Ok(Some(FinishedPart { operator, hop, columns: columns.clone(), bytes, hash }))
}

/// The values rounded to the nearest of a narrower type with this infinity; or the position of the first finite value
/// that becomes infinite.
fn narrowed(values: &[f32], infinity: u16, narrow: impl Fn(f32) -> u16 + Sync) -> Result<Vec<u16>, usize> {
    // All bits except the sign.
    const MAGNITUDE: u16 = 0x7fff;
    let values = values.par_iter().with_min_len(1 << 14);
    let bits: Vec<u16> = values.clone().map(|&value| narrow(value)).collect();
    let lost = |(&value, &bits): (&f32, &u16)| bits & MAGNITUDE == infinity && value.is_finite();
    match values.zip(&bits).position_first(lost) {
        Some(at) => Err(at),
        None => Ok(bits),
    }
}

fn too_large(element: HopType, value: f32, (hop, row, node, column): (u32, usize, i64, usize)) -> GraphError {
    let (most, wider) = match element {
        HopType::F16 => (f16::MAX.to_f32(), "bf16 or f32"),
        HopType::Bf16 | HopType::F32 => (bf16::MAX.to_f32(), "f32"),
    };
    GraphError::usage(
        "type",
        format!(
            "hop {hop} of row {row} (node {node}) has {value} in column {column}, and {element} holds {most} at most: \
             take {wider}"
        ),
    )
}

impl FinishedPart {
    /// The part's file in the folder of parts.
    pub(crate) fn name(&self) -> String {
        name(self.operator, self.hop, &self.columns)
    }

    /// Whether a run with this many operators, hops and features makes such a part.
    pub(crate) fn fits(&self, operators: usize, hops: u32, dim: usize) -> bool {
        let fits = match self.operator {
            None => self.hop == 0,
            Some(place) => place < operators && (1..=hops).contains(&self.hop),
        };
        fits && self.columns.start < self.columns.end && self.columns.end <= dim
    }

    /// Whether the part's file exists unchanged.
    ///
    /// # Errors
    /// If the system refuses to read it, which does not mean that the part is damaged.
    pub(crate) fn is_whole(
        &self,
        folder: &OwnDirectory,
        element: HopType,
        rows: usize,
    ) -> Result<bool, GraphError> {
        let shape = Some((element.npy(), vec![rows, self.columns.len()]));
        is_whole((folder, &self.name()), self.hop, shape, (self.bytes, &self.hash))
    }
}

/// Whether an array with this length and hash exists; for hops also with this type, shape and offset of the elements.
///
/// # Errors
/// If the system refuses to read it.
pub(crate) fn is_whole(
    (directory, name): (&OwnDirectory, &str),
    tag: u32,
    hop: Option<(NpyType, Vec<usize>)>,
    (bytes, hash): (u64, &str),
) -> Result<bool, GraphError> {
    let path = directory.path().join(name);
    match directory.open_file(name).and_then(|file| Ok(file.metadata()?.len())) {
        Ok(length) if length == bytes => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(GraphError::io(&path, "examine")(error)),
    }
    let array = match NpyArray::open(&path) {
        Ok(array) => array,
        Err(GraphError::Invalid { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_hop = |(kind, shape): &(NpyType, Vec<usize>)| {
        (array.kind(), array.shape()) == (*kind, shape) && array.header().data_offset == DATA_OFFSET
    };
    Ok(hop.as_ref().is_none_or(is_hop)
        && format!("{:016x}", uva_graph::hash::of_array(tag as u8, array.bytes())) == hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_parts_are_recognised() {
        for (operator, hop, columns) in [(None, 0, 0..7), (Some(0), 1, 3..4), (Some(12), 31, 0..100_000)] {
            assert!(is_name(&name(operator, hop, &columns)));
        }
        for other in
            ["x.0.0-7.npy2", "x.0.0-7", "y.0.0-7.npy", "01.1.0-7.npy", "x.0.7.npy", "film.npy", ".npy", ""]
        {
            assert!(!is_name(other), "{other}");
        }
    }
}
