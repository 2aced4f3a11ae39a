//! What is measured, and the result.

use serde::{Deserialize, Serialize};
use uva_cuda::kernels::gather::Kernel;
use uva_cuda::memory::PinPages;

use crate::backend::GatherChoice;

/// What figures depend on besides the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasurementShape {
    /// Bytes of a row.
    pub row_bytes: usize,
    /// The kernel that reads rows over the link.
    pub kernel: Kernel,
    /// Threads of the CPU's gather.
    pub gather_threads: usize,
    /// Bytes of the table that are read, up to a power of two: how many addresses a GPU has to translate.
    pub up_to_bytes: u64,
}

/// Bytes of a table that are read at most: far beyond what a GPU's cache of translations covers. An H100 reads random rows
/// of 512 bytes at 51 GB/s from 1 GiB, at 20 from 4 GiB, and at 15 from 16 GiB. It pins 4 GiB in 0.12 s.
const SAMPLE_BYTES: usize = 4 << 30;

impl MeasurementShape {
    /// Of gathers from a table of whole rows, by this kernel and so many threads.
    pub fn new(table_bytes: usize, row_bytes: usize, kernel: Kernel, gather_threads: usize) -> Self {
        let up_to_bytes = Self::sample(table_bytes, row_bytes).next_power_of_two() as u64;
        Self { row_bytes, kernel, gather_threads, up_to_bytes }
    }

    /// Bytes of a table that are read: whole rows.
    pub fn sample(table_bytes: usize, row_bytes: usize) -> usize {
        let row_bytes = row_bytes.max(1);
        SAMPLE_BYTES.min(table_bytes) / row_bytes * row_bytes
    }
}

/// One way to gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// By kernels, by copies, or by both.
    pub gather: GatherChoice,
    /// The pages that kernels read.
    pub pages: PinPages,
    /// Multiprocessors that the kernel's grid fills; `None`: all.
    pub multiprocessors: Option<u32>,
}

impl Case {
    /// With all multiprocessors and the table where it is mapped.
    pub const fn by(gather: GatherChoice) -> Self {
        Self { gather, pages: PinPages::InPlace, multiprocessors: None }
    }

    /// By kernels that read these pages.
    pub const fn on(pages: PinPages) -> Self {
        Self { gather: GatherChoice::ZeroCopy, pages, multiprocessors: None }
    }

    /// By kernels on this many multiprocessors.
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
    /// Bytes of rows ÷ time, in 10⁹ a second; absent where it was not measured.
    pub gb_per_second: Option<f64>,
    /// Gathers that were timed.
    pub gathers: u32,
    /// The share of the rows that kernels read in the end, where they were split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_share: Option<f64>,
    /// Why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// What it holds for.
    #[serde(flatten)]
    pub shape: MeasurementShape,
    /// The GPU's multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the table that were read.
    pub sample_bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// By case.
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
