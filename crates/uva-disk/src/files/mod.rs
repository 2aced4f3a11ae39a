//! Open files, checked against changes made by others, and progress and retries of reads.

pub(crate) mod guard;
pub(crate) mod open_file;
pub(crate) mod progress;
pub(crate) mod seam;
pub(crate) mod watch;
