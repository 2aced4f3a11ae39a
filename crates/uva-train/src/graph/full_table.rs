//! Tables of all nodes for a pass over a whole graph: written front to back, then read at random.

use crate::TrainError;
use crate::torch::borrowed::Borrowed;
use crate::torch::host;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};
use uva_mem::MappedFile;
use uva_mem::files::nameless;

/// The storage of the tables of a pass.
#[derive(Clone, Copy, Debug)]
pub enum Tables<'p> {
    /// In memory.
    Memory,
    /// In files without a name in this directory, which are removed with the pass, however the process ends. Mapped,
    /// they are page cache, which the kernel can reclaim, and not this process's private memory.
    Files(&'p Path),
}

/// A table that is being written.
pub(crate) struct TableWriter {
    nodes: usize,
    columns: i64,
    kind: Kind,
    rows: Rows,
}

enum Rows {
    Memory(Tensor),
    File { file: File, directory: PathBuf },
}

/// A complete table, [nodes, columns].
pub(crate) struct Table {
    nodes: usize,
    columns: i64,
    kind: Kind,
    rows: Complete,
}

enum Complete {
    Memory(Tensor),
    Mapped(MappedFile),
}

impl Tables<'_> {
    /// A table of this many nodes and columns.
    pub(crate) fn table(self, nodes: usize, columns: i64, kind: Kind) -> Result<TableWriter, TrainError> {
        let rows = match self {
            Self::Memory => Rows::Memory(Tensor::f_empty([nodes as i64, columns], (kind, Device::Cpu))?),
            Self::Files(directory) => {
                let file = nameless(directory).map_err(TrainError::table(directory))?;
                Rows::File { file, directory: directory.to_owned() }
            }
        };
        Ok(TableWriter { nodes, columns, kind, rows })
    }
}

impl TableWriter {
    /// Writes the rows of a chunk of nodes. Chunks arrive in order and without gaps.
    pub(crate) fn put(&mut self, chunk: &Range<usize>, rows: &Tensor) -> Result<(), TrainError> {
        match &mut self.rows {
            Rows::Memory(table) => {
                Ok(table.f_narrow(0, chunk.start as i64, chunk.len() as i64)?.f_copy_(rows)?)
            }
            Rows::File { file, directory } => {
                let rows = rows.f_contiguous()?;
                let bytes: &[u8] = match self.kind {
                    Kind::Double => bytemuck::cast_slice(host::values::<f64>(&rows)?),
                    _ => bytemuck::cast_slice(host::values::<f32>(&rows)?),
                };
                file.write_all(bytes).map_err(TrainError::table(directory))
            }
        }
    }

    /// Replaces all rows by those of `f`. Only a table in memory supports that.
    pub(crate) fn replace(
        &mut self,
        f: impl FnOnce(&Tensor) -> Result<Tensor, TrainError>,
    ) -> Result<(), TrainError> {
        if let Rows::Memory(table) = &mut self.rows {
            *table = f(table)?;
        }
        Ok(())
    }

    /// The table, all of whose rows have been written.
    pub(crate) fn complete(self) -> Result<Table, TrainError> {
        let Self { nodes, columns, kind, rows } = self;
        let rows = match rows {
            Rows::Memory(table) => Complete::Memory(table),
            Rows::File { file, directory } => {
                Complete::Mapped(MappedFile::of(&file, &directory).map_err(TrainError::table(&directory))?)
            }
        };
        Ok(Table { nodes, columns, kind, rows })
    }
}

impl Table {
    /// Columns of a row.
    pub(crate) fn columns(&self) -> usize {
        self.columns as usize
    }

    /// The whole table. Nothing may be written to it.
    pub(crate) fn tensor(&self) -> Result<Borrowed<'_>, TrainError> {
        match &self.rows {
            Complete::Memory(table) => Ok(Borrowed::owned(table.shallow_clone())),
            Complete::Mapped(map) => Borrowed::matrix(map.bytes(), self.kind, self.nodes, self.columns),
        }
    }
}
