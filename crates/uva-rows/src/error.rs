//! Errors of row sources.

use uva_disk::DiskError;
use uva_exchange::ExchangeError;
use uva_ops::lists::ListsError;
use uva_options::ByteSize;

/// Why rows could not be gathered, or a source could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// An id is not a row of the table.
    #[error("id {id} at position {position} is outside the table of {rows} rows")]
    IdOutOfRange {
        /// The position among the ids.
        position: usize,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    },
    /// The output's size differs from that of the requested rows.
    #[error("{ids} rows of {row_bytes} bytes need {} bytes of output, not {length}", *ids as u128 * *row_bytes as u128)]
    OutputLength {
        /// The number of ids.
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
    /// A row to be widened is not a whole number of 16-bit values.
    #[error("a row of {row_bytes} bytes is not a whole number of 16-bit values, which widening requires")]
    NotHalves {
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// A row to be summed is not a whole number of values.
    #[error(
        "a row of {row_bytes} bytes is not a whole number of values of {value_bytes} bytes, which sums require"
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
    /// An id occurs twice among the rows to be cached.
    #[error("id {id} at position {position} of the rows to be cached is a repetition")]
    RepeatedId {
        /// The position of its second occurrence.
        position: usize,
        /// The id.
        id: i64,
    },
    /// More rows to be cached than 32-bit slots can count.
    #[error("a cache of {rows} rows: at most {} can be cached", i32::MAX)]
    TooManyCached {
        /// The requested number of rows.
        rows: usize,
    },
    /// There is too little memory for a cache.
    #[error("no memory for a cache of rows ({}): {reason}", ByteSize::from_bytes(u64::try_from(*bytes).unwrap_or(u64::MAX)))]
    CacheMemory {
        /// Requested bytes.
        bytes: u128,
        /// The system's error.
        reason: String,
    },
    /// There is too little memory for a copy of a table.
    #[error("no memory for a copy of the table ({}): {reason}", ByteSize::from_bytes(u64::try_from(*bytes).unwrap_or(u64::MAX)))]
    CopyMemory {
        /// Bytes of the table.
        bytes: usize,
        /// The system's error.
        reason: String,
    },
    /// A cache was made for another table.
    #[error(
        "a cache for {rows} rows of {row_bytes} bytes does not fit a table of {table_rows} rows of {table_row_bytes} bytes"
    )]
    OtherTable {
        /// Rows of the table that it was made for.
        rows: usize,
        /// Bytes per row.
        row_bytes: usize,
        /// Rows of the actual table.
        table_rows: usize,
        /// Bytes per row.
        table_row_bytes: usize,
    },
    /// The threads could not be started.
    #[error(
        "{threads} gather threads could not be started: {reason}; lower their number, or raise the limit on processes and \
         threads (ulimit -u, or a container's pids limit)"
    )]
    Threads {
        /// The requested number of threads.
        threads: usize,
        /// The system's error.
        reason: String,
    },
    /// The table's file could not be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A partition of the table has another number of parts than there are ranks.
    #[error("the table is divided into {parts} parts for {ranks} ranks: expected one part per rank")]
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
        /// Rows of the actual part.
        rows: usize,
        /// The expected number of rows.
        expected: u64,
    },
    /// Another rank requested a row that this one does not own: the ranks have different partitions of the table.
    #[error(
        "rank {peer} requested row {id} from rank {rank}, whose part is {start}..{end}: the two ranks divide the table \
         differently"
    )]
    NotOwned {
        /// The rank that received the request.
        rank: usize,
        /// The requesting rank.
        peer: usize,
        /// The row.
        id: i64,
        /// The first row of this rank's part.
        start: i64,
        /// The end of this rank's part.
        end: i64,
    },
    /// The ranks requested more rows at once than fit in memory.
    #[error("rank {rank} received a request for more rows of {row_bytes} bytes than memory can hold")]
    AskedTooMuch {
        /// The rank that received the requests.
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
