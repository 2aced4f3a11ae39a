//! The measured cases, and the result.

use serde::{Deserialize, Serialize};
use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::PinPages;

use crate::backend::GatherChoice;

/// The inputs of figures other than the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementShape {
    /// Bytes of a row.
    pub row_bytes: usize,
    /// The kernel that reads rows over the link.
    pub kernel: Kernel,
    /// Threads of the CPU's gather.
    pub gather_threads: usize,
    /// Bytes of the table that are read, rounded to a power of two. They determine the number of addresses that a GPU
    /// has to translate.
    pub up_to_bytes: u64,
}

/// Maximum bytes of a table that are read, far beyond the range of a GPU's cache of address translations. An H100 reads
/// random rows of 512 bytes at 51 GB/s from 1 GiB, at 20 GB/s from 4 GiB, and at 15 GB/s from 16 GiB. It pins 4 GiB in
/// 0.12 s.
const SAMPLE_BYTES: usize = 4 << 30;

impl MeasurementShape {
    /// The shape of gathers from a table of whole rows, by this kernel and this many threads.
    pub fn new(table_bytes: usize, row_bytes: usize, kernel: Kernel, gather_threads: usize) -> Self {
        let up_to_bytes = Self::sample(table_bytes, row_bytes).next_power_of_two() as u64;
        Self { row_bytes, kernel, gather_threads, up_to_bytes }
    }

    /// Bytes of a table that are read, in whole rows.
    pub fn sample(table_bytes: usize, row_bytes: usize) -> usize {
        let row_bytes = row_bytes.max(1);
        SAMPLE_BYTES.min(table_bytes) / row_bytes * row_bytes
    }
}

/// One way to gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Gather by kernels, by copies, or by both.
    pub gather: GatherChoice,
    /// The pages that kernels read.
    pub pages: PinPages,
    /// Multiprocessors that the kernel's grid fills; `None` for all.
    pub multiprocessors: Option<u32>,
}

impl Case {
    /// The case with all multiprocessors and the table in its mapped pages.
    pub const fn by(gather: GatherChoice) -> Self {
        Self { gather, pages: PinPages::InPlace, multiprocessors: None }
    }

    /// The case of kernels that read these pages.
    pub const fn on(pages: PinPages) -> Self {
        Self { gather: GatherChoice::ZeroCopy, pages, multiprocessors: None }
    }

    /// The case of kernels on this many multiprocessors.
    pub const fn within(multiprocessors: u32) -> Self {
        Self {
            gather: GatherChoice::ZeroCopy,
            pages: PinPages::InPlace,
            multiprocessors: Some(multiprocessors),
        }
    }
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Bytes of rows ÷ time, in 10⁹ per second; absent if it was not measured.
    pub gb_per_second: Option<f64>,
    /// Number of timed gathers.
    pub gathers: u32,
    /// The final share of the rows that kernels read, if rows were split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_share: Option<f64>,
    /// The reason why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The shape for which it is valid.
    #[serde(flatten)]
    pub shape: MeasurementShape,
    /// The GPU's multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the table that were read.
    pub sample_bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// The figures by case.
    pub cases: Vec<Figure>,
}

impl Figures {
    /// The figure of this case.
    pub fn of(&self, case: &Case) -> Option<&Figure> {
        self.cases.iter().find(|figure| figure.case == *case)
    }

    /// The rate of this case, if it was measured.
    pub fn rate(&self, case: &Case) -> Option<f64> {
        self.of(case)?.gb_per_second
    }
}
