//! How much is run of tests that do the same in many ways.

use std::env;

/// Whether all is asked for, by `UVATRAIN_TESTS=all`, as scripts/measure/long_tests.sh does.
pub fn all_tests() -> bool {
    env::var_os("UVATRAIN_TESTS").is_some_and(|which| which == "all")
}

/// All of these ways if all is asked for, else every other one, the first among them.
pub fn some_of<T: Copy>(ways: &[T]) -> impl Iterator<Item = T> {
    ways.iter().copied().step_by(if all_tests() { 1 } else { 2 })
}
