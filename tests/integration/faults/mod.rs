//! Processes that die, machines that lack something, files that change.

#[cfg(feature = "train")]
mod machine_faults;
mod planted;
#[cfg(feature = "train")]
mod processes;
#[cfg(feature = "train")]
mod random_faults;
mod removed;
mod run_faults;
