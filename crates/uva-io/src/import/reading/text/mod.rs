//! Text read line by line, plain or compressed by gzip or Zstandard, never completely in memory.
//!
//! A byte order mark is dropped. Other files are rejected by content: other compressions, archives, UTF-16, arrays.

mod content;
mod decompression;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uva_files::quote::shown;
use uva_graph::GraphError;
use uva_mem::files::{open_regular, without_byte_order_mark};

pub(crate) use self::decompression::Zstd;

use self::content::Content;
use self::decompression::Gzip;
use super::stream::is_of_content;

/// Bytes of text read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// The longest accepted line: a row of 100,000 features takes 2 MB.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

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
    #[error("not a {wanted} file, as its name says, but {found}")]
    Misnamed { wanted: &'static str, found: &'static str },
    #[error("it is {0}, and lines of text are read, plain, .gz or .zst: decompress or convert it")]
    NotText(&'static str),
    #[error("it is {outer} with {inner} in it, but lines of text are required: decompress or convert it")]
    NotTextInside { outer: &'static str, inner: &'static str },
}

/// The read position, in bytes of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// Calls `work` with every line (its number, from 1, and its bytes without the end), and `report` periodically. `work`
/// may return a short description of a line's fault; file, line and text are added here.
///
/// # Errors
/// If the file cannot be read or decompressed, or `work` refuses a line.
pub(crate) fn each_line(
    path: &Path,
    report: &dyn Fn(Position),
    mut work: impl FnMut(u64, &[u8]) -> Result<(), LineError>,
) -> Result<(), GraphError> {
    each_line_until(path, report, |line, text| work(line, text).map(|()| true))
}

/// The errors of a line's reader: a fault of the line, or any other error.
#[derive(Debug)]
pub(crate) enum LineError {
    Line(String),
    Other(GraphError),
}

impl From<GraphError> for LineError {
    fn from(error: GraphError) -> Self {
        LineError::Other(error)
    }
}

/// Like [`each_line`]; `work` returns whether to continue.
pub(crate) fn each_line_until(
    path: &Path,
    report: &dyn Fn(Position),
    mut work: impl FnMut(u64, &[u8]) -> Result<bool, LineError>,
) -> Result<(), GraphError> {
    let mut lines = TextLines::open(path)?;
    while let Some((line, text)) = lines.next()? {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let goes_on = work(line, text).map_err(|error| match error {
            LineError::Line(problem) => {
                GraphError::invalid(path, TextProblem::Line { line, text: shown(text), problem })
            }
            LineError::Other(error) => error,
        })?;
        if !goes_on {
            break;
        }
        if line.is_multiple_of(LINES_PER_REPORT) {
            report(lines.position());
        }
    }
    report(lines.position());
    Ok(())
}

/// The lines of a text, one after the other.
pub(crate) struct TextLines {
    path: PathBuf,
    /// The content, detected by the first bytes.
    found: Content,
    text: Box<dyn Read>,
    done: Arc<AtomicU64>,
    total: u64,
    buffer: Vec<u8>,
    /// buffer[start..end] has been read and not yet returned.
    start: usize,
    end: usize,
    /// The number of the last line.
    line: u64,
    begun: bool,
    ended: bool,
}

impl TextLines {
    /// Opens a text, plain or compressed.
    ///
    /// # Errors
    /// If the file cannot be read, or is not text, plain or compressed.
    pub(crate) fn open(path: &Path) -> Result<TextLines, GraphError> {
        let file = open_regular(path).map_err(GraphError::io(path, "open"))?;
        let metadata = file.metadata().map_err(GraphError::io(path, "look at"))?;
        let done = Arc::new(AtomicU64::new(0));
        let file = Counted { file, done: Arc::clone(&done) };
        let mut file = BufReader::with_capacity(1 << 18, file);
        let found = Content::of(file.fill_buf().map_err(GraphError::io(path, "read"))?);
        let wanted = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Some(Content::Gzip),
            Some("zst") => Some(Content::Zstd),
            _ => None,
        };
        if let Some(wanted) = wanted.filter(|&wanted| wanted != found) {
            let (wanted, found) = (wanted.name(), found.described());
            return Err(GraphError::invalid(path, TextProblem::Misnamed { wanted, found }));
        }
        // The content decides, so that a compressed file of any name is read.
        let text: Box<dyn Read> = match found {
            Content::Gzip => Box::new(Gzip::new(file)),
            Content::Zstd => Box::new(Zstd::new(file)),
            Content::Text | Content::Empty => Box::new(file),
            Content::Other(what) => return Err(GraphError::invalid(path, TextProblem::NotText(what))),
        };
        Ok(TextLines {
            path: path.to_owned(),
            found,
            text,
            done,
            total: metadata.len(),
            buffer: vec![0; BLOCK_BYTES],
            start: 0,
            end: 0,
            line: 0,
            begun: false,
            ended: false,
        })
    }

    pub(crate) fn position(&self) -> Position {
        Position { done: self.done.load(Ordering::Relaxed), total: self.total }
    }

    /// The number of the next line, from 1, and its bytes without the line feed; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>, GraphError> {
        let line = loop {
            if !self.begun && (self.ended || self.end >= content::ENOUGH) {
                self.start = beginning(&self.path, self.found, &self.buffer[..self.end])?;
                self.begun = true;
            }
            // Complete lines first.
            if self.begun
                && let Some(length) = memchr::memchr(b'\n', &self.buffer[self.start..self.end])
            {
                let line = self.start..self.start + length;
                self.start = line.end + 1;
                break line;
            }
            if self.ended {
                if self.start == self.end {
                    return Ok(None);
                }
                let line = self.start..self.end;
                self.start = self.end;
                break line;
            }
            self.read_on()?;
        };
        self.line += 1;
        let (number, text) = (self.line, &self.buffer[line]);
        if memchr::memchr(0, text).is_some() {
            let problem = "it has a NUL byte, which no text has: convert the file to UTF-8".to_owned();
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let problem = TextProblem::Line { line: number, text: shown(text), problem };
            return Err(GraphError::invalid(&self.path, problem));
        }
        Ok(Some((number, text)))
    }

    fn read_on(&mut self) -> Result<(), GraphError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            if self.end >= LONGEST_LINE {
                return Err(GraphError::invalid(&self.path, TextProblem::TooLong { line: self.line + 1 }));
            }
            self.buffer.resize(2 * self.end, 0);
        }
        match self.text.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(read) => self.end += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_of_content(&error) => {
                let problem = TextProblem::Broken { line: self.line, problem: error.to_string() };
                return Err(GraphError::invalid(&self.path, problem));
            }
            Err(error) => return Err(GraphError::io(&self.path, "read")(error)),
        }
        Ok(())
    }
}

/// The offset at which the text begins: after a byte order mark, if any.
fn beginning(path: &Path, file: Content, start: &[u8]) -> Result<usize, GraphError> {
    match (Content::of(start), file) {
        (Content::Text | Content::Empty, _) => Ok(start.len() - without_byte_order_mark(start).len()),
        (inner, Content::Gzip | Content::Zstd) => {
            let (outer, inner) = (file.described(), inner.described());
            Err(GraphError::invalid(path, TextProblem::NotTextInside { outer, inner }))
        }
        (inner, _) => Err(GraphError::invalid(path, TextProblem::NotText(inner.described()))),
    }
}

/// A decimal integer; nothing for other bytes, or if it does not fit.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
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
pub(crate) fn float<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
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
