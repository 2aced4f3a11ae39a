//! Names of node types and relations from names of a source, which may have other characters.

use std::collections::HashSet;

use serde_json::json;
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta};

use crate::typed::{GraphPlan, RelationPlan, Reversal};

/// The largest number of bytes of a name.
const MOST_BYTES: usize = 64;

/// Valid names that have been given. Equal names get `-2`, `-3` and so on.
#[derive(Debug, Default)]
pub(crate) struct TypeNames {
    taken: HashSet<String>,
}

impl TypeNames {
    /// The name for `name` of the source. `scope` is what else has to differ, such as the ends of a relation.
    pub(crate) fn name(&mut self, scope: &str, name: &str) -> String {
        let valid = valid(name);
        let mut new = valid.clone();
        let mut number = 2;
        while !self.taken.insert(format!("{scope} {new}")) {
            let suffix = format!("-{number}");
            new = shortened(&valid, MOST_BYTES - suffix.len()) + &suffix;
            number += 1;
        }
        new
    }

    /// The entry of a node type in `meta.json`; a line if it is renamed.
    pub(crate) fn node_type(&mut self, name: &str, nodes: u64, note: &dyn Fn(&str)) -> NodeTypeMeta {
        let mut entry = GraphPlan::node_type(self.name("type", name), nodes);
        if entry.name != *name {
            note(&format!("node type {name} becomes {}", entry.name));
            entry.other.insert("source_name".to_owned(), json!(name));
        }
        entry
    }

    /// The entry of a relation between node types that have their names already; a line if it is renamed.
    pub(crate) fn relation(
        &mut self,
        [source, name, destination]: [&str; 3],
        note: &dyn Fn(&str),
    ) -> RelationMeta {
        let new = self.name(&format!("{source} {destination}"), name);
        let mut meta = RelationPlan::new([source, &new, destination], Reversal::None).meta;
        if new != *name {
            note(&format!("relation {name} becomes {new}"));
            meta.other.insert("source_name".to_owned(), json!(name));
        }
        meta
    }
}

/// The name with `-` for invalid characters, without `_` and `-` at its ends.
fn valid(name: &str) -> String {
    let replaced: String =
        name.chars().map(|c| if c.is_alphanumeric() || c == '_' || c == '-' { c } else { '-' }).collect();
    let mut name = replaced.trim_matches(['_', '-']).to_owned();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    match shortened(&name, MOST_BYTES) {
        name if name.is_empty() => "other".to_owned(),
        name => name,
    }
}

/// The beginning of a name of at most `most` bytes.
fn shortened(name: &str, most: usize) -> String {
    let end = (0..=most.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    name[..end].trim_end_matches(['_', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use uva_graph::Metagraph;

    use super::*;

    #[test]
    fn every_name_is_valid_and_different() {
        let mut names = TypeNames::default();
        let given = ["user item", "user-item", "_a__b_", "a.b", "", "é".repeat(50).as_str(), "##", "a_b"]
            .map(|name| names.name("", name));
        assert_eq!(given[..5], ["user-item", "user-item-2", "a_b", "a-b", "other"]);
        assert_eq!((given[5].len(), &*given[6], &*given[7]), (64, "other-2", "a_b-2"));
        Metagraph::new(given.clone(), [[&given[0], &given[1], &given[2]]]).unwrap();
        assert_eq!(names.name("other ends", "a.b"), "a-b");
    }
}
