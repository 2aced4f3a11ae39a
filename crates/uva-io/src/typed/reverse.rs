//! Relations with the edges of another one in the other direction.

use std::path::Path;

use uva_graph::csc::CscBuilder;
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{GraphError, names};

use super::edge_column::EdgeColumn;

/// A relation whose files are complete.
pub(super) struct WrittenRelation {
    indptr: NpyArray,
    indices: NpyArray,
    /// The arrays with a row for each entry of the lists, without features: both directions have one table of these.
    columns: Vec<(String, NpyArray)>,
}

impl WrittenRelation {
    /// Opens the relation in `directory`.
    pub(super) fn open(directory: &Path) -> Result<Self, GraphError> {
        let open = |name: &str| NpyArray::open(&directory.join(name));
        let mut columns = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(GraphError::io(directory, "read"))? {
            let entry = entry.map_err(GraphError::io(directory, "read"))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(".npy")
                && ![names::INDPTR, names::INDICES, names::FEATURES].contains(&name.as_str())
            {
                let array = open(&name)?;
                columns.push((name, array));
            }
        }
        columns.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(Self { indptr: open(names::INDPTR)?, indices: open(names::INDICES)?, columns })
    }

    /// The columns, by the place of the edge in the lists.
    pub(super) fn columns(&self) -> impl Iterator<Item = EdgeColumn<'_>> {
        self.columns.iter().map(|(name, array)| EdgeColumn::of_array(name.as_str(), array))
    }

    /// The times of the edges, if they have any.
    pub(super) fn times(&self) -> Result<Option<&[i64]>, GraphError> {
        let times = self.columns.iter().find(|(name, _)| name == names::TIMES);
        times.map(|(_, array)| array.elements(NpyType::I64)).transpose()
    }

    /// Pushes every edge in the other direction, in the order of the lists.
    pub(super) fn push_reversed(&self, lists: &mut CscBuilder) -> Result<(), GraphError> {
        let ends = self.indptr.elements::<i64>(NpyType::I64)?;
        match self.indices.kind() {
            NpyType::I32 => push(ends, self.indices.elements::<i32>(NpyType::I32)?, i64::from, lists),
            _ => push(ends, self.indices.elements::<i64>(NpyType::I64)?, |id| id, lists),
        }
    }
}

fn push<I: Copy>(
    ends: &[i64],
    ids: &[I],
    id: impl Fn(I) -> i64,
    lists: &mut CscBuilder,
) -> Result<(), GraphError> {
    for (owner, pair) in (0_u64..).zip(ends.windows(2)) {
        for &neighbour in &ids[pair[0] as usize..pair[1] as usize] {
            lists.push(owner, id(neighbour).cast_unsigned(), 0.0)?;
        }
    }
    Ok(())
}
