//! The real binary, driven as its users drive it. One program, one module a subject: each would be linked anew otherwise.
//!
//! Tests of all modules run side by side. A test therefore keeps to a directory of its own, cache included, and judges
//! nothing of the machine that another test may change meanwhile.

mod support;

#[cfg(feature = "train")]
mod aggregate;
mod aggregate_auto;
#[cfg(feature = "train")]
#[cfg(feature = "train")]
mod aggregate_cached;
mod aggregate_gpu;
#[cfg(feature = "train")]
mod bench_aggregate;
mod bench_loader;
mod bench_roles;
mod caches;
#[cfg(feature = "train")]
mod checkpoint_fields;
#[cfg(feature = "train")]
mod class_balance;
mod cli;
mod cores;
#[cfg(feature = "train")]
mod cuda;
mod datasets;
mod descriptions;
mod disk;
mod disk_gpu;
mod docs;
#[cfg(feature = "train")]
mod dry_run;
#[cfg(feature = "train")]
mod faults;
#[cfg(feature = "train")]
mod first_layer;
mod gpu_slots;
#[cfg(feature = "train")]
mod gpu_suite;
#[cfg(feature = "train")]
mod hop_predictions;
#[cfg(feature = "train")]
mod hops;
#[cfg(feature = "train")]
mod hops_cufile;
#[cfg(feature = "train")]
mod hops_gpu;
#[cfg(feature = "train")]
mod input_nodes;
#[cfg(feature = "train")]
mod logs;
#[cfg(feature = "train")]
mod machine_faults;
mod manners;
mod measured;
#[cfg(feature = "train")]
mod memory;
#[cfg(feature = "train")]
mod models;
mod mps;
#[cfg(feature = "train")]
mod orders;
#[cfg(feature = "train")]
mod outputs;
#[cfg(feature = "train")]
mod pad;
mod partition;
mod parts;
mod pcie;
mod peers;
mod planted;
#[cfg(feature = "train")]
mod predict;
#[cfg(feature = "train")]
mod predict_ends;
#[cfg(all(feature = "train", feature = "parquet"))]
mod predict_tables;
mod propagate;
#[cfg(feature = "train")]
mod random_faults;
mod removed;
#[cfg(feature = "train")]
mod report;
#[cfg(feature = "request-model")]
mod requests;
mod run;
mod run_faults;
mod run_gpu;
mod run_ranks;
mod run_roles;
mod run_standby;
#[cfg(feature = "train")]
mod targets;
#[cfg(feature = "train")]
mod terminal;
#[cfg(feature = "train")]
mod told;
#[cfg(feature = "train")]
mod top;
#[cfg(feature = "train")]
mod train;
#[cfg(feature = "train")]
mod unlabelled;
#[cfg(feature = "train")]
mod whole;
