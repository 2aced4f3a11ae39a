//! Fanouts as users give them: by the names of relations or node types.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use uva_graph::{Metagraph, Relation};
use uva_options::OptionValue;

use super::fanouts::Fanouts;
use super::sampling::FanoutPer;
use crate::InvalidOption;

/// The name of the list for all relations without a list of their own.
const DEFAULT: &str = "*";

/// Fanouts by name: a default list, lists of single relations, or, with [`FanoutPer::Node`], of node types. The
/// [metagraph](Self::in_graph) of a dataset turns them into [`Fanouts`].
///
/// Its text is `15,10,5;author__writes__paper=5,5,2;cites=0,0,0`; its JSON an array of numbers, or, with names, an object
/// of such arrays with the key `*` for the default. Lists are ordered by name, so that equal fanouts have equal text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FanoutSpec {
    default: Option<Vec<i32>>,
    named: BTreeMap<String, Vec<i32>>,
}

impl FanoutSpec {
    /// The number of hops.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.lists().next().map_or(0, Vec::len)
    }

    /// The first hop in which a list takes all neighbours. Batches then have no bound without the graph.
    #[must_use]
    pub fn hop_of_all(&self) -> Option<usize> {
        (0..self.hops()).find(|&hop| self.lists().any(|list| list.get(hop) == Some(&Fanouts::ALL)))
    }

    /// Whether every hop takes whole lists, so that nothing is drawn.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.lists().flatten().all(|&fanout| fanout == Fanouts::ALL)
    }

    /// Whether relations or node types are named.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    fn lists(&self) -> impl Iterator<Item = &Vec<i32>> {
        self.default.iter().chain(self.named.values())
    }

    /// The fanouts for a homogeneous graph. [Checks](crate::SamplerOptions::check) refuse them if there are names, which
    /// [`in_graph`](Self::in_graph) has to find.
    #[must_use]
    pub fn of_one_relation(&self) -> Fanouts {
        match &self.default {
            Some(default) if self.named.is_empty() => default.clone().into(),
            // More relations than a homogeneous graph has.
            _ => Fanouts::of_relations(&self.lists().chain(self.lists()).cloned().collect::<Vec<_>>()),
        }
    }

    /// The fanouts of each relation of a graph. Names are those of relations (a full one, or a bare one that is unique),
    /// or, per node, of node types, whose fanouts all relations that lead into them have.
    ///
    /// # Errors
    /// [`InvalidOption`] with the name that the graph does not have, that several relations have, or that occurs twice;
    /// with the relation or type that has no list, or one of another length; with the hop in which nothing is picked.
    pub fn in_graph(&self, metagraph: &Metagraph, per: FanoutPer) -> Result<Fanouts, InvalidOption> {
        if self.named.is_empty() {
            let fanouts = Fanouts::from(self.default.clone().unwrap_or_default());
            fanouts.check()?;
            return Ok(fanouts);
        }
        if metagraph.type_count() == 1 && metagraph.relation_count() <= 1 {
            return Err(InvalidOption::FanoutNames);
        }
        // One entry for each relation, or for each node type.
        let names: Vec<&str> = match per {
            FanoutPer::Relation => metagraph.relations().map(|of| metagraph.full_name(of)).collect(),
            FanoutPer::Node => metagraph.types().map(|of| metagraph.type_name(of)).collect(),
        };
        let entry = |relation: Relation| match per {
            FanoutPer::Relation => relation.index(),
            FanoutPer::Node => metagraph.destination(relation).index(),
        };
        let mut lists: Vec<Option<&Vec<i32>>> = vec![None; names.len()];
        for (name, list) in &self.named {
            let found = match per {
                FanoutPer::Relation => metagraph.find_relation(name).map(Relation::index),
                FanoutPer::Node => metagraph.find_type(name).map(|found| found.index()),
            };
            let found = found.map_err(|reason| InvalidOption::FanoutName { reason })?;
            if lists[found].replace(list).is_some() {
                return Err(InvalidOption::FanoutTwice { name: names[found].to_owned() });
            }
        }
        let hops = self.hops();
        let of_relations = metagraph.relations().map(|relation| {
            let at = entry(relation);
            let name = || names[at].to_owned();
            let list = lists[at].or(self.default.as_ref());
            let list = list.ok_or_else(|| InvalidOption::FanoutMissing { name: name() })?;
            if list.len() != hops {
                return Err(InvalidOption::FanoutHops { name: name(), given: list.len(), hops });
            }
            Ok(list.clone())
        });
        let fanouts = Fanouts::of_relations(&of_relations.collect::<Result<Vec<_>, _>>()?);
        fanouts.check()?;
        Ok(fanouts)
    }
}

impl<T: Into<Fanouts>> From<T> for FanoutSpec {
    fn from(fanouts: T) -> Self {
        let fanouts: Fanouts = fanouts.into();
        Self { default: Some(fanouts.of_relation(Relation::ONLY).collect()), named: BTreeMap::new() }
    }
}

impl Serialize for FanoutSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FanoutSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::of_json(&value).ok_or_else(|| D::Error::custom(format!("{value}: expected fanouts")))
    }
}

impl fmt::Display for FanoutSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl OptionValue for FanoutSpec {
    fn of_text(text: &str) -> Option<Self> {
        let mut spec = Self::default();
        for item in text.split(';') {
            let (name, list) = item.split_once('=').unwrap_or((DEFAULT, item));
            let list = Vec::of_text(list)?;
            let before = match name.trim() {
                DEFAULT => spec.default.replace(list),
                name => spec.named.insert(name.to_owned(), list),
            };
            if before.is_some() {
                return None;
            }
        }
        Some(spec)
    }

    fn text(&self) -> String {
        let default = self.default.iter().map(OptionValue::text);
        let named = self.named.iter().map(|(name, list)| format!("{name}={}", list.text()));
        default.chain(named).collect::<Vec<_>>().join(";")
    }

    fn json(&self) -> Value {
        match &self.default {
            Some(default) if self.named.is_empty() => default.json(),
            _ => {
                let default = self.default.iter().map(|list| (DEFAULT.to_owned(), list.json()));
                let named = self.named.iter().map(|(name, list)| (name.clone(), list.json()));
                default.chain(named).collect::<Map<String, Value>>().into()
            }
        }
    }

    fn of_json(value: &Value) -> Option<Self> {
        let Value::Object(lists) = value else { return Some(Self::from(Vec::of_json(value)?)) };
        let mut spec = Self::default();
        for (name, list) in lists {
            let list = Vec::of_json(list)?;
            if name == DEFAULT {
                spec.default = Some(list);
            } else {
                spec.named.insert(name.clone(), list);
            }
        }
        Some(spec)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn library() -> Metagraph {
        let relations = [
            ["paper", "cites", "paper"],
            ["author", "writes", "paper"],
            ["paper", "rev", "author"],
            ["paper", "rev", "topic"],
        ];
        Metagraph::new(["paper", "author", "topic"], relations).unwrap()
    }

    fn of(text: &str) -> FanoutSpec {
        FanoutSpec::of_text(text).unwrap()
    }

    fn lists(text: &str, per: FanoutPer) -> Vec<Vec<i32>> {
        let fanouts = of(text).in_graph(&library(), per).unwrap();
        library().relations().map(|relation| fanouts.of_relation(relation).collect()).collect()
    }

    fn refusal(text: &str, per: FanoutPer) -> String {
        of(text).in_graph(&library(), per).unwrap_err().to_string()
    }

    #[test]
    fn relations_have_their_own_list_or_the_default() {
        let expected = [[15, 10], [5, -1], [0, 2], [15, 10]].map(Vec::from);
        let text = "author__writes__paper=5,-1;15,10;paper:rev:author=0,2";
        assert_eq!(lists(text, FanoutPer::Relation), expected);
        assert_eq!(lists("writes=5,-1;*=15,10;paper__rev__author=0,2", FanoutPer::Relation), expected);
        assert_eq!(lists("3,2", FanoutPer::Relation), vec![vec![3, 2]; 4]);
    }

    #[test]
    fn per_node_the_names_are_those_of_types() {
        let expected = [[3, 2], [3, 2], [2, 1], [3, 2]].map(Vec::from);
        assert_eq!(lists("3,2;author=2,1", FanoutPer::Node), expected);
        let refused = refusal("3,2;writes=2,1", FanoutPer::Node);
        assert!(refused.contains("`fanouts`: there is no node type \"writes\""), "{refused}");
    }

    #[test]
    fn names_that_do_not_fit_the_graph_are_refused() {
        for (text, says) in [
            ("1;writs=1", "`fanouts`: there is no relation \"writs\", did you mean \"writes\"?"),
            ("1;rev=1", "`fanouts`: \"rev\" is ambiguous: paper__rev__author, paper__rev__topic"),
            ("1;writes=1;author__writes__paper=2", "author__writes__paper has two lists"),
            ("writes=1,2", "paper__cites__paper has no list, and there is no default (`*`)"),
            ("1,2,3;cites=1,2", "paper__cites__paper has 2 hops, the others 3"),
            ("0,2;writes=0,1", "in hop 0 every relation has a fanout of 0"),
            ("1;writes=-2", "hop 0"),
        ] {
            let refused = refusal(text, FanoutPer::Relation);
            assert!(refused.contains(says), "{text}: {refused}");
        }
        let homogeneous = of("2;to=1").in_graph(&Metagraph::homogeneous(), FanoutPer::Relation);
        assert_eq!(homogeneous, Err(InvalidOption::FanoutNames));
        // Options that are not resolved are not sampled by.
        let unresolved = of("2;to=1").of_one_relation();
        assert!(unresolved.check_relations(1).is_err());
        assert_eq!(of("4,2").of_one_relation(), [4, 2].into());
    }

    #[test]
    fn text_and_json_give_the_same_fanouts_in_any_order() {
        let spec = of("writes=5,5;cites=0,1;*=3,3");
        assert_eq!(spec, of("3,3;cites=0,1;writes=5,5"));
        assert_eq!(spec.text(), "3,3;cites=0,1;writes=5,5");
        assert_eq!(spec.json(), json!({"*": [3, 3], "cites": [0, 1], "writes": [5, 5]}));
        for spec in [spec, of("15,-1"), of("a=1;b=2")] {
            assert_eq!(FanoutSpec::of_json(&spec.json()), Some(spec.clone()));
            assert_eq!(FanoutSpec::of_text(&spec.text()), Some(spec));
        }
        assert_eq!(of("15,10").json(), json!([15, 10]));
        for text in ["1;2", "a=1;a=1", "a=1;b", "1;*=2"] {
            assert_eq!(FanoutSpec::of_text(text), None, "{text}");
        }
        assert_eq!((of("1,2;a=-1,3").hop_of_all(), of("2,-1").hop_of_all()), (Some(0), Some(1)));
        assert!(of("-1;a=-1").takes_all() && !of("-1;a=2").takes_all());
    }
}
