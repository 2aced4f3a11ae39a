//! Ranks, roles of GPUs, and samplers that go on to train.

mod run_ranks;
mod run_roles;
mod run_standby;
