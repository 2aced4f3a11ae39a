//! Limits of the options: the bits of the random key, and memory sized by options.

use crate::philox;

/// Maximum number of hops of a batch: the random key has five bits for the hop.
pub const MAX_LAYERS: usize = 32;

/// The largest epoch number: the random key has thirty bits for it.
pub const MAX_EPOCH: u32 = (1 << 30) - 1;

/// Maximum number of neighbours drawn from a list; a larger fanout is valid if it takes every list whole.
///
/// A stream of random words ends after [`STREAM_WORDS`](crate::philox::STREAM_WORDS), and a draw may take more than
/// one. A quarter of them is always enough in practice, since a draw is rejected with probability below one half.
pub(crate) const MAX_PICKS: usize = 1 << 16;

// The most picks must leave spare words in the stream for rejected draws.
const _: () = assert!(MAX_PICKS * 4 <= philox::STREAM_WORDS);

/// The largest fanout. For kinds that draw together it is the number of draws of a layer, which sizes a sampler's
/// memory. For others a larger one would take every list whole, as -1 does.
pub const MAX_FANOUT: i32 = 1 << 24;

/// Bytes per node of the graph for the local ids of a batch.
pub(crate) const LOCAL_ID_BYTES: usize = size_of::<u32>();
