//! Failures of the sources of rows.

use uva_disk::DiskError;
use uva_exchange::ExchangeError;
use uva_ops::lists::ListsError;
use uva_options::ByteSize;

/// Why rows were not gathered, or a gather was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// An id is no row of the table.
    #[error("id {id} at position {position} is outside the table of {rows} rows")]
    IdOutOfRange {
        /// Where in the ids it stands.
        position: usize,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    },
    /// The output's size differs from that of the requested rows.
    #[error("{ids} rows of {row_bytes} bytes need {} bytes of output, not {length}", *ids as u128 * *row_bytes as u128)]
    OutputLength {
        /// How many ids there are.
        ids: usize,
        /// Bytes of a row.
        row_bytes: usize,
        /// Bytes of the output.
        length: usize,
    },
    /// The table's bytes are not whole rows.
    #[error("a table of {length} bytes does not divide into rows of {row_bytes} bytes")]
    TableLength {
        /// Bytes of the table.
        length: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// A row to be widened is no whole number of 16-bit values.
    #[error("a row of {row_bytes} bytes is no whole number of 16-bit values that could be widened")]
    NotHalves {
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// A row to be summed is no whole number of values.
    #[error(
        "a row of {row_bytes} bytes is no whole number of values of {value_bytes} bytes that could be summed"
    )]
    NotValues {
        /// Bytes of a row.
        row_bytes: usize,
        /// Bytes of a value.
        value_bytes: usize,
    },
    /// Lists of rows to be summed do not fit the ids, the weights or the output.
    #[error("rows cannot be summed by these lists: {0}")]
    Lists(ListsError),
    /// An id stands twice among the rows to be cached.
    #[error("id {id} at position {position} of the rows to be cached stands there twice")]
    RepeatedId {
        /// Where it stands for the second time.
        position: usize,
        /// The id.
        id: i64,
    },
    /// More rows to be cached than 32-bit slots can count.
    #[error("a cache of {rows} rows: at most {} can be cached", i32::MAX)]
    TooManyCached {
        /// How many were asked for.
        rows: usize,
    },
    /// There is no memory for a cache.
    #[error("no memory for a cache of rows ({}): {reason}", ByteSize::from_bytes(u64::try_from(*bytes).unwrap_or(u64::MAX)))]
    CacheMemory {
        /// Requested bytes.
        bytes: u128,
        /// What the system said.
        reason: String,
    },
    /// A cache was made for another table.
    #[error(
        "a cache for {rows} rows of {row_bytes} bytes is none for a table of {table_rows} rows of {table_row_bytes} bytes"
    )]
    OtherTable {
        /// Rows of the table that it was made for.
        rows: usize,
        /// Bytes of each.
        row_bytes: usize,
        /// Rows of the table at hand.
        table_rows: usize,
        /// Bytes of each.
        table_row_bytes: usize,
    },
    /// The threads could not be started.
    #[error(
        "{threads} gather threads could not be started: {reason}; ask for fewer, or raise the limit on processes and \
         threads (ulimit -u, or a container's pids limit)"
    )]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// The table's file could not be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A partition of the table has another number of parts than there are ranks.
    #[error("the table is divided into {parts} parts for {ranks} ranks: it takes one part a rank")]
    Parts {
        /// Parts of the partition.
        parts: usize,
        /// Ranks of the exchange.
        ranks: usize,
    },
    /// A rank's part has another number of rows than the partition gives it.
    #[error("the part of rank {rank} has {rows} rows, but the partition of the table gives it {expected}")]
    PartRows {
        /// The rank.
        rank: usize,
        /// Rows of the part at hand.
        rows: usize,
        /// Rows that it should have.
        expected: u64,
    },
    /// Another rank asked for a row that this one does not own: the two have different partitions of the table.
    #[error(
        "rank {peer} asked rank {rank} for row {id}, whose part is {start}..{end}: the two ranks divide the table \
         differently"
    )]
    NotOwned {
        /// The rank that was asked.
        rank: usize,
        /// The rank that asked.
        peer: usize,
        /// The row.
        id: i64,
        /// The first row of the part of the rank that was asked.
        start: i64,
        /// The row behind the last one of that part.
        end: i64,
    },
    /// The ranks ask for more rows at once than memory can hold.
    #[error("rank {rank} was asked for more rows of {row_bytes} bytes at once than memory can hold")]
    AskedTooMuch {
        /// The rank that was asked.
        rank: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// Rows could not be exchanged with the other ranks.
    #[error("rows of other ranks: {0}")]
    Exchange(#[from] ExchangeError),
    /// The device failed.
    #[error("the gather on the GPU failed: {reason}")]
    Device {
        /// The driver's message, and the failed call.
        reason: String,
    },
}

impl From<ListsError> for GatherError {
    fn from(error: ListsError) -> Self {
        Self::Lists(error)
    }
}
