//! A user's command as the consumer: its start, and the attachment of its processes.

pub(crate) mod attach;
pub(crate) mod door;
pub(crate) mod user_command;
