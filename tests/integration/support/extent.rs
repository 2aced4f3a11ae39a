//! The extent of tests that repeat the same check in many ways.

use std::env;

/// Whether the full extent is requested, by `UVATRAIN_TESTS=all`, as in scripts/measure/long_tests.sh.
pub fn all_tests() -> bool {
    env::var_os("UVATRAIN_TESTS").is_some_and(|which| which == "all")
}

/// All of these ways if the full extent is requested, otherwise every third one, beginning with the first.
pub fn some_of<T: Copy>(ways: &[T]) -> impl Iterator<Item = T> {
    ways.iter().copied().step_by(if all_tests() { 1 } else { 3 })
}
