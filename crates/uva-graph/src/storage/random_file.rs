//! Files of a dataset that batches read in random order, and copies of their content.

use std::io;

use uva_mem::{MappedFile, ZeroedPages};

use crate::{Csc, Indices};

/// The values of a file that is read in random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomValues {
    /// The feature rows of nodes, or of one or several hops.
    Rows,
    /// `indptr.npy`.
    Indptr,
    /// `indices.npy`.
    Indices,
}

/// A mapped file of a dataset that batches read in random order.
#[derive(Clone, Copy, Debug)]
pub struct RandomFile<'a> {
    /// Its values.
    pub values: RandomValues,
    /// The mapping.
    pub file: &'a MappedFile,
}

impl RandomFile<'_> {
    /// The name of the file in its directory.
    #[must_use]
    pub fn name(&self) -> String {
        self.file.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A copy of a graph's adjacency in anonymous memory, on 2 MiB pages if the system has them.
#[derive(Debug)]
pub(crate) struct CopiedLists {
    indptr: Option<ZeroedPages>,
    indices: Option<ZeroedPages>,
}

impl CopiedLists {
    /// # Errors
    /// The system's error if there is too little memory.
    pub(crate) fn of(csc: &Csc<'_>, indptr: bool, indices: bool) -> io::Result<Self> {
        let ids = match csc.indices {
            Indices::I32(ids) => bytemuck::cast_slice(ids),
            Indices::I64(ids) => bytemuck::cast_slice(ids),
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let copied =
            |is_copied: bool, bytes| is_copied.then(|| ZeroedPages::copy_of(bytes, threads)).transpose();
        Ok(Self { indptr: copied(indptr, bytemuck::cast_slice(csc.indptr))?, indices: copied(indices, ids)? })
    }

    /// The graph that was copied, with these lists.
    pub(crate) fn in_place_of<'a>(&'a self, csc: Csc<'a>) -> Csc<'a> {
        let indptr = self.indptr.as_ref().map_or(csc.indptr, |pages| bytemuck::cast_slice(pages.bytes()));
        let indices = match (&self.indices, csc.indices) {
            (None, indices) => indices,
            (Some(pages), Indices::I32(_)) => Indices::I32(bytemuck::cast_slice(pages.bytes())),
            (Some(pages), Indices::I64(_)) => Indices::I64(bytemuck::cast_slice(pages.bytes())),
        };
        Csc { indptr, indices, ..csc }
    }
}
