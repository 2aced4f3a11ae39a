//! Moving files to 2 MiB pages.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use uva_graph::Dataset;
use uva_mem::{MappedFile, huge_share};

use crate::plan::page_choice::{FilePages, PageChoice, PageMethod};

/// Bytes of a file that a thread moves at a time.
const PIECE_BYTES: usize = 64 << 20;

/// Threads that move a file. They wait for the disk.
const THREADS: usize = 4;

impl PageChoice {
    /// Applies the method of each file, except of those that roles copy and of those that are placed.
    pub(crate) fn place(&mut self, dataset: &Dataset) {
        for random in dataset.random_files() {
            let name = random.name();
            let is_open = |file: &&mut FilePages| file.file == name && file.placed_share.is_none();
            let Some(chosen) = self.files.iter_mut().find(is_open) else { continue };
            let moved = match chosen.method {
                PageMethod::Mapped | PageMethod::Copy => continue,
                PageMethod::Collapse => move_pieces(random.file, &MappedFile::collapse),
                PageMethod::ReadAgain => move_pieces(random.file, &MappedFile::read_again),
            };
            if let Err(error) = moved {
                tracing::warn!(file = name, %error, "pages of the file stay small");
            }
            chosen.placed_share = huge_share(random.file.bytes());
            tracing::info!(file = name, huge_share = chosen.placed_share, "the file is placed");
        }
    }
}

/// Moves all pieces of the file by several threads. The first error ends the work of its thread.
fn move_pieces(
    file: &MappedFile,
    piece: &(dyn Fn(&MappedFile, Range<usize>) -> io::Result<()> + Sync),
) -> io::Result<()> {
    let (length, next) = (file.bytes().len(), AtomicUsize::new(0));
    let work = || -> io::Result<()> {
        loop {
            // Relaxed: pieces are independent of each other.
            let start = next.fetch_add(PIECE_BYTES, Ordering::Relaxed);
            if start >= length {
                return Ok(());
            }
            piece(file, start..length.min(start + PIECE_BYTES))?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(work)).collect();
        let own = work();
        let ended = others.into_iter().map(|thread| thread.join().unwrap_or(Ok(())));
        ended.fold(own, |first, ended| first.and(ended))
    })
}
