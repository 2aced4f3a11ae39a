//! Text read line by line, plain or compressed (`.gz`, `.zst`), never whole.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use uva_graph::GraphError;
use uva_graph::quote::shown;
use uva_mem::files::open_regular;

use super::stream::is_of_content;

/// Bytes of text read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// The longest accepted line: a row of 100,000 features takes 2 MB.
const LONGEST_LINE: usize = 64 << 20;

/// Lines between two progress reports.
const LINES_PER_REPORT: u64 = 1 << 16;

/// Faults of a text.
#[derive(Debug, thiserror::Error)]
enum TextProblem {
    #[error("line {line} is '{text}': {problem}")]
    Line { line: u64, text: String, problem: String },
    #[error("the text breaks off after line {line}: {problem}")]
    Broken { line: u64, problem: String },
    #[error("line {line} is longer than {LONGEST_LINE} bytes")]
    TooLong { line: u64 },
}

/// The read position, in bytes of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) done: u64,
    pub(super) total: u64,
}

/// Calls `work` with every line (its number, from 1, and its bytes without the end), and `report` now and then. `work`
/// may return a short description of a line's fault; file, line and text are added here.
///
/// # Errors
/// If the file cannot be read or decompressed, or `work` refuses a line.
pub(super) fn each_line(
    path: &Path,
    report: &dyn Fn(Position),
    mut work: impl FnMut(u64, &[u8]) -> Result<(), LineError>,
) -> Result<(), GraphError> {
    each_line_until(path, report, |line, text| work(line, text).map(|()| true))
}

/// The errors of a line's reader: a fault of the line, or any other error.
#[derive(Debug)]
pub(super) enum LineError {
    Line(String),
    Other(GraphError),
}

impl From<GraphError> for LineError {
    fn from(error: GraphError) -> Self {
        LineError::Other(error)
    }
}

/// The same, and `work` returns whether to continue.
pub(super) fn each_line_until(
    path: &Path,
    report: &dyn Fn(Position),
    mut work: impl FnMut(u64, &[u8]) -> Result<bool, LineError>,
) -> Result<(), GraphError> {
    let file = open_regular(path).map_err(GraphError::io(path, "open"))?;
    let metadata = file.metadata().map_err(GraphError::io(path, "look at"))?;
    let done = Arc::new(AtomicU64::new(0));
    let file = Counted { file, done: Arc::clone(&done) };
    let file = BufReader::with_capacity(1 << 18, file);
    let mut text: Box<dyn Read> = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Box::new(MultiGzDecoder::new(file)),
        Some("zst") => Box::new(Zstd::new(file)),
        _ => Box::new(file),
    };
    let position = || Position { done: done.load(Ordering::Relaxed), total: metadata.len() };

    let mut buffer = vec![0; BLOCK_BYTES];
    // buffer[start..end] has been read and not yet processed.
    let (mut start, mut end, mut line) = (0, 0, 0);
    loop {
        // Complete lines first.
        while let Some(length) = memchr::memchr(b'\n', &buffer[start..end]) {
            line += 1;
            if !one_line(path, line, &buffer[start..start + length], &mut work)? {
                report(position());
                return Ok(());
            }
            start += length + 1;
            if line.is_multiple_of(LINES_PER_REPORT) {
                report(position());
            }
        }
        buffer.copy_within(start..end, 0);
        end -= start;
        start = 0;
        if end == buffer.len() {
            if end >= LONGEST_LINE {
                return Err(GraphError::invalid(path, TextProblem::TooLong { line: line + 1 }));
            }
            buffer.resize(2 * end, 0);
        }
        match text.read(&mut buffer[end..]) {
            Ok(0) => break,
            Ok(read) => end += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_of_content(&error) => {
                let problem = TextProblem::Broken { line, problem: error.to_string() };
                return Err(GraphError::invalid(path, problem));
            }
            Err(error) => return Err(GraphError::io(path, "read")(error)),
        }
    }
    if end > 0 {
        one_line(path, line + 1, &buffer[..end], &mut work)?;
    }
    report(position());
    Ok(())
}

fn one_line(
    path: &Path,
    line: u64,
    text: &[u8],
    work: &mut impl FnMut(u64, &[u8]) -> Result<bool, LineError>,
) -> Result<bool, GraphError> {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    work(line, text).map_err(|error| match error {
        LineError::Line(problem) => {
            GraphError::invalid(path, TextProblem::Line { line, text: shown(text), problem })
        }
        LineError::Other(error) => error,
    })
}

/// A decimal integer; nothing for other bytes, or if it does not fit.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Accumulated downwards, since there is one more negative number.
        value = value.checked_mul(10)?.checked_sub(digit.into())?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// A decimal number, including NaN and infinities.
pub(super) fn float<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Counts bytes read.
struct Counted {
    file: File,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Consecutive Zstandard frames, including skippable ones.
pub(super) struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder is inside a frame.
    open: bool,
}

impl<R: io::BufRead> Zstd<R> {
    pub(super) fn new(source: R) -> Zstd<R> {
        Zstd { source, decoder: FrameDecoder::new(), open: false }
    }

    /// Begins the next frame; false if there is none.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
            }
        }
        Ok(false)
    }
}

impl<R: io::BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.open && !self.next_frame()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if let (Some(said), Some(found)) =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum())
                && said != found
            {
                let message = format!("a frame's check sum is {found:08x}, it says {said:08x}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.open = false;
        }
    }
}
