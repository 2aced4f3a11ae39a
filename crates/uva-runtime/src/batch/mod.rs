//! How a batch lies in a slot, and the view of it that a consumer gets.
//!
//! ```text
//! batch slot    header │ nodes i64 │ labels of the seeds │ degrees i32, if asked for │ indptr, indices i32 of layer 0 │ …
//! feature slot  the same, at the same offsets, and behind it │ feature rows, row i for nodes[i]
//! ```
//!
//! With a feature slot on a GPU the header is in the ring, in host memory, and everything else on the device at the
//! same offsets; behind the rows lies what the gather reports of itself ([`uva_cuda::kernels::gather::GatherReport`]).
//!
//! Every array starts on a cache line. Capacities come from the batch's bounds, offsets from the capacities, so both
//! sides of a ring know them without asking; how much of each array a batch uses is in its header.

mod header;
mod layout;
mod view;

pub(crate) use header::{BatchHeader, Kind};
pub use layout::BatchLayout;
pub use view::{Batch, BatchArray, DeviceView, RawArray, RawElement};
pub(crate) use view::{Used, UsedBatch};
