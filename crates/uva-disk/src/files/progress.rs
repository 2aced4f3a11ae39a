//! Progress of reading one extent: the next request, and the handling of results.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::extent::Extent;
use crate::files::seam::ReadResult;

/// Consecutive results without progress before a read is given up.
const MOST_IN_VAIN: u32 = 1000;

/// The pause of a read for which the kernel had too few resources.
const REST: Duration = Duration::from_micros(100);

/// The number of results without progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryCounts {
    in_vain: u32,
}

impl RetryCounts {
    /// Records a result with bytes.
    pub fn brought(&mut self) {
        self.in_vain = 0;
    }

    /// Records a result without bytes, with this error if any. Returns whether to retry: false from the thousandth such
    /// result in a row on. Pauses briefly if the kernel had too few resources.
    pub fn again(&mut self, error: Option<ErrorKind>) -> bool {
        self.in_vain += 1;
        if error == Some(ErrorKind::WouldBlock) {
            thread::sleep(REST);
        }
        self.in_vain < MOST_IN_VAIN
    }
}

/// An extent that may have been read partly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentProgress {
    extent: Extent,
    alignment: usize,
    done: usize,
    tries: RetryCounts,
}

/// The next read of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// The offset in the file.
    pub offset: u64,
    /// The offset in the extent's buffer.
    pub from: usize,
    /// The number of bytes.
    pub length: usize,
}

/// The step after a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadStep {
    /// The required bytes have been read.
    Done,
    /// Another request is needed.
    Again,
}

/// A read that cannot be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadFailure {
    pub file: usize,
    pub offset: u64,
    pub length: usize,
    pub reason: String,
}

impl ExtentProgress {
    /// Creates the state of an extent that is read in blocks of `alignment` bytes.
    pub fn new(extent: Extent, alignment: usize) -> Self {
        Self { extent, alignment, done: 0, tries: RetryCounts::default() }
    }

    /// The index of the file.
    pub fn file(&self) -> usize {
        self.extent.file
    }

    /// The number of required bytes.
    pub fn needed(&self) -> usize {
        self.extent.needed
    }

    /// The next read.
    pub fn request(&self) -> ReadRequest {
        ReadRequest {
            offset: self.extent.offset + self.done as u64,
            from: self.done,
            length: self.extent.length - self.done,
        }
    }

    /// Handles the result of the last request.
    ///
    /// # Errors
    /// If the file ends before the required bytes, the device fails, or many results have no bytes.
    pub fn take(&mut self, answer: ReadResult) -> Result<ReadStep, ReadFailure> {
        let error = answer.err().map(|error| error.kind());
        let why = match answer {
            Ok(0) => return Err(self.failed("the file ends there".to_owned())),
            Ok(read) => {
                let there = self.done + read;
                if there >= self.extent.needed {
                    return Ok(ReadStep::Done);
                }
                // A read begins at a block boundary, so an incomplete block is read again.
                let whole = there - there % self.alignment;
                if whole > self.done {
                    self.done = whole;
                    self.tries.brought();
                    return Ok(ReadStep::Again);
                }
                format!("{read} bytes come, however often it is read")
            }
            Err(Errno::INTR) => "it is interrupted, however often it is read".to_owned(),
            Err(Errno::AGAIN) => format!("{}, however often it is read", text(Errno::AGAIN)),
            Err(error) => return Err(self.failed(text(error))),
        };
        if self.tries.again(error) { Ok(ReadStep::Again) } else { Err(self.failed(why)) }
    }

    fn failed(&self, reason: String) -> ReadFailure {
        let ReadRequest { offset, length, .. } = self.request();
        ReadFailure { file: self.extent.file, offset, length, reason }
    }
}

/// The system's text for the error.
pub(crate) fn text(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { file: 3, offset: 8192, length: 16384, needed: 13000 };

    #[test]
    fn a_short_read_continues_at_the_last_complete_block() {
        let mut progress = ExtentProgress::new(EXTENT, 4096);
        assert_eq!(progress.request(), ReadRequest { offset: 8192, from: 0, length: 16384 });
        assert_eq!(progress.take(Ok(5000)), Ok(ReadStep::Again));
        assert_eq!(progress.request(), ReadRequest { offset: 12288, from: 4096, length: 12288 });
        assert_eq!(progress.take(Err(Errno::INTR)), Ok(ReadStep::Again));
        assert_eq!(progress.take(Err(Errno::AGAIN)), Ok(ReadStep::Again));
        // 4096 + 8903 = 12999: one byte is missing.
        assert_eq!(progress.take(Ok(8903)), Ok(ReadStep::Again));
        assert_eq!(progress.request(), ReadRequest { offset: 20480, from: 12288, length: 4096 });
        assert_eq!(progress.take(Ok(712)), Ok(ReadStep::Done));
    }

    #[test]
    fn the_files_end_and_an_error_of_the_device_end_it_at_once() {
        let mut progress = ExtentProgress::new(EXTENT, 512);
        assert_eq!(progress.take(Ok(1024)), Ok(ReadStep::Again));
        let ended = progress.take(Ok(0)).unwrap_err();
        assert_eq!((ended.file, ended.offset, ended.length), (3, 9216, 15360));
        assert!(ended.reason.contains("ends there"), "{}", ended.reason);
        let failed = progress.take(Err(Errno::IO)).unwrap_err();
        assert!(failed.reason.contains("os error 5"), "{}", failed.reason);
    }

    #[test]
    fn answers_that_bring_nothing_are_taken_often_but_not_forever() {
        for answer in [Ok(511), Err(Errno::INTR)] {
            let mut progress = ExtentProgress::new(EXTENT, 512);
            for _ in 1..MOST_IN_VAIN {
                assert_eq!(progress.take(answer), Ok(ReadStep::Again));
            }
            assert!(progress.take(answer).unwrap_err().reason.contains("however often"));
        }
    }
}
