//! The checks that every [`Exchange`](crate::Exchange) passes.
//!
//! A test calls [`run`] with a function that creates a group of threads. If ranks are processes, each calls [`rounds`]
//! separately: all amounts and bytes follow from a seed, so the ranks need no other coordination. Each check panics
//! with the failed case.

mod failures;
mod rounds;
mod threads;

pub use failures::{cancelling, disagreement, leaving, refused_arguments, silence};
pub use rounds::rounds;
pub use threads::{Make, in_threads};

/// The numbers of ranks of the groups of [`run`].
pub const RANKS: [usize; 4] = [1, 2, 3, 4];

/// Runs all checks.
///
/// # Panics
/// If the implementation breaks the contract of [`Exchange`](crate::Exchange).
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
