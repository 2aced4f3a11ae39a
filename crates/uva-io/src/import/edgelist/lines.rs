//! Parses a line of text as an edge.

use super::super::options::{EdgeList, ThirdColumn};
use super::super::text::{LineError, float};

/// An edge as written in the text.
pub(super) struct Edge<'t> {
    pub(super) source: &'t [u8],
    pub(super) destination: &'t [u8],
    /// 0 if absent.
    pub(super) weight: f32,
}

/// The column separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// One of these characters, with optional blanks around it.
    Byte(u8),
    /// Any run of blanks and tabs.
    Blank,
}

/// Parses the lines of one text, in order.
pub(super) struct LineReader {
    skip_lines: u64,
    third_column: Option<ThirdColumn>,
    /// The separator of the first edge's line.
    separator: Option<Separator>,
}

impl LineReader {
    pub(super) fn new(options: &EdgeList) -> LineReader {
        LineReader { skip_lines: options.skip_lines, third_column: options.third_column, separator: None }
    }

    /// The edge on line number `line`, from 1; nothing for a comment, an empty line or a skipped one.
    pub(super) fn edge<'t>(&mut self, line: u64, text: &'t [u8]) -> Result<Option<Edge<'t>>, LineError> {
        let text = text.trim_ascii();
        if line <= self.skip_lines || text.is_empty() || text[0] == b'#' || text[0] == b'%' {
            return Ok(None);
        }
        let separator = *self.separator.get_or_insert_with(|| {
            if text.contains(&b',') {
                Separator::Byte(b',')
            } else if text.contains(&b'\t') {
                Separator::Byte(b'\t')
            } else {
                Separator::Blank
            }
        });
        let (source, rest) = split(text, separator);
        let (destination, rest) = match rest {
            Some(rest) => split(rest, separator),
            None => return Err(refused("it has one column, an edge needs two")),
        };
        if source.is_empty() || destination.is_empty() {
            return Err(refused("an id is missing"));
        }
        let weight = match (rest, self.third_column) {
            (None, None | Some(ThirdColumn::Ignore)) | (Some(_), Some(ThirdColumn::Ignore)) => 0.0,
            (None, Some(ThirdColumn::Weight)) => {
                return Err(refused("it has two columns, the weight is missing"));
            }
            (Some(_), None) => {
                return Err(refused(
                    "it has more than two columns: say --third-column weight or --third-column ignore",
                ));
            }
            (Some(rest), Some(ThirdColumn::Weight)) => {
                let (third, rest) = split(rest, separator);
                if rest.is_some() {
                    return Err(refused("it has more than three columns"));
                }
                match float::<f32>(third) {
                    Some(weight) if weight.is_finite() => weight,
                    _ => return Err(refused("its third column is no finite number")),
                }
            }
        };
        Ok(Some(Edge { source, destination, weight }))
    }
}

/// The first column, and the text after its separator.
#[inline]
fn split(text: &[u8], separator: Separator) -> (&[u8], Option<&[u8]>) {
    match separator {
        Separator::Byte(byte) => match memchr::memchr(byte, text) {
            Some(at) => (text[..at].trim_ascii(), Some(text[at + 1..].trim_ascii_start())),
            None => (text.trim_ascii(), None),
        },
        Separator::Blank => match text.iter().position(|&c| c == b' ' || c == b'\t') {
            Some(at) => (&text[..at], Some(text[at..].trim_ascii_start())),
            None => (text, None),
        },
    }
}

fn refused(problem: &str) -> LineError {
    LineError::Line(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(third_column: Option<ThirdColumn>, lines: &[&str]) -> Vec<String> {
        let mut reader = LineReader::new(&EdgeList { third_column, ..EdgeList::default() });
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (1..)
            .zip(lines)
            .filter_map(|(line, bytes)| match reader.edge(line, bytes.as_bytes()) {
                Ok(edge) => edge
                    .map(|edge| format!("{}>{} {}", text(edge.source), text(edge.destination), edge.weight)),
                Err(LineError::Line(problem)) => Some(problem),
                Err(LineError::Other(error)) => panic!("{error}"),
            })
            .collect()
    }

    #[test]
    fn the_first_edge_says_what_separates_columns() {
        assert_eq!(read(None, &["# a,b", "", "1 2", "3\t 4", "% x"]), ["1>2 0", "3>4 0"]);
        assert_eq!(read(None, &["a b\tc d", " e \t f "]), ["a b>c d 0", "e>f 0"]);
        assert_eq!(read(None, &["1,2", "3 , 4"]), ["1>2 0", "3>4 0"]);
    }

    #[test]
    fn third_columns_are_taken_as_they_are_said_to_be() {
        use ThirdColumn::{Ignore, Weight};
        assert_eq!(read(Some(Weight), &["1 2 0.5", "1 2 -1e-3"]), ["1>2 0.5", "1>2 -0.001"]);
        assert_eq!(read(Some(Ignore), &["1 2 x y", "1 2"]), ["1>2 0", "1>2 0"]);
        for (third, line, problem) in [
            (None, "1 2 3", "--third-column weight"),
            (None, "1", "one column"),
            (None, "1,", "an id is missing"),
            (Some(Weight), "1 2", "the weight is missing"),
            (Some(Weight), "1 2 nan", "no finite number"),
            (Some(Weight), "1 2 3 4", "more than three"),
        ] {
            assert!(read(third, &[line])[0].contains(problem), "{line}");
        }
    }
}
