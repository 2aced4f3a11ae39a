//! The rate at which rows of pinned host memory reach the device, compared with the link itself in the same run.
//!
//! The method is nvbandwidth's. After a warm-up, all timed work is enqueued after a kernel that holds the stream.
//! Events surround each sample, and the median is reported. Afterwards the moved bytes are compared with those of a
//! plain loop, so wrong bytes are an error, not a figure. No two samples gather the same rows. A rate is row bytes
//! delivered ÷ time: the launches before and after the rows' kernel are part of a gather and of its time.

mod bench;
mod engine;
mod error;
mod hold;
mod ids;
mod options;
mod paths;
mod report;
mod run;
mod sweep;
mod table;
mod verify;

pub use engine::{CopyEngine, CopySize};
pub use error::PcieError;
pub use ids::{IdOrder, check_sum};
pub use options::PcieOptions;
pub use paths::{TransferPath, WayFigure};
pub use report::{CellFigure, DeviceFacts, Goal, KernelReport, PcieReport, RequestModel, SkippedCell};
pub use run::{BenchProgress, measure};
pub use sweep::{Cell, GatherPartition, MOST_CELLS, MULTIPROCESSORS, ROW_BYTES, Sweep};
pub use table::{TablePages, TableReport};
pub use verify::verify_rows;
