//! The kernels on the host. Being written.
