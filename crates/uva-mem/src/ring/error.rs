//! Errors of a ring.

use crate::memory::region::RegionError;

/// Why a ring cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The peer has ended, for the reason given by [`Liveness`](super::Liveness).
    #[error("ring {ring}: waiting for slot {slot} (sequence {sequence}) ended: {reason}")]
    PeerDied {
        /// The ring's name.
        ring: String,
        /// The awaited slot.
        slot: u32,
        /// The awaited sequence.
        sequence: u64,
        /// The reason given by [`Liveness`](super::Liveness).
        reason: String,
    },
    /// The reader requested a slot that it still holds for an earlier batch.
    #[error("ring {ring}: slot {slot} is still held for sequence {sequence}, and no writer can fill it")]
    StillHeld {
        /// The ring's name.
        ring: String,
        /// The slot.
        slot: u32,
        /// The sequence it is held for.
        sequence: u64,
    },
    /// The protocol does not allow a slot's content. The ring can no longer be trusted.
    #[error("ring {ring} is corrupt at slot {slot}, sequence {sequence}: {what}")]
    Corrupt {
        /// The ring's name.
        ring: String,
        /// The slot.
        slot: u32,
        /// The requested sequence.
        sequence: u64,
        /// The field, its value, and the expected value.
        what: String,
    },
    /// A batch does not fit its slot.
    #[error("ring {ring}: a batch of {length} bytes does not fit a slot of {capacity} bytes")]
    TooLong {
        /// The ring's name.
        ring: String,
        /// The batch's bytes.
        length: u64,
        /// A slot's bytes.
        capacity: u64,
    },
    /// The shape is invalid.
    #[error("ring {ring}: {slots} slots of {payload_bytes} bytes are not a ring that memory can hold")]
    Shape {
        /// The ring's name.
        ring: String,
        /// Requested slots.
        slots: u32,
        /// Requested payload bytes.
        payload_bytes: usize,
    },
    /// A received region is not a ring of the agreed shape.
    #[error("ring {ring}: the region that was handed over is not the one agreed: {what}")]
    Mismatch {
        /// The ring's name.
        ring: String,
        /// The field, its value, and the expected value.
        what: String,
    },
    /// The shared memory could not be allocated.
    #[error("ring {ring}: no shared memory: {source}")]
    Region {
        /// The ring's name.
        ring: String,
        /// The cause.
        source: RegionError,
    },
}
