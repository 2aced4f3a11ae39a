//! Names of nodes in a dataset's source.

use std::ops::Range;
use std::path::Path;

use uva_graph::npy::NpyArray;
use uva_graph::{Dataset, names, node_file};
use uva_mem::MappedFile;
use uva_mem::files::without_byte_order_mark;

use crate::exit;

/// The names of all nodes, by id.
pub(super) enum SourceNames {
    /// node_id.npy.
    Numbers(Vec<i64>),
    /// node_names.txt.
    Texts(NodeNames),
}

impl SourceNames {
    /// The names that a dataset stores; `None` if it stores none.
    ///
    /// # Errors
    /// Bad input: a file that cannot be read, or whose number of names is not the number of nodes.
    pub(super) fn of(dataset: &Dataset) -> anyhow::Result<Option<Self>> {
        let (numbers, texts) = (dataset.path().join(names::NODE_IDS), dataset.path().join(names::NODE_NAMES));
        let (found, entries, file) = if numbers.exists() {
            let ids = node_file::integers(&NpyArray::open(&numbers)?)?;
            let entries = ids.len();
            (Self::Numbers(ids), entries, numbers)
        } else if texts.exists() {
            let names = NodeNames::open(&texts)?;
            let entries = names.len();
            (Self::Texts(names), entries, texts)
        } else {
            return Ok(None);
        };
        if entries != dataset.nodes_of(dataset.seed_type()) {
            let problem = format!(
                "{}: {entries} ids for {} nodes",
                file.display(),
                dataset.nodes_of(dataset.seed_type())
            );
            return Err(exit::usage(problem).into());
        }
        Ok(Some(found))
    }
}

/// The lines of a mapped text file. A node uses 8 bytes of memory, however long its name is.
pub(super) struct NodeNames {
    file: MappedFile,
    /// Where each line starts, and the end of the text.
    starts: Vec<usize>,
}

impl NodeNames {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let refuse = |problem: String| exit::usage(format!("{}: {problem}", path.display()));
        let file = MappedFile::open(path).map_err(|error| refuse(error.to_string()))?;
        let text = without_byte_order_mark(file.bytes());
        std::str::from_utf8(text).map_err(|error| {
            refuse(format!(
                "its byte {} is not UTF-8 text",
                file.bytes().len() - text.len() + error.valid_up_to()
            ))
        })?;
        let mut starts = vec![file.bytes().len() - text.len()];
        starts
            .extend((starts[0]..file.bytes().len()).filter(|&at| file.bytes()[at] == b'\n').map(|at| at + 1));
        if starts.last() != Some(&file.bytes().len()) {
            starts.push(file.bytes().len());
        }
        Ok(Self { file, starts })
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The name of a node, without its line end. If the file is changed while it is mapped, names may not be valid
    /// text; these are returned as empty.
    pub(super) fn name(&self, node: usize) -> &str {
        let Range { start, end } = self.starts[node]..self.starts[node + 1];
        let line = std::str::from_utf8(&self.file.bytes()[start..end]).unwrap_or_default();
        let line = line.strip_suffix('\n').unwrap_or(line);
        line.strip_suffix('\r').unwrap_or(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_standard_library() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("names");
        for text in ["", "a", "a\n", "a\n\n", "\n", "Zoë\r\nb,c\n\"d\"\r\n e", "\u{feff}a\nb\n"] {
            std::fs::write(&path, text).unwrap();
            let names = NodeNames::open(&path).unwrap();
            let found: Vec<&str> = (0..names.len()).map(|node| names.name(node)).collect();
            assert_eq!(found, text.trim_start_matches('\u{feff}').lines().collect::<Vec<_>>(), "{text:?}");
        }
        std::fs::write(&path, b"a\n\xff\n").unwrap();
        let refused = NodeNames::open(&path).err().unwrap().to_string();
        assert!(refused.contains("byte 2"), "{refused}");
    }
}
