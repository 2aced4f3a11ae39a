//! The savings of the producer's sums, for the metrics of a batch and of a run.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column};

/// The place where a producer sums, and the slots that it sums for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumsMade {
    /// CPU threads, for slots in host memory.
    Host,
    /// CPU threads, for slots on a GPU.
    HostForGpu,
    /// CPU threads, with the rows that a cache on the GPU does not have; a kernel continues the sums with the other
    /// rows.
    HostAndCache,
    /// A kernel.
    Gpu,
}

impl SumsMade {
    /// The name in the metrics.
    #[must_use]
    pub fn way(self) -> &'static str {
        match self {
            Self::Host | Self::HostForGpu => "host",
            Self::HostAndCache => "host+cache",
            Self::Gpu => "device",
        }
    }
}

/// The sums of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateCounts {
    /// The place of the sums: `host`, the producer's CPU threads; `device`, a kernel of the producer; `host+cache`,
    /// both, if a cache on the GPU has some of the rows; `off`, the consumer, in a run that tries both.
    pub way: String,
    /// Their number and size.
    #[serde(flatten)]
    pub amounts: AggregateAmounts,
}

/// The sums of a run's training batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateTotals {
    /// The place of the sums, as for a batch; `auto` if the run tried both.
    pub way: String,
    /// Number of batches by place of the sums.
    pub batches: BTreeMap<String, u64>,
    /// Their number and size.
    #[serde(flatten)]
    pub amounts: AggregateAmounts,
}

/// Rows and bytes of the producer's sums. Counts exclude padding, bytes include it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateAmounts {
    /// Feature rows in the slot: the destinations' own.
    pub own_rows: u64,
    /// Sums in the slot.
    pub sum_rows: u64,
    /// Rows that were added up, each as often as a list contains it.
    pub entries: u64,
    /// Rows that were read: the added rows, and the destinations' own.
    pub rows_read: u64,
    /// Bytes of rows and sums in the slot, and of the places of maxima.
    pub slot_bytes: u64,
    /// Bytes that the rows of all nodes would use in the slot.
    pub raw_slot_bytes: u64,
    /// Bytes of rows and sums that crossed the link to a GPU; 0 if slots are in host memory.
    pub link_bytes: u64,
    /// Bytes of rows that would cross it if the consumer summed.
    pub raw_link_bytes: u64,
}

impl AggregateCounts {
    /// The amounts of the batch of this header; `None` in a run whose producer does not sum. `rows_over_link` is the
    /// number of rows that a gather into device memory read over the link.
    pub fn of(
        layout: &BatchLayout,
        header: &BatchHeader,
        made: Option<SumsMade>,
        rows_over_link: u64,
    ) -> Option<Self> {
        let made = made?;
        let raw_slot_bytes = (header.nodes() * layout.row_bytes()) as u64;
        let aggregation = layout.aggregation_of(header);
        if aggregation == Aggregation::None {
            let amounts = AggregateAmounts {
                rows_read: header.real_nodes() as u64,
                slot_bytes: raw_slot_bytes,
                raw_slot_bytes,
                ..AggregateAmounts::default()
            };
            return Some(Self { way: OFF.to_owned(), amounts });
        }
        let last = layout.layers() - 1;
        let (outermost, in_slot) = (header.real_layer(last), header.outermost());
        let (sum_rows, entries) = (outermost.destinations, outermost.edges);
        let own = |rows| if aggregation.keeps_own_rows() { rows } else { 0 };
        let argmax = layout.range(header, Column::Argmax).len();
        let slot_bytes = own(in_slot.destinations) * layout.row_bytes()
            + in_slot.destinations * layout.dim() * size_of::<f32>()
            + argmax;
        // Slots in host memory use no link. The gather before sums on a GPU moves the same bytes as without sums.
        let of_rows = |rows: u64| rows * layout.table_row_bytes() as u64;
        let (link_bytes, raw_link_bytes) = match made {
            SumsMade::Host => (0, 0),
            SumsMade::HostForGpu => (slot_bytes as u64, of_rows(header.nodes() as u64)),
            SumsMade::HostAndCache => {
                let missed = (header.nodes() as u64).saturating_sub(header.rows_cached());
                (header.link_bytes(), of_rows(missed))
            }
            SumsMade::Gpu => (of_rows(rows_over_link), of_rows(rows_over_link)),
        };
        Some(Self {
            way: made.way().to_owned(),
            amounts: AggregateAmounts {
                own_rows: own(sum_rows) as u64,
                sum_rows: sum_rows as u64,
                entries: entries as u64,
                // GCN's sums read the destination's own row, too.
                rows_read: (entries + sum_rows) as u64,
                slot_bytes: slot_bytes as u64,
                raw_slot_bytes,
                link_bytes,
                raw_link_bytes,
            },
        })
    }

    /// Excludes these rows, which a cache had, from the rows that a gather on a GPU read over the link.
    pub fn set_row_hits(&mut self, hits: u64, rows: u64) {
        if self.way == SumsMade::Gpu.way() {
            let row_bytes = self.amounts.raw_slot_bytes / rows.max(1);
            let link_bytes = rows.saturating_sub(hits) * row_bytes;
            (self.amounts.link_bytes, self.amounts.raw_link_bytes) = (link_bytes, link_bytes);
        }
    }

    /// Whether the producer made the sums.
    #[must_use]
    pub fn is_summed(&self) -> bool {
        self.way != OFF
    }
}

impl AggregateTotals {
    /// The totals of `batches` training batches in slots of this layout, `summed` of them with sums of the producer;
    /// `None` in a run whose producer does not sum.
    pub fn new(
        layout: &BatchLayout,
        made: Option<SumsMade>,
        batches: u64,
        summed: u64,
        amounts: AggregateAmounts,
    ) -> Option<Self> {
        let made = made?;
        let mut by_way = BTreeMap::from([(made.way().to_owned(), summed)]);
        let mut way = made.way();
        if layout.chooses_sums() {
            way = "auto";
            by_way.insert(OFF.to_owned(), batches.saturating_sub(summed));
        }
        Some(Self { way: way.to_owned(), batches: by_way, amounts })
    }
}

/// The place of the sums of a batch if the producer does not sum.
const OFF: &str = "off";

impl AggregateAmounts {
    /// Number of fields.
    pub const WORDS: usize = 8;

    /// The numbers, in the order of the fields.
    #[must_use]
    pub fn to_words(self) -> [u64; Self::WORDS] {
        let Self { own_rows, sum_rows, entries, rows_read, .. } = self;
        let Self { slot_bytes, raw_slot_bytes, link_bytes, raw_link_bytes, .. } = self;
        [own_rows, sum_rows, entries, rows_read, slot_bytes, raw_slot_bytes, link_bytes, raw_link_bytes]
    }

    /// The amounts with these values.
    #[must_use]
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [own_rows, sum_rows, entries, rows_read, bytes @ ..] = words;
        let [slot_bytes, raw_slot_bytes, link_bytes, raw_link_bytes] = bytes;
        Self {
            own_rows,
            sum_rows,
            entries,
            rows_read,
            slot_bytes,
            raw_slot_bytes,
            link_bytes,
            raw_link_bytes,
        }
    }
}

impl AddAssign for AggregateAmounts {
    fn add_assign(&mut self, other: Self) {
        let mut sums = self.to_words();
        // A metrics file can contain any numbers.
        sums.iter_mut().zip(other.to_words()).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        *self = Self::from_words(sums);
    }
}
