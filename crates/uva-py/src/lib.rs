//! The Python module `uvatrain._core`: what Python cannot do itself. What a person uses is the package around it, in
//! `python/uvatrain`.
//!
//! It exchanges arrays by DLPack and links neither libtorch nor numpy, so one wheel serves every Python and every
//! torch.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod array;
mod attach;
mod batch;
mod cache_tally;
mod cached;
mod checkpoint;
mod dataset;
mod dlpack;
mod doctor;
mod edges;
mod ending;
mod errors;
mod exchange;
mod fork;
mod hop_loader;
mod hops;
mod input;
mod interpreter;
mod interrupt;
mod keywords;
mod lists;
mod loader;
mod neighbors;
mod source;
mod table;
mod temporary;
mod writing;
mod zeros;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::check(module.py())
    }

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::attach::_attach;
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::cached::CachedDataset;
    #[pymodule_export]
    use crate::checkpoint::{_open_checkpoint, _read_checkpoint, _store_checkpoint};
    #[pymodule_export]
    use crate::dataset::{_read_partition, Dataset};
    #[pymodule_export]
    use crate::doctor::probe;
    #[pymodule_export]
    use crate::edges::lists_of_edges;
    #[pymodule_export]
    use crate::ending::_interpreter_ends;
    #[pymodule_export]
    use crate::hop_loader::_open_hop_loader;
    #[pymodule_export]
    use crate::hops::{HopSet, propagate};
    #[pymodule_export]
    use crate::keywords::_loader_options;
    #[pymodule_export]
    use crate::lists::{
        list_attention, list_dots, list_maxima, list_maxima_backward, list_offsets, list_sums,
        lists_with_own, transposed_lists,
    };
    #[pymodule_export]
    use crate::loader::_open_loader;
    #[pymodule_export]
    use crate::neighbors::NeighborSampler;
    #[pymodule_export]
    use crate::source::Source;
    #[pymodule_export]
    use crate::temporary::TemporaryDirectory;
    #[pymodule_export]
    use crate::writing::{_check_output, write_dataset};
    #[pymodule_export]
    use crate::zeros::{_zeros, _zeros_alive};
}
