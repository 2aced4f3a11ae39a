//! Opens and writes files at untrusted paths.
//!
//! Paths come from users, and directories may belong to others. A name can refer to a FIFO, whose opening blocks, to a
//! device, which has no end, or through a link to a file of the caller. So the program reads everything with
//! [`open_regular`] or [`read_regular`], and replaces every file with [`Replacement`]. Only user-specified outputs,
//! which may be pipes or terminals, use [`open_output`].
//!
//! `clippy.toml` forbids the direct functions of `std` outside of this module.
//!
//! | file | what it is for |
//! |---|---|
//! | `read` | regular files, directories and locks, opened without blocking |
//! | `own_directory` | a directory that this program fills and removes, without following links |
//! | `output` | user-specified outputs: a file, a pipe, a terminal |
//! | `replacement` | atomic replacement of a file, and the names of unfinished files |
//! | `unfinished_file` | a resumable file under a temporary name, written by one process at a time |
//! | `random_words` | the random words in these names |
#![allow(clippy::disallowed_methods, reason = "the one place where files are opened by name")]

mod output;
mod own_directory;
mod random_words;
mod read;
mod replacement;
mod unfinished_file;

pub use output::{ExistingContent, open_output, write_output};
pub use own_directory::{EntryKind, Mark, OwnDirectory, refuse_foreign_file};
pub use random_words::{is_word, random_word};
pub use read::{
    is_about_the_name, lies_in_memory, open_directory, open_lock_file, open_own, open_regular, read_kernel,
    read_kernel_text, read_regular, read_regular_text, without_byte_order_mark,
};
pub use replacement::{Replacement, SCRATCH, nameless, replace, target_of_partial, write_new};
pub use unfinished_file::UnfinishedFile;

#[cfg(test)]
mod testing {
    use std::ffi::OsString;
    use std::fs;
    use std::path::Path;

    /// The names in a directory, sorted.
    pub(super) fn entries(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }
}
