//! Parses a line of text as an edge.

use std::borrow::Cow;

use super::columns::{ColumnProblem, Columns, is_comment};
use super::layout::EdgeListLayout;
use crate::import::options::{EdgeList, Ids, Separator, ThirdColumn};
use crate::import::reading::text::{LineError, float};
use crate::import::reading::values::is_rounded;

/// An edge as written in the text.
pub(super) struct Edge<'t> {
    pub(super) source: Cow<'t, [u8]>,
    pub(super) destination: Cow<'t, [u8]>,
    /// 0 if absent.
    pub(super) weight: f32,
}

/// Parses the lines of one text, in order.
pub(super) struct LineReader {
    separator: Separator,
    quotes: bool,
    comments: bool,
    /// The last of the skipped lines at the beginning.
    skip_lines: u64,
    third_column: Option<ThirdColumn>,
    /// Whether ids are names.
    names: bool,
    /// Weights that float32 holds as another number.
    rounded: u64,
    /// Whether an edge has been read.
    begun: bool,
    /// Comments that might be edges: after the first edge, or before it in the form of an edge.
    doubtful: u64,
    /// The first of these.
    first_doubtful: u64,
}

impl LineReader {
    pub(super) fn new(options: &EdgeList, layout: &EdgeListLayout) -> LineReader {
        LineReader {
            separator: layout.separator,
            quotes: options.quotes,
            comments: options.comments,
            skip_lines: layout.skip_lines,
            third_column: options.third_column,
            names: options.ids == Ids::Name,
            rounded: 0,
            begun: false,
            doubtful: 0,
            first_doubtful: 0,
        }
    }

    /// The edge on line number `line`, from 1; nothing for a comment, an empty line or a skipped one.
    pub(super) fn edge<'t>(&mut self, line: u64, text: &'t [u8]) -> Result<Option<Edge<'t>>, LineError> {
        if line <= self.skip_lines || text.trim_ascii().is_empty() {
            return Ok(None);
        }
        if self.comments && is_comment(text) {
            if self.begun || self.has_the_form_of_an_edge(text) {
                self.doubtful += 1;
                if self.doubtful == 1 {
                    self.first_doubtful = line;
                }
            }
            return Ok(None);
        }
        self.begun = true;
        let mut columns = Columns::of(text, self.separator, self.quotes);
        let source = columns.next().map_err(of_quotes)?;
        let destination = columns.next().map_err(of_quotes)?;
        let (Some(source), Some(destination)) = (source, destination) else {
            return Err(refused("it has one column, but an edge needs two"));
        };
        if source.is_empty() || destination.is_empty() {
            return Err(refused("an id is missing"));
        }
        let weight = match (columns.is_at_end(), self.third_column) {
            (true, None | Some(ThirdColumn::Ignore)) | (false, Some(ThirdColumn::Ignore)) => 0.0,
            (true, Some(ThirdColumn::Weight)) => {
                return Err(refused("it has two columns: the weight is missing"));
            }
            (false, None) => {
                return Err(refused(
                    "it has more than two columns: give `third_column=weight` or `third_column=ignore`",
                ));
            }
            (false, Some(ThirdColumn::Weight)) => {
                let third = columns.next().map_err(of_quotes)?.unwrap_or_default();
                if !columns.is_at_end() {
                    return Err(refused("it has more than three columns"));
                }
                match float::<f32>(&third) {
                    Some(weight) if weight.is_finite() => {
                        self.rounded += u64::from(is_rounded(&third, weight));
                        weight
                    }
                    _ => return Err(refused("its third column is not a finite number")),
                }
            }
        };
        Ok(Some(Edge { source, destination, weight }))
    }

    /// `#rust,#go`, `#new york,paris` or `#` and a name, but not `# from,to` or `# a comment`.
    fn has_the_form_of_an_edge(&self, text: &[u8]) -> bool {
        let mut columns = Columns::of(text.trim_ascii(), self.separator, self.quotes);
        let mut count = 0;
        while let Ok(Some(column)) = columns.next() {
            let marks = column.iter().all(|c| matches!(c, b'#' | b'%'));
            // Where blanks separate, a comment of several words is more likely than an edge of that many columns.
            let words =
                marks && (!self.names || self.separator == Separator::Blanks && self.third_column.is_some());
            // Names may contain blanks.
            let begin = if self.names { column.iter().position(|c| !matches!(c, b'#' | b'%')) } else { None };
            let text = begin.map_or(&column[..], |at| &column[at..=at]);
            if count == 0 && (words || text.iter().any(u8::is_ascii_whitespace)) {
                return false;
            }
            count += usize::from(!column.is_empty());
        }
        match self.third_column {
            None => count == 2,
            Some(ThirdColumn::Weight) => count == 3,
            Some(ThirdColumn::Ignore) => count >= 2,
        }
    }

    /// A line about rounded weights.
    pub(super) fn about_weights(&self) -> Option<String> {
        let rounded = self.rounded;
        (rounded > 0).then(|| format!("{rounded} weights are rounded, or 0, as float32"))
    }

    /// A line about comments that might be edges.
    pub(super) fn about_comments(&self) -> Option<String> {
        let (count, first) = (self.doubtful, self.first_doubtful);
        let lines = match count {
            0 => return None,
            1 => format!("line {first} begins with # or % and is a comment"),
            _ => format!(
                "{count} lines among the edges begin with # or % and are comments, line {first} first"
            ),
        };
        Some(format!("{lines}: `comments`=false reads such lines as edges"))
    }
}

fn refused(problem: &str) -> LineError {
    LineError::Line(problem.to_owned())
}

fn of_quotes(problem: ColumnProblem) -> LineError {
    let problem = problem.text();
    LineError::Line(format!("it has {problem}: `quotes`=false reads quotes as characters of ids"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(third_column: Option<ThirdColumn>, separator: Separator, lines: &[&str]) -> Vec<String> {
        let options = EdgeList { third_column, ..EdgeList::default() };
        let mut reader =
            LineReader::new(&options, &EdgeListLayout { separator, skip_lines: 0, notes: Vec::new() });
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (1..)
            .zip(lines)
            .filter_map(|(line, bytes)| match reader.edge(line, bytes.as_bytes()) {
                Ok(edge) => edge.map(|edge| {
                    format!("{}>{} {}", text(&edge.source), text(&edge.destination), edge.weight)
                }),
                Err(LineError::Line(problem)) => Some(problem),
                Err(LineError::Other(error)) => panic!("{error}"),
            })
            .collect()
    }

    #[test]
    fn lines_are_edges_or_comments() {
        let (comma, tab) = (Separator::Byte(b','), Separator::Byte(b'\t'));
        assert_eq!(
            read(None, Separator::Blanks, &["# a,b", "", "1 2", "3\t 4", "% x", "\"#a\" b"]),
            ["1>2 0", "3>4 0", "#a>b 0"]
        );
        assert_eq!(read(None, tab, &["a b\tc d", " e \t f "]), ["a b>c d 0", "e>f 0"]);
        assert_eq!(read(None, comma, &["1,2", "3 , 4"]), ["1>2 0", "3>4 0"]);
    }

    #[test]
    fn third_columns_are_read_as_specified() {
        use ThirdColumn::{Ignore, Weight};
        let blanks = Separator::Blanks;
        assert_eq!(read(Some(Weight), blanks, &["1 2 0.5", "1 2 -1e-3"]), ["1>2 0.5", "1>2 -0.001"]);
        assert_eq!(read(Some(Ignore), blanks, &["1 2 x y", "1 2"]), ["1>2 0", "1>2 0"]);
        for (third, line, problem) in [
            (None, "1 2 3", "`third_column=weight`"),
            (None, "1", "one column"),
            (None, "\"\" 2", "an id is missing"),
            (None, "\"1 2", "without a closing one: `quotes`=false"),
            (Some(Weight), "1 2", "the weight is missing"),
            (Some(Weight), "1 2 nan", "not a finite number"),
            (Some(Weight), "1 2 3 4", "more than three"),
        ] {
            assert!(read(third, blanks, &[line])[0].contains(problem), "{line}");
        }
    }
}
