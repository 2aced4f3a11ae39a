//! A mini-batch of a hop set as it lies in memory, and the checks it gets before libtorch sees it.

use crate::TrainError;
use crate::borrowed::Borrowed;
use crate::device::TrainDevice;
use crate::device_input::DeviceProof;
use crate::input::check_padding;
use tch::Tensor;
use uva_cuda::DeviceSlice;
use uva_graph::{ElementType, Labels};

/// The rows of a batch's nodes in the tables of a hop set that the model reads
/// ([`tables_read`](uva_model::TrainerOptions::tables_read)).
#[derive(Clone, Copy, Debug)]
pub enum HopRows<'a> {
    /// A table [seeds, dim] in C order for each of them, in their order. For losses that repeat bit for bit each starts
    /// on a 64-byte boundary.
    Tables(&'a [&'a [u8]]),
    /// [seeds, tables, dim] in C order.
    Rows {
        /// The elements.
        bytes: &'a [u8],
        /// Tables that a node has rows of.
        tables: usize,
        /// Which of them the model reads.
        read: &'a [usize],
    },
}

/// One mini-batch of a hop set, borrowed from a slot or from anywhere else.
#[derive(Clone, Copy, Debug)]
pub struct HopBatch<'a> {
    /// The rows.
    pub rows: HopRows<'a>,
    /// Type of an element. Anything but f32 is converted on the way.
    pub element: ElementType,
    /// Number of nodes, those of padding among them.
    pub seeds: usize,
    /// Columns of each table.
    pub dim: usize,
    /// How many of the nodes are padding: the last ones. They have no part in losses, counts and predictions.
    pub padding: usize,
    /// Labels of the nodes; −1 means none. A prediction does not read them.
    pub labels: Labels<'a>,
}

/// As [`HopRows`], in the memory of a CUDA device.
#[derive(Clone, Copy, Debug)]
pub enum DeviceHopRows<'a> {
    /// A table [seeds, dim] in C order for each of them, in their order.
    Tables(&'a [DeviceSlice<'a>]),
    /// [seeds, tables, dim] in C order.
    Rows {
        /// The elements.
        slice: DeviceSlice<'a>,
        /// Tables that a node has rows of.
        tables: usize,
        /// Which of them the model reads.
        read: &'a [usize],
    },
}

/// One mini-batch of a hop set on the trainer's device. Order of reads and writes is as of a
/// [`DeviceBatch`](crate::DeviceBatch), and invalid contents can do as little harm.
#[derive(Clone, Copy, Debug)]
pub struct DeviceHopBatch<'a> {
    /// The rows.
    pub rows: DeviceHopRows<'a>,
    /// Type of an element. Anything but f32 is converted on the way.
    pub element: ElementType,
    /// Number of nodes, those of padding among them.
    pub seeds: usize,
    /// Columns of each table.
    pub dim: usize,
    /// As in [`HopBatch`].
    pub padding: usize,
    /// Labels of the nodes, as in [`DeviceBatch`](crate::DeviceBatch). A prediction does not read them.
    pub labels: Option<DeviceSlice<'a>>,
    /// Read by [`crate::Trainer::enqueue_batch`]; `None` for memory that cannot be taken away.
    pub proof: Option<DeviceProof<'a>>,
}

/// What the model takes: the number of its tables, and their columns.
pub(crate) type Wanted = (usize, usize);

impl<'a> HopBatch<'a> {
    /// The tables, checked. Those of nodes' rows side by side are copies, so that the model's sums are the same in both
    /// layouts.
    pub(crate) fn tables(&self, wanted: Wanted) -> Result<Vec<Borrowed<'a>>, TrainError> {
        let Self { rows, element, seeds, dim, padding, .. } = *self;
        check_padding(padding, seeds)?;
        match rows {
            HopRows::Tables(tables) => {
                check(wanted, tables.len(), dim)?;
                tables.iter().map(|bytes| Borrowed::table(bytes, element, seeds, dim)).collect()
            }
            HopRows::Rows { bytes, tables, read } => {
                check_read(wanted, (tables, read), dim)?;
                let all = Borrowed::table(bytes, element, seeds, columns(tables, dim)?)?;
                picked(&all, read, dim)
            }
        }
    }
}

impl<'a> DeviceHopBatch<'a> {
    /// As [`HopBatch::tables`].
    pub(crate) fn tables(
        &self,
        wanted: Wanted,
        device: TrainDevice,
    ) -> Result<Vec<Borrowed<'a>>, TrainError> {
        let Self { rows, element, seeds, dim, padding, .. } = *self;
        check_padding(padding, seeds)?;
        let table =
            |slice, columns| Borrowed::device_table(slice, element, seeds, columns, "rows of hops", device);
        match rows {
            DeviceHopRows::Tables(tables) => {
                check(wanted, tables.len(), dim)?;
                tables.iter().map(|&slice| table(slice, dim)).collect()
            }
            DeviceHopRows::Rows { slice, tables, read } => {
                check_read(wanted, (tables, read), dim)?;
                picked(&table(slice, columns(tables, dim)?)?, read, dim)
            }
        }
    }
}

/// Refuses another number of tables, or of columns, than the model's.
fn check((wanted, wanted_dim): Wanted, tables: usize, dim: usize) -> Result<(), TrainError> {
    if tables != wanted {
        return Err(TrainError::Input(format!("a batch of {tables} tables of hops for a model of {wanted}")));
    }
    if dim != wanted_dim {
        return Err(TrainError::Input(format!(
            "a batch of {dim} feature columns for a model of {wanted_dim}"
        )));
    }
    Ok(())
}

fn check_read(wanted: Wanted, (tables, read): (usize, &[usize]), dim: usize) -> Result<(), TrainError> {
    check(wanted, read.len(), dim)?;
    match read.iter().find(|&&table| table >= tables) {
        Some(table) => Err(TrainError::Input(format!("table {table} of a batch of {tables} tables of hops"))),
        None => Ok(()),
    }
}

/// Columns of all tables of a node.
fn columns(tables: usize, dim: usize) -> Result<usize, TrainError> {
    let columns = tables.checked_mul(dim);
    columns.ok_or_else(|| TrainError::Input(format!("{tables} tables of {dim} columns are too many")))
}

/// Some tables of rows that stand side by side: copies, except of the only one.
fn picked<'a>(all: &Borrowed<'a>, read: &[usize], dim: usize) -> Result<Vec<Borrowed<'a>>, TrainError> {
    let copy = |&table: &usize| -> Result<Borrowed<'a>, TrainError> {
        let rows: Tensor = all.tensor().f_narrow(1, (table * dim) as i64, dim as i64)?;
        Ok(Borrowed::owned(rows.f_contiguous()?))
    };
    read.iter().map(copy).collect()
}
