//! `partition.json` as text: every key is parsed into its type, in a few times the file's size of memory.
//!
//! An untyped value takes 72 bytes for as few as two bytes of text, so unknown keys are limited in number and size.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::partition::checks::{MOST_PARTS, Wrong, wrong};
use crate::partition::parts::{
    CLOSURE, ClosureSummary, RANGES, RangesSummary, WrittenGraph, WrittenPart, WrittenParts, WrittenRange,
};

/// Maximum number of timed stages.
const MOST_STAGES: usize = 64;

/// Maximum number of values of all unknown keys together.
const MOST_OTHER_VALUES: usize = 1 << 16;

/// The keys that have a type.
const TYPED: [&str; 16] = [
    "format",
    "dataset",
    "parts",
    "method",
    "seed",
    "hops",
    "nodes",
    "train",
    "blocks",
    "edge_cut",
    "seconds",
    "layout",
    "split_eval",
    "boundaries",
    "graph",
    "written",
];

/// The typed keys, as in the file.
#[derive(Deserialize)]
pub(crate) struct Text {
    pub(crate) format: u32,
    pub(crate) dataset: SourceText,
    pub(crate) parts: u32,
    pub(crate) method: String,
    pub(crate) seed: u64,
    pub(crate) hops: u32,
    #[serde(deserialize_with = "of_parts")]
    pub(crate) nodes: Vec<u64>,
    #[serde(deserialize_with = "of_parts")]
    pub(crate) train: Vec<u64>,
    pub(crate) blocks: Option<[u64; 2]>,
    pub(crate) edge_cut: u64,
    #[serde(deserialize_with = "of_stages")]
    pub(crate) seconds: BTreeMap<String, f64>,
    layout: Option<String>,
    split_eval: Option<bool>,
    boundaries: Option<Entries<u64>>,
    graph: Option<WrittenGraph>,
    written: Option<Entries<PartText>>,
}

#[derive(Deserialize)]
pub(crate) struct SourceText {
    pub(crate) name: String,
    pub(crate) fingerprint: String,
}

/// An entry of `written`, in either layout.
#[derive(Deserialize)]
struct PartText {
    dir: String,
    nodes: Option<u64>,
    rows: Option<u64>,
    halo: Option<u64>,
    edges: u64,
    train: u64,
    valid: u64,
    test: u64,
    bytes: Option<u64>,
    fingerprint: Option<String>,
    hash: Option<String>,
}

impl Text {
    /// Separates the written parts from the other keys.
    pub(crate) fn into_parts(mut self) -> Result<(Text, Option<WrittenParts>), Wrong> {
        let (boundaries, graph, written) = (self.boundaries.take(), self.graph.take(), self.written.take());
        let parts = match self.layout.take().as_deref() {
            None => {
                let left = [
                    ("boundaries", boundaries.is_some()),
                    ("graph", graph.is_some()),
                    ("written", written.is_some()),
                ];
                if let Some((key, _)) = left.into_iter().find(|(_, is_there)| *is_there) {
                    return Err(wrong("layout", format!("is missing, and \"{key}\" is there")));
                }
                None
            }
            Some(CLOSURE) => {
                let written = there("written", written)?.0.into_iter().enumerate();
                Some(WrittenParts::Closure(ClosureSummary {
                    layout: CLOSURE.to_owned(),
                    split_eval: self.split_eval.unwrap_or(false),
                    written: written.map(|(part, text)| text.into_part(part)).collect::<Result<_, _>>()?,
                }))
            }
            Some(RANGES) => {
                let written = there("written", written)?.0.into_iter().enumerate();
                Some(WrittenParts::Ranges(RangesSummary {
                    layout: RANGES.to_owned(),
                    boundaries: there("boundaries", boundaries)?.0,
                    graph: there("graph", graph)?,
                    written: written.map(|(part, text)| text.into_range(part)).collect::<Result<_, _>>()?,
                }))
            }
            Some(other) => {
                let other = uva_files::quote::shown(other);
                return Err(wrong("layout", format!("is {other}, not {CLOSURE} or {RANGES}")));
            }
        };
        Ok((self, parts))
    }
}

fn there<T>(key: &'static str, value: Option<T>) -> Result<T, Wrong> {
    value.ok_or_else(|| wrong(key, "is missing".to_owned()))
}

impl PartText {
    fn into_part(self, part: usize) -> Result<WrittenPart, Wrong> {
        let of = |key, value: Option<u64>| value.ok_or_else(|| missing(part, key));
        Ok(WrittenPart {
            dir: self.dir,
            nodes: of("nodes", self.nodes)?,
            halo: of("halo", self.halo)?,
            edges: self.edges,
            train: self.train,
            valid: self.valid,
            test: self.test,
            bytes: 0,
        })
    }

    fn into_range(self, part: usize) -> Result<WrittenRange, Wrong> {
        Ok(WrittenRange {
            dir: self.dir,
            rows: self.rows.ok_or_else(|| missing(part, "rows"))?,
            edges: self.edges,
            train: self.train,
            valid: self.valid,
            test: self.test,
            bytes: self.bytes.ok_or_else(|| missing(part, "bytes"))?,
            fingerprint: self.fingerprint.ok_or_else(|| missing(part, "fingerprint"))?,
            hash: self.hash.ok_or_else(|| missing(part, "hash"))?,
        })
    }
}

fn missing(part: usize, key: &str) -> Wrong {
    wrong("written", format!("has no \"{key}\" of part {part}"))
}

/// The keys that have no type.
///
/// # Errors
/// If they have more than [`MOST_OTHER_VALUES`] values.
pub(crate) fn others(text: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    struct Others;

    impl<'de> Visitor<'de> for Others {
        type Value = Map<String, Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<Self::Value, A::Error> {
            let (mut left, mut found) = (MOST_OTHER_VALUES, Map::new());
            while let Some(key) = keys.next_key::<String>()? {
                if TYPED.contains(&key.as_str()) {
                    keys.next_value::<IgnoredAny>()?;
                } else {
                    let value = keys.next_value_seed(Few(&mut left))?;
                    found.insert(key, value);
                }
            }
            Ok(found)
        }
    }

    serde_json::Deserializer::from_slice(text).deserialize_map(Others)
}

/// A value of any type that consumes at most the remaining number of values.
struct Few<'a>(&'a mut usize);

impl Few<'_> {
    fn take<E: Error>(&mut self) -> Result<(), E> {
        let more = self.0.checked_sub(1).ok_or_else(|| {
            E::custom(format_args!(
                "keys that this version does not know have more than {MOST_OTHER_VALUES} values"
            ))
        })?;
        *self.0 = more;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Few<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<Value, D::Error> {
        self.take()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Few<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut found = Vec::new();
        while let Some(value) = entries.next_element_seed(Few(&mut *self.0))? {
            found.push(value);
        }
        Ok(Value::Array(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<Value, A::Error> {
        let mut found = Map::new();
        while let Some(key) = keys.next_key::<String>()? {
            let value = keys.next_value_seed(Few(&mut *self.0))?;
            found.insert(key, value);
        }
        Ok(Value::Object(found))
    }
}

/// Reads an array with one entry per part, and at most one more.
fn of_parts<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct OfParts<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for OfParts<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let most = MOST_PARTS as usize + 1;
            let mut found = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if found.len() == most {
                    return Err(A::Error::custom(format_args!(
                        "more than {most} entries, and there are at most {MOST_PARTS} parts"
                    )));
                }
                found.push(entry);
            }
            Ok(found)
        }
    }

    deserializer.deserialize_seq(OfParts(PhantomData))
}

/// An optional array of [`of_parts`].
struct Entries<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        of_parts(deserializer).map(Self)
    }
}

/// Reads seconds by stage.
fn of_stages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    struct Stages;

    impl<'de> Visitor<'de> for Stages {
        type Value = BTreeMap<String, f64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<Self::Value, A::Error> {
            let mut found = BTreeMap::new();
            while let Some((stage, seconds)) = keys.next_entry()? {
                if found.len() == MOST_STAGES {
                    return Err(A::Error::custom(format_args!(
                        "\"seconds\" has more than {MOST_STAGES} stages"
                    )));
                }
                found.insert(stage, seconds);
            }
            Ok(found)
        }
    }

    deserializer.deserialize_map(Stages)
}
