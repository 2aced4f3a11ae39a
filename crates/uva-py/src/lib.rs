//! The Python module `uvatrain._core`, the native part of the package. Users use the package around it, in
//! `python/uvatrain`.
//!
//! It exchanges arrays by DLPack and links neither libtorch nor numpy, so one wheel serves every Python and every
//! torch.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod arrays;
mod checkpoint;
mod data;
mod doctor;
mod errors;
mod lists;
mod loader;
mod options;
mod process;
mod sampling;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::process::interpreter::check(module.py())
    }

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::arrays::array::Array;
    #[pymodule_export]
    use crate::arrays::zeros::{_zeros, _zeros_alive};
    #[pymodule_export]
    use crate::checkpoint::{_open_checkpoint, _read_checkpoint, _store_checkpoint};
    #[pymodule_export]
    use crate::data::dataset::{_read_partition, PyDataset};
    #[pymodule_export]
    use crate::data::hop_set::{PyHopSet, propagate};
    #[pymodule_export]
    use crate::data::typed_dataset::PyTypedDataset;
    #[pymodule_export]
    use crate::data::typed_writing::write_typed_dataset;
    #[pymodule_export]
    use crate::data::writing::{_check_output, write_dataset};
    #[pymodule_export]
    use crate::doctor::probe;
    #[pymodule_export]
    use crate::lists::edges::lists_of_edges;
    #[pymodule_export]
    use crate::lists::loops::{
        list_attention, list_dots, list_maxima, list_maxima_backward, list_offsets, list_sums,
        lists_with_own, transposed_lists,
    };
    #[pymodule_export]
    use crate::lists::trained::{table_rows, write_initial_rows, zero_table};
    #[pymodule_export]
    use crate::loader::attach::_attach;
    #[pymodule_export]
    use crate::loader::batch::PyBatch;
    #[pymodule_export]
    use crate::loader::hops::_open_hop_loader;
    #[pymodule_export]
    use crate::loader::open::_open_loader;
    #[pymodule_export]
    use crate::loader::source::Source;
    #[pymodule_export]
    use crate::options::described::_loader_options;
    #[pymodule_export]
    use crate::options::trainer::{_read_trainer_option, _trainer_options, TrainerArguments};
    #[pymodule_export]
    use crate::process::ending::_interpreter_ends;
    #[pymodule_export]
    use crate::process::temporary::PyTemporaryDirectory;
    #[pymodule_export]
    use crate::sampling::cached::PyCachedDataset;
    #[pymodule_export]
    use crate::sampling::neighbors::PyNeighborSampler;
}
