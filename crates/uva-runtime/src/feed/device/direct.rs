//! Rows of a hop set that cuFile reads from its files into the feature slots.

use std::cell::RefCell;
use std::sync::Arc;

use uva_cuda::Context;
use uva_cuda::memory::SharedBuffer;
use uva_disk::{TableShape, WatchedFiles};
use uva_graph::Hops;
use uva_rows::cuda::DirectRuns;

use crate::RuntimeError;
use crate::options::reader::{DiskReader, disk_error};

/// The files of a hop set's tables, with their reader.
pub(super) struct DirectHops<'d> {
    pub hops: Hops<'d>,
    pub runs: RefCell<DirectRuns>,
}

impl<'d> DirectHops<'d> {
    /// Opens the files of these tables, one per table, for rows in this memory.
    pub fn open(
        context: &Arc<Context>,
        hops: Hops<'d>,
        tables: &[usize],
        slots: &Arc<SharedBuffer>,
    ) -> Result<Self, RuntimeError> {
        let of_table = |table: &usize| {
            let place = hops.place(*table);
            let (path, offset) = hops.file(place.array);
            let offset = offset + place.first as u64;
            (path, TableShape { offset, rows: hops.nodes().len(), row_bytes: place.stride })
        };
        let files: Vec<_> = tables.iter().map(of_table).collect();
        let states: Vec<_> = tables.iter().map(|table| hops.state(hops.place(*table).array)).collect();
        let watched = WatchedFiles::open(&files)
            .and_then(|files| files.since(&states))
            .map_err(|error| disk_error(error, DiskReader::Cufile))?;
        let shapes = files.into_iter().map(|(_, shape)| shape).collect();
        let runs = DirectRuns::new(context, watched, shapes, Arc::clone(slots)).map_err(|why| {
            RuntimeError::missing(why.to_string()).with_option("reader", DiskReader::Cufile)
        })?;
        Ok(Self { hops, runs: RefCell::new(runs) })
    }

    /// The way in which rows reach the slots, as a line for people.
    pub fn note(&self) -> String {
        let runs = self.runs.borrow();
        let way = DirectRuns::how(runs.compatibility());
        let registered = runs.unregistered().map(|why| {
            format!("; the slots are not registered, so cuFile copies through its own buffers ({why})")
        });
        format!("rows of hops: by cuFile {way}{}", registered.unwrap_or_default())
    }
}
