//! The command line, its other commands, and what they print.

mod bench_loader;
mod bench_roles;
mod cli;
#[cfg(feature = "train")]
mod dry_run;
#[cfg(feature = "train")]
mod logs;
mod manners;
#[cfg(feature = "train")]
mod messages;
mod pcie;
#[cfg(feature = "train")]
mod report;
#[cfg(feature = "request-model")]
mod requests;
mod run;
#[cfg(feature = "train")]
mod terminal;
#[cfg(feature = "train")]
mod top;
