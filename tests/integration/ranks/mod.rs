//! Ranks, roles of GPUs, and samplers that later train.

mod run_ranks;
mod run_roles;
mod run_standby;
