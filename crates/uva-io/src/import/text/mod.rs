//! Text read line by line, plain or compressed by gzip or Zstandard, never whole.
//!
//! A byte order mark is dropped. Other files are refused by name: other compressions, archives, UTF-16, arrays.

mod compressed;
mod content;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uva_graph::GraphError;
use uva_graph::quote::shown;
use uva_mem::files::{open_regular, without_byte_order_mark};

pub(super) use self::compressed::Zstd;

use self::compressed::Gzip;
use self::content::Content;
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
    #[error("not a {wanted} file, as its name says, but {found}")]
    Misnamed { wanted: &'static str, found: &'static str },
    #[error("it is {0}, and lines of text are read, plain, .gz or .zst: decompress or convert it")]
    NotText(&'static str),
    #[error("it is {outer} with {inner} in it, and lines of text are read: decompress or convert it")]
    NotTextInside { outer: &'static str, inner: &'static str },
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
    let mut text: Box<dyn Read> = match found {
        Content::Gzip => Box::new(Gzip::new(file)),
        Content::Zstd => Box::new(Zstd::new(file)),
        Content::Text | Content::Empty => Box::new(file),
        Content::Other(what) => return Err(GraphError::invalid(path, TextProblem::NotText(what))),
    };
    let position = || Position { done: done.load(Ordering::Relaxed), total: metadata.len() };

    let mut buffer = vec![0; BLOCK_BYTES];
    // buffer[start..end] has been read and not yet processed.
    let (mut start, mut end, mut line) = (0, 0, 0);
    let mut begun = false;
    loop {
        if !begun && end >= content::ENOUGH {
            start = beginning(path, found, &buffer[..end])?;
            begun = true;
        }
        // Complete lines first.
        while begun && let Some(length) = memchr::memchr(b'\n', &buffer[start..end]) {
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
            Ok(0) if begun => break,
            // A short text is begun at its end.
            Ok(0) => {
                start = beginning(path, found, &buffer[..end])?;
                begun = true;
            }
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

/// Where the text begins in its first bytes: behind a byte order mark.
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

fn one_line(
    path: &Path,
    line: u64,
    text: &[u8],
    work: &mut impl FnMut(u64, &[u8]) -> Result<bool, LineError>,
) -> Result<bool, GraphError> {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let checked = match memchr::memchr(0, text) {
        None => work(line, text),
        Some(_) => {
            Err(LineError::Line("it has a NUL byte, which no text has: convert the file to UTF-8".into()))
        }
    };
    checked.map_err(|error| match error {
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
