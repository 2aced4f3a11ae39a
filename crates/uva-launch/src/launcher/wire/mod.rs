//! What launcher and processes say to each other: messages, their version, reports, and the socket where a command's
//! processes attach.

pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod messages;
pub(crate) mod protocol;
pub(crate) mod reports;
pub(crate) mod usage;
