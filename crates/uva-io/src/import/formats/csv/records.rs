//! The records of comma-separated values, by RFC 4180: a field in double quotes may contain commas, doubled quotes and
//! line breaks, and blanks are part of a field that has other characters.

use std::ops::Range;
use std::path::Path;

use uva_files::quote::shown;
use uva_graph::GraphError;

use crate::import::reading::text::{LONGEST_LINE, Position, TextLines};

/// Faults of a record.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordProblem {
    #[error("line {line}: {problem}")]
    Line { line: u64, problem: String },
    #[error("line {line}, column {column}: {problem}")]
    Cell { line: u64, column: String, problem: String },
}

/// The records of a file, one after the other. Empty lines are skipped.
pub(super) struct Records {
    path: std::path::PathBuf,
    lines: TextLines,
    /// The fields of the record, one after the other.
    text: Vec<u8>,
    fields: Vec<Range<usize>>,
    /// The number of its first line.
    line: u64,
}

/// The state after a line.
enum Reached {
    End,
    /// A field continues on the next line.
    Inside,
}

impl Records {
    pub(super) fn open(path: &Path) -> Result<Records, GraphError> {
        let lines = TextLines::open(path)?;
        Ok(Records { path: path.to_owned(), lines, text: Vec::new(), fields: Vec::new(), line: 0 })
    }

    pub(super) fn position(&self) -> Position {
        self.lines.position()
    }

    /// Reads the next record; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool, GraphError> {
        self.text.clear();
        self.fields.clear();
        let (mut begun, mut inside) = (false, false);
        loop {
            let Some((number, line)) = self.lines.next()? else {
                return match begun {
                    false => Ok(false),
                    true => Err(self.wrong("a field has an opening quote without a closing one")),
                };
            };
            if !begun {
                if matches!(line, b"" | b"\r") {
                    continue;
                }
                (begun, self.line) = (true, number);
            }
            let reached = read(line, &mut self.text, &mut self.fields, inside);
            match reached {
                Ok(Reached::End) => break,
                Ok(Reached::Inside) if self.text.len() > LONGEST_LINE => {
                    return Err(self.wrong(&format!("a field is longer than {LONGEST_LINE} bytes")));
                }
                Ok(Reached::Inside) => inside = true,
                Err(problem) => return Err(self.wrong(problem)),
            }
        }
        if std::str::from_utf8(&self.text).is_err() {
            let problem = "it is not UTF-8: convert the file, as with iconv -f LATIN1 -t UTF-8";
            return Err(self.wrong(problem));
        }
        Ok(true)
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn field(&self, at: usize) -> &[u8] {
        &self.text[self.fields[at].clone()]
    }

    /// The number of the record's first line.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The error about the record.
    pub(super) fn wrong(&self, problem: &str) -> GraphError {
        let problem = RecordProblem::Line { line: self.line, problem: problem.to_owned() };
        GraphError::invalid(&self.path, problem)
    }

    /// The error about a record of another length than the header.
    pub(super) fn wrong_length(&self, columns: usize) -> GraphError {
        let fields = self.fields.len();
        let found = shown(self.field(0));
        self.wrong(&format!("it has {fields} fields and the header {columns}; the first is '{found}'"))
    }
}

/// Appends the fields of a line. `inside`: it begins within the quotes of the last field.
fn read(
    line: &[u8],
    text: &mut Vec<u8>,
    fields: &mut Vec<Range<usize>>,
    mut inside: bool,
) -> Result<Reached, &'static str> {
    let mut at = 0;
    // Where the field begins that is being read.
    let mut start = fields.last().map_or(0, |field| field.end);
    loop {
        if !inside && line.get(at) == Some(&b'"') {
            inside = true;
            at += 1;
        }
        if !inside {
            let rest = &line[at..];
            let end = memchr::memchr(b',', rest);
            let field = match end {
                Some(end) => &rest[..end],
                None => rest.strip_suffix(b"\r").unwrap_or(rest),
            };
            text.extend_from_slice(field);
            fields.push(start..text.len());
            match end {
                Some(end) => (at, start) = (at + end + 1, text.len()),
                None => return Ok(Reached::End),
            }
            continue;
        }
        let Some(quote) = memchr::memchr(b'"', &line[at..]) else {
            text.extend_from_slice(&line[at..]);
            text.push(b'\n');
            return Ok(Reached::Inside);
        };
        text.extend_from_slice(&line[at..at + quote]);
        at += quote + 1;
        match &line[at..] {
            [b'"', ..] => {
                text.push(b'"');
                at += 1;
            }
            [] | [b'\r'] => {
                fields.push(start..text.len());
                return Ok(Reached::End);
            }
            [b',', ..] => {
                fields.push(start..text.len());
                (at, start, inside) = (at + 1, text.len(), false);
            }
            _ => return Err("it has text after the closing quote of a field"),
        }
    }
}
