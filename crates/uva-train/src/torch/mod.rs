//! libtorch's tensors over borrowed memory, and their devices.

pub(crate) mod borrowed;
pub(crate) mod device;
pub(crate) mod dispatcher;
pub(crate) mod host;
pub(crate) mod threads;
