//! What can go wrong with a ring.

use crate::memory::region::RegionError;

/// Why a ring cannot be used, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// Waiting was pointless: the reason is [`Liveness`](super::Liveness)'s.
    #[error("ring {ring}: waiting for slot {slot} (sequence {sequence}) ended: {reason}")]
    PeerDied {
        /// The ring's name.
        ring: String,
        /// The slot waited for.
        slot: u32,
        /// The sequence waited for.
        sequence: u64,
        /// What [`Liveness`](super::Liveness) said.
        reason: String,
    },
    /// The reader asks for a slot that it holds itself, for an earlier batch.
    #[error("ring {ring}: slot {slot} is still held for sequence {sequence}, and no writer can fill it")]
    StillHeld {
        /// The ring's name.
        ring: String,
        /// The slot.
        slot: u32,
        /// The sequence it is held for.
        sequence: u64,
    },
    /// The protocol does not allow a slot's content. The ring cannot be trusted any more.
    #[error("ring {ring} is corrupt at slot {slot}, sequence {sequence}: {what}")]
    Corrupt {
        /// The ring's name.
        ring: String,
        /// The slot.
        slot: u32,
        /// The requested sequence.
        sequence: u64,
        /// The field, what it holds, and what it should hold.
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
    /// No ring can have this shape.
    #[error("ring {ring}: {slots} slots of {payload_bytes} bytes are not a ring that memory can hold")]
    Shape {
        /// The ring's name.
        ring: String,
        /// Requested slots.
        slots: u32,
        /// Requested payload bytes.
        payload_bytes: usize,
    },
    /// A region that was handed over is not a ring of the shape agreed.
    #[error("ring {ring}: the region that was handed over is not the one agreed: {what}")]
    Mismatch {
        /// The ring's name.
        ring: String,
        /// The field, what it holds, and what it should hold.
        what: String,
    },
    /// The shared memory could not be had.
    #[error("ring {ring}: no shared memory: {source}")]
    Region {
        /// The ring's name.
        ring: String,
        /// Why.
        source: RegionError,
    },
}
