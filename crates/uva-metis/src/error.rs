//! What goes wrong.

/// Why METIS divides nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetisError {
    /// It could not be opened.
    #[error("{0}")]
    Missing(String),
    /// The graph has more entries than its numbers count.
    #[error(
        "{entries} entries of lists in both directions are more than METIS counts with numbers of {bits} bits"
    )]
    TooLarge {
        /// Entries.
        entries: usize,
        /// Bits of a number of this METIS.
        bits: u32,
    },
    /// What the library returned in place of success.
    #[error("METIS_PartGraphKway returned {code}: {meaning}")]
    Refused {
        /// Its code.
        code: i32,
        /// What METIS's manual says of it.
        meaning: &'static str,
    },
}
