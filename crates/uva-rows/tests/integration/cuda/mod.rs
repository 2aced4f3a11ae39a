//! The gather on a GPU of the simulator: the conformance checks, and slots compared with a plain loop. With
//! `UVATRAIN_REQUIRE_GPU=1`, on the machine's own GPU, except tests that require faults.

mod cache;
mod conformance;
mod continued;
mod counts;
mod direct;
mod faults;
mod machine;
mod slots;
mod sums;
mod tables;
