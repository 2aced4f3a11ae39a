//! A command of the user's as the consumer: how it is started, and how its processes attach.

pub(crate) mod attach;
pub(crate) mod door;
pub(crate) mod user_command;
