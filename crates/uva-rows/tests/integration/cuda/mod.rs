//! The gather on a GPU the simulator: the conformance checks, and slots against a plain loop. With
//! `UVATRAIN_REQUIRE_GPU=1`, on the machine's own GPU: all but what wants faults.

mod cache;
mod conformance;
mod continued;
mod counts;
mod direct;
mod faults;
mod machine;
mod slots;
mod sums;
