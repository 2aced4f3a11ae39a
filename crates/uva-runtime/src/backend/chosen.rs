//! Choices that options leave to a measurement on the GPU.

use uva_cuda::memory::PinPages;

use super::asked::{BackendOptions, GatherChoice, GpuShare};

/// The producer's default share of the multiprocessors in per cent: enough for the link, in the range of Min et al.
/// (8.2 to 19.5 % of an RTX 3090). It applies if nothing was measured.
const PRODUCER_SHARE: u32 = 10;

/// The transfer of rows to the GPU: the choices that options leave to a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferChoice {
    /// How rows are gathered. Never [`GatherChoice::Auto`].
    pub gather: GatherChoice,
    /// The producer's share of the multiprocessors in per cent.
    pub producer_percentage: u32,
    /// The pages of the feature table.
    pub table_pages: PinPages,
    /// The initial share of the rows that kernels read, if the rows are split.
    pub split_share: Option<f64>,
}

impl TransferChoice {
    /// The choices of the options, with defaults for open ones.
    pub fn unmeasured(options: &BackendOptions) -> Self {
        Self {
            gather: match options.gather {
                GatherChoice::Auto => GatherChoice::ZeroCopy,
                gather => gather,
            },
            producer_percentage: match options.mps_percentage {
                GpuShare::Auto => PRODUCER_SHARE,
                GpuShare::Percent(share) => share,
            },
            table_pages: options.table_pages.named().unwrap_or_default(),
            split_share: None,
        }
    }
}
