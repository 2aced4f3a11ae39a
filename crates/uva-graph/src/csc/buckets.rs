//! Records grouped by bucket. They stay in memory while they fit; the rest goes to one temporary file.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use uva_mem::files::nameless;

use crate::GraphError;

/// Granularity of memory in bytes. Each chunk uses the largest multiple of the record size.
pub(super) const CHUNK_BYTES: usize = 1 << 16;

/// Bytes read from the temporary file at a time.
const READ_BYTES: usize = 4 << 20;

/// Fixed-size records in a fixed number of buckets. Each bucket keeps the order of arrival.
#[derive(Debug)]
pub(super) struct Buckets {
    record_bytes: usize,
    /// Maximum bytes of a chunk, a multiple of the record size.
    chunk_bytes: usize,
    chunks: Vec<Vec<Vec<u8>>>,
    chunks_left: usize,
    spare: Vec<Vec<u8>>,
    directory: PathBuf,
    spill: Option<Spill>,
}

/// The temporary file. It has no name, so it disappears even if the process is killed.
#[derive(Debug)]
struct Spill {
    file: File,
    end: u64,
    /// Offset and length of each bucket's pieces, in order.
    pieces: Vec<Vec<(u64, u64)>>,
}

impl Buckets {
    /// Creates `count` empty buckets for records of `record_bytes` bytes. About `memory` bytes of records stay in
    /// memory; the rest goes to a file in `directory`.
    pub(super) fn new(directory: &Path, count: usize, record_bytes: usize, memory: u64) -> Buckets {
        Buckets {
            record_bytes,
            chunk_bytes: CHUNK_BYTES / record_bytes * record_bytes,
            chunks: vec![Vec::new(); count],
            // Every bucket needs a chunk.
            chunks_left: usize::try_from(memory / CHUNK_BYTES as u64).unwrap_or(usize::MAX).max(count),
            spare: Vec::new(),
            directory: directory.to_owned(),
            spill: None,
        }
    }

    /// Appends a record, which must have the right size.
    #[inline]
    pub(super) fn push(&mut self, bucket: usize, record: &[u8]) -> Result<(), GraphError> {
        match self.chunks[bucket].last_mut() {
            Some(chunk) if chunk.len() < self.chunk_bytes => chunk.extend_from_slice(record),
            _ => self.new_chunk(bucket)?.extend_from_slice(record),
        }
        Ok(())
    }

    #[cold]
    fn new_chunk(&mut self, bucket: usize) -> Result<&mut Vec<u8>, GraphError> {
        if self.chunks_left == 0 {
            self.spill()?;
        }
        self.chunks_left -= 1;
        let chunk = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.chunk_bytes));
        let chunks = &mut self.chunks[bucket];
        chunks.push(chunk);
        let last = chunks.len() - 1;
        Ok(&mut chunks[last])
    }

    /// Writes everything in memory to the file.
    fn spill(&mut self) -> Result<(), GraphError> {
        if self.spill.is_none() {
            let file = nameless(&self.directory)
                .map_err(GraphError::io(&self.directory, "create a temporary file in"))?;
            self.spill = Some(Spill { file, end: 0, pieces: vec![Vec::new(); self.chunks.len()] });
        }
        let Some(spill) = &mut self.spill else { return Ok(()) };
        for (chunks, pieces) in self.chunks.iter_mut().zip(&mut spill.pieces) {
            let start = spill.end;
            for mut chunk in chunks.drain(..) {
                spill
                    .file
                    .write_all(&chunk)
                    .map_err(GraphError::io(&self.directory, "write a temporary file in"))?;
                spill.end += chunk.len() as u64;
                chunk.clear();
                self.spare.push(chunk);
                self.chunks_left += 1;
            }
            if spill.end > start {
                pieces.push((start, spill.end - start));
            }
        }
        Ok(())
    }

    /// Ends the input. If a part of the records is in the file, the rest is written to it as well, and the memory is
    /// freed.
    pub(super) fn seal(&mut self) -> Result<(), GraphError> {
        if self.spill.is_some() {
            self.spill()?;
        }
        self.spare = Vec::new();
        Ok(())
    }

    /// The number of records in `bucket`.
    #[cfg(test)]
    pub(super) fn len(&self, bucket: usize) -> u64 {
        let in_memory: usize = self.chunks[bucket].iter().map(Vec::len).sum();
        let in_file: u64 =
            self.spill.iter().flat_map(|spill| &spill.pieces[bucket]).map(|piece| piece.1).sum();
        (in_memory as u64 + in_file) / self.record_bytes as u64
    }

    /// Calls `work` with runs of whole records of `bucket`, in their order.
    pub(super) fn read(&self, bucket: usize, mut work: impl FnMut(&[u8])) -> Result<(), GraphError> {
        if let Some(spill) = &self.spill {
            let most = READ_BYTES / self.record_bytes * self.record_bytes;
            let mut buffer = Vec::new();
            for &(offset, length) in &spill.pieces[bucket] {
                let mut done = 0;
                while done < length {
                    let bytes = (most as u64).min(length - done) as usize;
                    buffer.resize(bytes.max(buffer.len()), 0);
                    let run = &mut buffer[..bytes];
                    spill
                        .file
                        .read_exact_at(run, offset + done)
                        .map_err(GraphError::io(&self.directory, "read a temporary file in"))?;
                    work(run);
                    done += bytes as u64;
                }
            }
        }
        // The records in memory came last.
        self.chunks[bucket].iter().for_each(|chunk| work(chunk));
        Ok(())
    }

    /// Frees the memory of a finished bucket.
    pub(super) fn forget(&mut self, bucket: usize) {
        self.chunks[bucket] = Vec::new();
    }

    /// Whether there is a temporary file.
    #[cfg(test)]
    pub(super) fn spilled(&self) -> bool {
        self.spill.is_some()
    }
}
