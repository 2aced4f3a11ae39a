//! Parts of the multiprocessors. Being written.
