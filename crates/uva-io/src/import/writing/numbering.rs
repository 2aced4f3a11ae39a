//! Maps ids to nodes.
//!
//! | what is known | the nodes |
//! |---|---|
//! | arrays, and `node_id.npy` or `node_names.txt` among them | row k is the node with the k-th id |
//! | arrays, or the number of nodes | 0 … N − 1, and ids are these numbers |
//! | the number of rows of a matrix | 0 … N − 1, and ids are these numbers and 1; kept as `node_id.npy` |
//! | nothing, ids are integers | those that occur, ascending; kept as `node_id.npy` unless they are 0 … N − 1 |
//! | nothing, ids are names | those that occur, the first first; kept as `node_names.txt` |

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{BufWriter, Write};
use std::path::Path;

use uva_files::quote::shown;
use uva_graph::npy::{NpyType, NpyWriter, write_array};
use uva_graph::{GraphError, names};
use uva_mem::files::without_byte_order_mark;

use super::output::CHUNK;
use crate::import::options::Ids;
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::text::{LineError, each_line, integer};

/// Ids collected before duplicates are removed.
const COLLECTED: usize = 1 << 22;

/// The meaning of the ids.
pub(crate) enum Numbering {
    /// Ids are their numbers.
    Dense(NodeRange),
    /// Ids are their numbers and 1: the rows of a matrix.
    FromOne(NodeRange),
    Integers(Integers),
    Names {
        places: HashMap<Box<[u8]>, u64>,
        in_order: Vec<Box<[u8]>>,
        /// The origin of the names, for messages.
        said_by: Cow<'static, str>,
    },
}

/// Integer ids of nodes.
pub(crate) struct Integers {
    /// The id of each node.
    ids: Vec<i64>,
    lookup: Lookup,
    /// The origin of the ids, for messages.
    said_by: Cow<'static, str>,
}

/// Two nodes with the same id.
#[derive(Debug)]
pub(crate) struct DuplicateId {
    pub(crate) first: u64,
    pub(crate) second: u64,
    pub(crate) id: i64,
}

enum Lookup {
    /// Ids are dense: the place of each, from the smallest on; `u32::MAX` if no node has it.
    Table { smallest: i64, places: Vec<u32> },
    /// Ids are sparse: pairs of id and place, by id.
    Sorted(Vec<(i64, u64)>),
}

/// Names kept by an earlier import.
pub(crate) fn named(path: &Path) -> Result<Numbering, GraphError> {
    let mut survey = Survey::new(Ids::Name);
    each_line(path, &|_| {}, |line, name| {
        let before = survey.nodes();
        survey.see_name(name).map_err(LineError::Line)?;
        if survey.nodes() == before {
            return Err(LineError::Line(format!("node {} has the name of an earlier one", line - 1)));
        }
        Ok(())
    })?;
    Ok(survey.finish())
}

/// Rejects files of node names, one per line, with repeated names or text that is not UTF-8, as an import does.
pub(crate) fn check_names(path: &Path) -> Result<(), GraphError> {
    named(path).map(drop)
}

/// Rejects repeated ids of nodes in the file at `path`.
pub(crate) fn check_ids(path: &Path, ids: &[i64]) -> Result<(), GraphError> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(twice) => {
            let message = format!("two nodes have the id {}: node ids must be distinct", twice[0]);
            Err(GraphError::usage(path.display().to_string(), message))
        }
    }
}

/// Copies names of nodes, a line each, as [`named`] has found them.
pub(crate) fn copy_names(from: &Path, to: &Path) -> Result<(), GraphError> {
    named(from)?.write(to)
}

impl Numbering {
    /// The node at place k has the k-th of `ids`, which must be distinct.
    pub(crate) fn of_numbers(ids: Vec<i64>) -> Result<Numbering, DuplicateId> {
        let mut sorted: Vec<(i64, u64)> = ids.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        if let Some(&[(id, first), (_, second)]) =
            sorted.windows(2).find(|pair| pair[0].0 == pair[1].0).and_then(|pair| pair.first_chunk())
        {
            return Err(DuplicateId { first, second, id });
        }
        let lookup = Lookup::new(sorted);
        Ok(Numbering::Integers(Integers { ids, lookup, said_by: names::NODE_IDS.into() }))
    }

    /// Sets the origin of the ids, for messages.
    pub(crate) fn said_by(mut self, by: impl Into<Cow<'static, str>>) -> Numbering {
        match &mut self {
            Numbering::Dense(_) | Numbering::FromOne(_) => {}
            Numbering::Integers(Integers { said_by, .. }) | Numbering::Names { said_by, .. } => {
                *said_by = by.into();
            }
        }
        self
    }

    pub(crate) fn nodes(&self) -> u64 {
        match self {
            Numbering::Dense(nodes) | Numbering::FromOne(nodes) => nodes.count,
            Numbering::Integers(integers) => integers.ids.len() as u64,
            Numbering::Names { in_order, .. } => in_order.len() as u64,
        }
    }

    /// The node of an id, which is an edge's `end`: its source or its destination.
    #[inline]
    pub(crate) fn place(&self, id: &[u8], end: &str) -> Result<u64, LineError> {
        match self {
            Numbering::Names { .. } => self.place_of_name(id, end).map_err(LineError::Line),
            _ => self.place_of_number(number(id)?, end).map_err(LineError::Line),
        }
    }

    /// The node of an integer id. The error is worded to follow file and line.
    #[inline]
    pub(crate) fn place_of_number(&self, id: i64, end: &str) -> Result<u64, String> {
        match self {
            Numbering::Dense(nodes) if nodes.has(id) => Ok(id.cast_unsigned()),
            Numbering::Dense(nodes) => Err(format!("its {end} is {id}, {nodes}")),
            Numbering::FromOne(nodes) if id > 0 && nodes.has(id - 1) => Ok(id.cast_unsigned() - 1),
            Numbering::FromOne(nodes) => {
                Err(format!("its {end} is {id}, but the matrix has the rows 1 to {}", nodes.count))
            }
            Numbering::Integers(integers) => integers.place(id).ok_or_else(|| {
                format!("its {end} is {id}, but no node has this id: {} has the ids", integers.said_by)
            }),
            Numbering::Names { said_by, .. } => {
                Err(format!("its {end} is {id}, but no node has this name: {said_by} has the names"))
            }
        }
    }

    /// The node of a name.
    #[inline]
    pub(crate) fn place_of_name(&self, id: &[u8], end: &str) -> Result<u64, String> {
        let (found, said_by) = match self {
            Numbering::Names { places, said_by, .. } => (places.get(id).copied(), &**said_by),
            _ => (None, names::NODE_IDS),
        };
        found.ok_or_else(|| {
            format!("its {end} is '{}', but no node has this name: {said_by} has the names", shown(id))
        })
    }

    /// Writes the ids of all nodes to a file in `directory`, unless they are the nodes' numbers.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), GraphError> {
        match self {
            Numbering::Dense(_) => Ok(()),
            Numbering::FromOne(nodes) => {
                let mut writer = NpyWriter::create(&directory.join(names::NODE_IDS), NpyType::I64, &[])?;
                for first in (0..nodes.count.cast_signed()).step_by(CHUNK) {
                    let last = (first + CHUNK as i64).min(nodes.count.cast_signed());
                    writer.write(&(first + 1..=last).collect::<Vec<i64>>())?;
                }
                writer.finish().map(drop)
            }
            Numbering::Integers(integers) => {
                write_array(&directory.join(names::NODE_IDS), NpyType::I64, &[], &integers.ids)
            }
            Numbering::Names { in_order, .. } => {
                let path = directory.join(names::NODE_NAMES);
                let write = || -> std::io::Result<()> {
                    let mut file = BufWriter::new(std::fs::File::create_new(&path)?);
                    for name in in_order {
                        file.write_all(name)?;
                        file.write_all(b"\n")?;
                    }
                    file.flush()
                };
                write().map_err(GraphError::io(&path, "write"))
            }
        }
    }
}

/// Rejects a name that does not fit a line of `node_names.txt`, or that is not UTF-8.
fn check_name(name: &[u8]) -> Result<(), String> {
    let problem = if name.is_empty() {
        "is empty"
    } else if std::str::from_utf8(name).is_err() {
        "is not UTF-8: convert the file, as with iconv -f LATIN1 -t UTF-8"
    } else if name.contains(&0) {
        "contains a NUL byte"
    } else if name.contains(&b'\n') || name.ends_with(b"\r") {
        "contains an end of line"
    } else if without_byte_order_mark(name).len() < name.len() {
        "begins with a byte order mark"
    } else {
        return Ok(());
    };
    Err(format!("the name '{}' {problem}", shown(name)))
}

#[inline]
fn number(id: &[u8]) -> Result<i64, LineError> {
    integer(id).ok_or_else(|| {
        let id = shown(id);
        LineError::Line(format!(
            "'{id}' is not a 64-bit integer: give `ids=name` if ids are text, or `skip_lines=1` if this is a header"
        ))
    })
}

impl Integers {
    #[inline]
    fn place(&self, id: i64) -> Option<u64> {
        match &self.lookup {
            Lookup::Table { smallest, places } => {
                let at = usize::try_from(id.checked_sub(*smallest)?).ok()?;
                places.get(at).filter(|&&place| place != u32::MAX).map(|&place| place.into())
            }
            Lookup::Sorted(sorted) => {
                sorted.binary_search_by_key(&id, |entry| entry.0).ok().map(|at| sorted[at].1)
            }
        }
    }
}

impl Lookup {
    fn new(sorted: Vec<(i64, u64)>) -> Lookup {
        let (Some(&(smallest, _)), Some(&(largest, _))) = (sorted.first(), sorted.last()) else {
            return Lookup::Sorted(sorted);
        };
        let range = largest.abs_diff(smallest);
        // A table must not take more than the pairs do.
        if range >= 4 * sorted.len() as u64 || sorted.len() >= u32::MAX as usize {
            return Lookup::Sorted(sorted);
        }
        let mut places = vec![u32::MAX; range as usize + 1];
        for (id, place) in sorted {
            places[id.abs_diff(smallest) as usize] = place as u32;
        }
        Lookup::Table { smallest, places }
    }
}

/// Collects the ids that occur.
pub(crate) struct Survey {
    ids: Ids,
    integers: Vec<i64>,
    /// When to remove duplicates next.
    next_look: usize,
    names: HashMap<Box<[u8]>, u64>,
    in_order: Vec<Box<[u8]>>,
}

impl Survey {
    pub(crate) fn new(ids: Ids) -> Survey {
        Survey {
            ids,
            integers: Vec::new(),
            next_look: COLLECTED,
            names: HashMap::new(),
            in_order: Vec::new(),
        }
    }

    pub(crate) fn see(&mut self, id: &[u8]) -> Result<(), LineError> {
        match self.ids {
            Ids::Number => self.see_number(number(id)?),
            Ids::Name => self.see_name(id).map_err(LineError::Line)?,
        }
        Ok(())
    }

    pub(crate) fn see_number(&mut self, id: i64) {
        self.integers.push(id);
        if self.integers.len() == self.next_look {
            self.compact();
        }
    }

    /// Adds a name. The error is worded to follow file and line.
    pub(crate) fn see_name(&mut self, id: &[u8]) -> Result<(), String> {
        // The common case first: most ids have been seen.
        if !self.names.contains_key(id) {
            check_name(id)?;
            if let Entry::Vacant(entry) = self.names.entry(id.into()) {
                entry.insert(self.in_order.len() as u64);
                self.in_order.push(id.into());
            }
        }
        Ok(())
    }

    /// The number of names so far.
    pub(crate) fn nodes(&self) -> u64 {
        self.in_order.len() as u64
    }

    fn compact(&mut self) {
        self.integers.sort_unstable();
        self.integers.dedup();
        self.next_look = (2 * self.integers.len()).max(COLLECTED);
    }

    pub(crate) fn finish(mut self) -> Numbering {
        match self.ids {
            Ids::Number => {
                self.compact();
                let ids = self.integers;
                let nodes = ids.len() as u64;
                let dense = |nodes| Numbering::Dense(NodeRange::new(nodes, "those that occur"));
                // Distinct and ascending: they are 0..N if and only if the ends are.
                match (ids.first(), ids.last()) {
                    (None, _) | (_, None) => dense(0),
                    (Some(0), Some(&last)) if last as u64 == nodes - 1 => dense(nodes),
                    _ => {
                        let lookup = Lookup::new(ids.iter().copied().zip(0..).collect());
                        Numbering::Integers(Integers { ids, lookup, said_by: names::NODE_IDS.into() })
                    }
                }
            }
            Ids::Name => {
                let said_by = names::NODE_NAMES.into();
                Numbering::Names { places: self.names, in_order: self.in_order, said_by }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(ids: &[i64]) -> Numbering {
        let mut survey = Survey::new(Ids::Number);
        ids.iter().for_each(|id| survey.see(id.to_string().as_bytes()).unwrap());
        survey.finish()
    }

    #[test]
    fn ids_that_are_their_numbers_need_no_table() {
        for (ids, count) in [(&[2, 0, 1, 1][..], 3), (&[], 0)] {
            let numbering = surveyed(ids);
            assert!(matches!(&numbering, Numbering::Dense(nodes) if nodes.count == count), "{ids:?}");
        }
        assert!(matches!(surveyed(&[1, 2]), Numbering::Integers(_)));
    }

    #[test]
    fn close_and_scattered_ids_are_found_and_others_are_not() {
        for ids in [vec![-3, 5, 7, 6], vec![i64::MIN, -1, 40, i64::MAX]] {
            let Numbering::Integers(integers) = surveyed(&ids) else { panic!("not dense") };
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            assert_eq!(integers.ids, sorted);
            for (place, id) in (0..).zip(sorted) {
                assert_eq!(integers.place(id), Some(place));
            }
            for id in [-2, 8, 0, 41, i64::MIN + 1] {
                assert_eq!(integers.place(id), None, "{id}");
            }
        }
    }
}
