//! Communication between launcher and processes: messages, their version, reports, and the socket at which a command's
//! processes attach.

pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod messages;
pub(crate) mod protocol;
pub(crate) mod reports;
pub(crate) mod usage;
