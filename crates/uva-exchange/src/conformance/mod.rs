//! The checks that every [`Exchange`](crate::Exchange) passes.
//!
//! A test calls [`run`] with a function that makes a group whose ranks are threads. Where ranks are processes, each calls
//! [`rounds`] by itself: all amounts and bytes follow from a seed, so the ranks need no other way to agree. Each check
//! panics with the failed case.

mod failures;
mod rounds;
mod threads;

pub use failures::{cancelling, disagreement, leaving, refused_arguments, silence};
pub use rounds::rounds;
pub use threads::{Make, in_threads};

/// The numbers of ranks that [`run`] makes groups of.
pub const RANKS: [usize; 4] = [1, 2, 3, 4];

/// All checks.
///
/// # Panics
/// When the implementation breaks the contract of [`Exchange`](crate::Exchange).
pub fn run(make: &Make<'_>) {
    for ranks in RANKS {
        in_threads(make(ranks), |_, mut exchange| rounds(&mut *exchange, ranks as u64, 40));
        refused_arguments(make, ranks);
        cancelling(make, ranks);
    }
    for ranks in [2, 3, 4] {
        leaving(make, ranks);
        disagreement(make, ranks);
        silence(make, ranks);
    }
}
