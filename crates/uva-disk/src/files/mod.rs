//! Open files, checked against changes made by others, and reads of them that are followed and retried.

pub(crate) mod guard;
pub(crate) mod open_file;
pub(crate) mod progress;
pub(crate) mod seam;
pub(crate) mod watch;
