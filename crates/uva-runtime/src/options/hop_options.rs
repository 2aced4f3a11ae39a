//! Which rows of a hop set an epoch visits in which order, and where they lie.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uva_graph::Hops;
use uva_options::OptionPurpose::{Identity, Speed};
use uva_options::{Field, OptionError, named, options};

use crate::backend::GatherChoice;
use crate::options::reader::Features;

const BATCHES: &str = "Batches";

/// The least bytes of one file that a chunk spans: reads of this size keep a disk busy.
const CHUNK_BYTES: usize = 1 << 20;

/// The least chunk that is chosen. The others are this times a power of two.
const LEAST_CHUNK: usize = 125;

options! {
    /// How epochs visit the training rows of a hop set, and where the rows are.
    pub struct HopOptions {
        /// Unit of a hop set that each epoch shuffles
        shuffle: Shuffle = Shuffle::Full => Field::choice::<Shuffle>("WHAT").of(BATCHES, &[Identity]),
        /// Rows of a chunk; auto takes at least 1 MiB of a file and at most `batch_size` rows
        chunk: Chunk = Chunk::Auto
            => Field::text::<Chunk>("ROWS", "`auto`, or 1 or more").of(BATCHES, &[Identity])
                .only_with("shuffle", by_chunks).unless_given("auto"),
        /// Where the rows of a hop set are during training (docs/guide/propagation.md)
        place: HopRowsPlace = HopRowsPlace::Auto => Field::choice::<HopRowsPlace>("WHERE").of(BATCHES, &[Speed]),
    }
}

named! {
    /// Where the rows of a hop set are during a run.
    pub enum HopRowsPlace = Auto {
        /// On the GPU that trains if they fit next to a training batch, else in host memory if they fit, else on disk.
        Auto = "auto",
        /// Training rows in the memory of the GPU that trains, to which they are copied once. The other rows are where
        /// `features` specifies.
        Gpu = "gpu",
        /// In host memory: the mapped files, as with `features=memory`.
        Host = "host",
        /// On disk, from which each batch is read, as with `features=disk`.
        Disk = "disk",
    }
}

impl HopRowsPlace {
    /// How rows get to a GPU then.
    #[must_use]
    pub fn gather(self) -> GatherChoice {
        match self {
            Self::Auto => GatherChoice::Auto,
            Self::Gpu => GatherChoice::Device,
            Self::Host | Self::Disk => GatherChoice::Dma,
        }
    }

    /// Where the CPU reads rows then.
    ///
    /// # Errors
    /// If `asked` is another place.
    pub fn features(self, asked: Features) -> Result<Features, OptionError> {
        let wanted = match self {
            Self::Auto | Self::Gpu => return Ok(asked),
            Self::Host => Features::Memory,
            Self::Disk => Features::Disk,
        };
        match asked {
            Features::Auto => Ok(wanted),
            asked if asked == wanted => Ok(wanted),
            asked => {
                let reason = format!("not supported with `features={asked}`: omit one of them");
                Err(OptionError::new("place", self, reason))
            }
        }
    }
}

named! {
    /// What each epoch reorders.
    pub enum Shuffle = Full {
        /// Each row.
        Full = "full",
        /// Chunks of consecutive rows, which are read at once, so that a batch consists of few runs of rows.
        Chunks = "chunks",
    }
}

fn by_chunks() -> Vec<&'static str> {
    vec![Shuffle::Chunks.name()]
}

/// Rows of a chunk, as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// As many as make large reads.
    Auto,
    /// This number of rows.
    Rows(u32),
}

impl FromStr for Chunk {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(rows @ 1..) => Ok(Self::Rows(rows)),
            _ => Err(format!("invalid value '{text}': expected auto, or 1 or more")),
        }
    }
}

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Rows(rows) => write!(f, "{rows}"),
        }
    }
}

uva_options::text_values!(Chunk);

/// What batches of a hop set hold, and in which order an epoch visits its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopBatches {
    /// The tables that batches have, by their number in the hop set.
    pub tables: Vec<usize>,
    /// Consecutive rows that stay together when an epoch is shuffled; 1: none.
    pub chunk: usize,
}

uva_options::json_values!(HopBatches);

impl HopOptions {
    /// Checks the chunk for batches of this size.
    ///
    /// # Errors
    /// For a chunk that is larger than a batch.
    pub fn check_chunk(&self, batch_size: usize) -> Result<(), OptionError> {
        match (self.shuffle, self.chunk) {
            (Shuffle::Chunks, Chunk::Rows(rows)) if rows as usize > batch_size => {
                let reason = format!(
                    "expected at most `batch_size={batch_size}`: larger chunks leave little to shuffle"
                );
                Err(OptionError::new("chunk", rows, reason))
            }
            _ => Ok(()),
        }
    }

    /// Batches of this size with all tables of the hop set.
    ///
    /// # Errors
    /// For a chunk that is larger than a batch.
    pub fn batches(&self, hops: Hops<'_>, batch_size: usize) -> Result<HopBatches, OptionError> {
        self.check_chunk(batch_size)?;
        let chunk = match (self.shuffle, self.chunk) {
            (Shuffle::Full, _) => 1,
            (Shuffle::Chunks, Chunk::Rows(rows)) => rows as usize,
            (Shuffle::Chunks, Chunk::Auto) => chosen_chunk(hops.row_stride(), batch_size),
        };
        Ok(HopBatches { tables: (0..hops.count()).collect(), chunk })
    }
}

/// The rows of a chunk of which a file has `row_bytes` each.
fn chosen_chunk(row_bytes: usize, batch_size: usize) -> usize {
    let mut rows = LEAST_CHUNK;
    while rows < batch_size && rows.saturating_mul(row_bytes) < CHUNK_BYTES {
        rows *= 2;
    }
    rows.min(batch_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_a_whole_number_or_auto() {
        assert_eq!("auto".parse(), Ok(Chunk::Auto));
        assert_eq!("8000".parse(), Ok(Chunk::Rows(8000)));
        for text in ["0", "-1", "many", "", "1.5", "4294967296"] {
            assert!(text.parse::<Chunk>().unwrap_err().contains("expected auto, or 1 or more"), "{text}");
        }
    }

    #[test]
    fn a_place_is_where_the_cpu_reads_rows_and_another_one_contradicts_it() {
        for features in Features::ALL {
            assert_eq!(HopRowsPlace::Auto.features(features), Ok(features));
            assert_eq!(HopRowsPlace::Gpu.features(features), Ok(features));
        }
        assert_eq!(HopRowsPlace::Host.features(Features::Auto), Ok(Features::Memory));
        assert_eq!(HopRowsPlace::Disk.features(Features::Disk), Ok(Features::Disk));
        let refused = HopRowsPlace::Disk.features(Features::Memory).unwrap_err().to_string();
        assert_eq!(refused, "place=disk: not supported with features=memory: omit one of them");
        assert!(HopRowsPlace::Host.features(Features::Disk).is_err());
    }

    #[test]
    fn a_chosen_chunk_spans_a_mebibyte_and_is_no_larger_than_a_batch() {
        // Rows of 400 bytes: 4000 of them are the first 125 · 2ⁿ that span 2²⁰ bytes.
        assert_eq!(chosen_chunk(400, 8000), 4000);
        assert_eq!(chosen_chunk(400, 3000), 3000);
        assert_eq!(chosen_chunk(400, 100), 100);
        assert_eq!(chosen_chunk(1 << 20, 8000), 125);
        assert_eq!(chosen_chunk(8389, 8000), 125);
        assert_eq!(chosen_chunk(8388, 8000), 250);
        assert_eq!(chosen_chunk(4, usize::MAX), 512_000);
    }
}
