//! Memory that a GPU reads: pinned, on the device, shared between processes. Being written.
