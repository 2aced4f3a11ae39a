//! What the lines of a file look like: the separator of their columns, and whether the first is a header.
//!
//! Names may contain any separator, so the separator is inferred from the whole file: it must give every line the same,
//! expected number of columns. Two separators that give different columns are a tie, which is an error. Numbers contain
//! no separator, so the first edge decides.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use uva_files::quote::shown;
use uva_graph::GraphError;

use super::columns::{ColumnProblem, Columns, is_comment};
use crate::import::options::{EdgeList, Ids, Separator, ThirdColumn};
use crate::import::reading::text::{LineError, each_line, each_line_until, integer};
use crate::import::request::ImportRequest;
use crate::import::writing::numbering::Numbering;

/// The layout of a file.
pub(super) struct EdgeListLayout {
    pub(super) separator: Separator,
    /// The last of the skipped lines at the beginning.
    pub(super) skip_lines: u64,
    /// Lines for the user.
    pub(super) notes: Vec<String>,
}

/// First words of headers, in lower case, without what `bare` removes.
const SOURCES: [&str; 11] =
    ["source", "src", "from", "start", "head", "tail", "subject", "citing", "follower", "node1", "1"];
const DESTINATIONS: [&str; 14] = [
    "target",
    "tgt",
    "destination",
    "dest",
    "dst",
    "to",
    "end",
    "tail",
    "head",
    "object",
    "cited",
    "followee",
    "node2",
    "2",
];

impl EdgeListLayout {
    /// Finds the layout of `file`. `known` has the nodes, if they are known before the edges are read.
    pub(super) fn find(
        file: &Path,
        known: Option<&Numbering>,
        request: &ImportRequest<'_>,
    ) -> Result<EdgeListLayout, GraphError> {
        match request.options.edge_list.ids {
            Ids::Number => of_numbers(file, &request.options.edge_list),
            Ids::Name => of_names(file, known, request),
        }
    }
}

/// Whether the line may be an edge.
fn counts(line: u64, text: &[u8], options: &EdgeList) -> bool {
    let skipped = line <= options.skip_lines.unwrap_or(0) || text.trim_ascii().is_empty();
    !(skipped || options.comments && is_comment(text))
}

fn candidates(options: &EdgeList) -> Vec<Separator> {
    match options.separator {
        Some(separator) => vec![separator],
        None => Separator::NAMED.map(|(_, separator)| separator).to_vec(),
    }
}

/// The first edge decides: its first two columns are integers.
fn of_numbers(file: &Path, options: &EdgeList) -> Result<EdgeListLayout, GraphError> {
    let candidates = candidates(options);
    let mut layout = EdgeListLayout {
        separator: candidates[candidates.len() - 1],
        skip_lines: options.skip_lines.unwrap_or(0),
        notes: Vec::new(),
    };
    let mut begun = false;
    each_line_until(file, &|_| {}, |line, text| {
        if !counts(line, text, options) {
            return Ok(true);
        }
        let found = candidates.iter().find(|&&separator| {
            first_two(text, separator, options).is_some_and(|ids| ids.iter().all(|id| integer(id).is_some()))
        });
        if let Some(&found) = found {
            layout.separator = found;
            return Ok(false);
        }
        let header = |&&separator: &&Separator| {
            first_two(text, separator, options).is_some_and(|[from, to]| is_header(&from, &to))
        };
        if !begun && options.skip_lines.is_none() && candidates.iter().find(header).is_some() {
            begun = true;
            layout.skip_lines = line;
            layout.notes.push(skipped(file, line, text));
            return Ok(true);
        }
        // The line is rejected when it is read. Until then, the most likely columns are assumed.
        let likely = candidates
            .iter()
            .find(|&&separator| matches!(separator, Separator::Byte(byte) if text.contains(&byte)));
        layout.separator = likely.copied().unwrap_or(layout.separator);
        Ok::<bool, LineError>(false)
    })?;
    Ok(layout)
}

fn first_two(text: &[u8], separator: Separator, options: &EdgeList) -> Option<[Vec<u8>; 2]> {
    let mut columns = Columns::of(text, separator, options.quotes);
    let mut next = || columns.next().ok().flatten().map(|column| column.into_owned());
    Some([next()?, next()?])
}

/// A separator, and how it divides the lines so far.
struct Candidate {
    separator: Separator,
    /// Columns of the first line.
    columns: usize,
    /// The maximum number of columns of a line.
    most: usize,
    /// The first line with a different number of columns.
    broken: Option<(u64, Break)>,
    /// All columns so far.
    reading: DefaultHasher,
    /// The ids of the first line, and whether another line has them too.
    first: [Vec<u8>; 2],
    again: [bool; 2],
    lines: u64,
}

enum Break {
    Columns(usize),
    Quotes(ColumnProblem),
}

impl Candidate {
    fn new(separator: Separator) -> Candidate {
        Candidate {
            separator,
            columns: 0,
            most: 0,
            broken: None,
            reading: DefaultHasher::new(),
            first: [Vec::new(), Vec::new()],
            again: [false; 2],
            lines: 0,
        }
    }

    fn see(&mut self, line: u64, text: &[u8], quotes: bool) {
        let mut columns = Columns::of(text, self.separator, quotes);
        let mut count = 0;
        loop {
            match columns.next() {
                Ok(Some(column)) => {
                    column.hash(&mut self.reading);
                    if count < 2 {
                        if self.lines == 0 {
                            self.first[count] = column.into_owned();
                        } else {
                            for (first, again) in self.first.iter().zip(&mut self.again) {
                                *again |= first[..] == *column;
                            }
                        }
                    }
                    count += 1;
                }
                Ok(None) => break,
                Err(problem) => {
                    self.broken.get_or_insert((line, Break::Quotes(problem)));
                    break;
                }
            }
        }
        if self.lines == 0 {
            self.columns = count;
        } else if count != self.columns {
            self.broken.get_or_insert((line, Break::Columns(count)));
        }
        self.most = self.most.max(count);
        self.lines += 1;
    }

    /// `comma: 3 columns on line 7`
    fn described(&self) -> String {
        let name = self.separator.name();
        match &self.broken {
            None => format!("{name}: {} on every line", columns(self.columns)),
            Some((line, Break::Columns(count))) => format!("{name}: {} on line {line}", columns(*count)),
            Some((line, Break::Quotes(problem))) => {
                format!("{name}: {} on line {line}, unless `quotes`=false", problem.text())
            }
        }
    }
}

fn columns(count: usize) -> String {
    if count == 1 { "1 column".to_owned() } else { format!("{count} columns") }
}

fn of_names(
    file: &Path,
    known: Option<&Numbering>,
    request: &ImportRequest<'_>,
) -> Result<EdgeListLayout, GraphError> {
    let options = &request.options.edge_list;
    let mut candidates: Vec<Candidate> = candidates(options).into_iter().map(Candidate::new).collect();
    let mut first_line = 0;
    each_line(file, &|position| request.watch.at("columns", position), |line, text| {
        if counts(line, text, options) {
            if first_line == 0 {
                first_line = line;
            }
            let given = options.separator.is_some();
            let alive = candidates.iter_mut().filter(|candidate| given || candidate.broken.is_none());
            alive.for_each(|candidate| candidate.see(line, text, options.quotes));
        }
        Ok::<(), LineError>(())
    })?;
    let chosen = match options.separator {
        Some(_) => &candidates[0],
        None => chosen(file, &candidates, options.third_column)?,
    };
    let mut layout = EdgeListLayout {
        separator: chosen.separator,
        skip_lines: options.skip_lines.unwrap_or(0),
        notes: Vec::new(),
    };
    if options.skip_lines.is_some() || chosen.lines == 0 {
        return Ok(layout);
    }
    let [from, to] = &chosen.first;
    let shown_pair = format!("'{}' and '{}'", shown(from), shown(to));
    let are_nodes =
        known.is_some_and(|known| [from, to].iter().all(|name| known.place_of_name(name, "source").is_ok()));
    let file_and_line = format!("{}: line {first_line}", file.display());
    match (is_header(from, to), chosen.again == [false; 2] && !are_nodes) {
        (true, true) => {
            layout.skip_lines = first_line;
            layout.notes.push(format!(
                "{file_and_line} ({shown_pair}) is skipped as a header; `skip_lines=0` reads it as an edge"
            ));
        }
        (true, false) => layout.notes.push(format!(
            "{file_and_line} ({shown_pair}) is an edge, since these are names of nodes elsewhere; `skip_lines=1` skips it"
        )),
        (false, true) if chosen.lines > 2 && known.is_none() => layout.notes.push(format!(
            "{file_and_line} is an edge of {shown_pair}, which no other line names; if it is a header, give `skip_lines={first_line}`"
        )),
        (false, _) => {}
    }
    Ok(layout)
}

/// The separator that divides every line into the right number of columns.
fn chosen<'c>(
    file: &Path,
    candidates: &'c [Candidate],
    third_column: Option<ThirdColumn>,
) -> Result<&'c Candidate, GraphError> {
    let fits = |columns: usize| match third_column {
        None => columns == 2,
        Some(ThirdColumn::Weight) => columns == 3,
        Some(ThirdColumn::Ignore) => columns >= 2,
    };
    let whole = |candidate: &&&Candidate| candidate.broken.is_none() && fits(candidate.columns);
    let whole: Vec<&Candidate> = candidates.iter().filter(|candidate| whole(&candidate)).collect();
    if let Some((first, others)) = whole.split_first() {
        let reading = first.reading.finish();
        return match others.iter().find(|other| other.reading.finish() != reading) {
            None => Ok(first),
            Some(other) => {
                let (one, two) = (first.separator.name(), other.separator.name());
                let message = format!(
                    "{}: both {one} and {two} split every line, into different ids: give one of them",
                    file.display()
                );
                Err(GraphError::usage("separator", message))
            }
        };
    }
    // A separator that gives too many columns is rejected at its first line.
    let of_quotes = |candidate: &Candidate| matches!(candidate.broken, Some((_, Break::Quotes(_))));
    if !candidates.iter().any(of_quotes)
        && let Some(even) =
            candidates.iter().find(|candidate| candidate.broken.is_none() && candidate.columns > 1)
    {
        return Ok(even);
    }
    let divides: Vec<String> =
        (candidates.iter().filter(|candidate| candidate.most > 1 || of_quotes(candidate)))
            .map(Candidate::described)
            .collect();
    if divides.is_empty() {
        return Ok(&candidates[candidates.len() - 1]);
    }
    let wanted = match third_column {
        None => "2 columns",
        Some(ThirdColumn::Weight) => "3 columns",
        Some(ThirdColumn::Ignore) => "the same number of columns",
    };
    let message = format!(
        "{}: no separator gives {wanted} on every line ({}): name it",
        file.display(),
        divides.join("; ")
    );
    Err(GraphError::usage("separator", message))
}

fn skipped(file: &Path, line: u64, text: &[u8]) -> String {
    format!("{}: line {line} ('{}') is skipped as a header", file.display(), shown(text.trim_ascii()))
}

/// Whether these are usual names of the columns of an edge list.
fn is_header(from: &[u8], to: &[u8]) -> bool {
    SOURCES.contains(&bare(from).as_str()) && DESTINATIONS.contains(&bare(to).as_str())
}

/// The letters and digits of a column's name in lower case, without prefixes and suffixes such as `id`, `node` and
/// `name`.
fn bare(name: &[u8]) -> String {
    let all: String = String::from_utf8_lossy(name).to_lowercase();
    let all: String = all.chars().filter(|c| c.is_alphanumeric()).collect();
    let mut word = all.as_str();
    while let Some(rest) = ["id", "node", "name", "vertex"]
        .iter()
        .find_map(|end| word.strip_suffix(end).filter(|rest| !rest.is_empty()))
    {
        word = rest;
    }
    for start in ["node", "vertex", "id"] {
        word = word.strip_prefix(start).filter(|rest| !rest.is_empty()).unwrap_or(word);
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_of_columns_are_a_header_and_words_are_not() {
        for (from, to) in [
            ("source", "target"),
            ("Source", "Target"),
            ("SRC", "DST"),
            ("FromNodeId", "ToNodeId"),
            ("source_id", "target_id"),
            ("node_1", "node_2"),
            ("id1", "id2"),
            ("from", "to"),
            ("citing", "cited"),
        ] {
            assert!(is_header(from.as_bytes(), to.as_bytes()), "{from} {to}");
        }
        for (from, to) in [("a", "b"), ("Berlin", "Wien"), ("target", "source"), ("1", "3"), ("", "")] {
            assert!(!is_header(from.as_bytes(), to.as_bytes()), "{from} {to}");
        }
    }
}
