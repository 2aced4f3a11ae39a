//! An option: its name, help, values, and what depends on it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use crate::named::Named;
use crate::real::Real;
use crate::size::ByteSize;
use crate::whole_number::{WholeRange, whole};

/// A property that depends on an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionPurpose {
    /// The nodes and edges of a batch. A saved state of the loader, and a checkpoint, must have the same value.
    Identity,
    /// The computations on the batches. A checkpoint must have the same value.
    Training,
    /// The number of reads of each list and row. A cache plan is valid for one value.
    Plan,
    /// The bytes of a batch, or its arrays.
    Layout,
    /// The speed of the batches, but not their content.
    Speed,
}

impl OptionPurpose {
    /// The name in the documentation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "batches",
            Self::Training => "training",
            Self::Plan => "plan",
            Self::Layout => "layout",
            Self::Speed => "speed",
        }
    }
}

/// The name of the fanouts of all relations that are not named.
const ALL_RELATIONS: &str = "*";

/// One of the names that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The name.
    pub name: &'static str,
    /// The meaning of the name.
    pub help: &'static str,
}

impl Choice {
    /// The names of `T`.
    #[must_use]
    pub fn all<T: Named>() -> Vec<Self> {
        T::all().into_iter().map(|value| Self { name: value.name(), help: value.help() }).collect()
    }
}

/// The values that an option accepts.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// A switch, on if given.
    Switch,
    /// A whole number.
    Whole(WholeRange),
    /// A real number.
    Real(Real),
    /// Bytes, with a unit or without.
    Size,
    /// Whole numbers from 1, or -1, separated by commas: one per hop.
    Fanouts {
        /// The maximum number of hops.
        hops: usize,
        /// The largest number.
        most: i32,
    },
    /// One of these names.
    Choice(fn() -> Vec<Choice>),
    /// A file or a folder.
    Path,
    /// Text that the value's type parses.
    Text {
        /// Reads a value, and returns it as [`OptionValue::of_text`](super::OptionValue::of_text) reads it.
        read: fn(&str) -> Result<String, String>,
        /// The accepted values, for the documentation.
        range: &'static str,
    },
    /// Not an option: the program sets it.
    Internal,
}

/// An option, and those of its values that enable another option.
pub type OnlyWith = (&'static str, fn() -> Vec<&'static str>);

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name, with underscores, as in Python. The command line uses dashes.
    pub name: &'static str,
    /// The name of the struct's field.
    pub field: &'static str,
    doc: &'static str,
    /// The placeholder of the value in help: `NODES`. Empty for a switch.
    pub value: &'static str,
    /// The accepted values.
    pub kind: ValueKind,
    /// The section of help that lists it.
    pub group: &'static str,
    /// The properties that depend on the option.
    pub purposes: &'static [OptionPurpose],
    /// A description of the default, if it is not constant.
    pub unless_given: Option<&'static str>,
    /// Computes the default; without this the struct's default applies.
    pub computed: Option<fn() -> String>,
    /// The option that must have one of these values for this one to take effect.
    pub only_with: Option<OnlyWith>,
    /// The option that has to be given with this one.
    pub needs: Option<&'static str>,
    /// The options that cannot be given with this one.
    pub excludes: &'static [&'static str],
    /// The value of an option that is given without a value.
    pub bare: Option<&'static str>,
    /// Line of the option in short help; `None`: only the full help lists the option.
    pub brief: Option<&'static str>,
    /// Whether every checkpoint contains the option. Others are stored only if they differ from the default, so that
    /// options may be added.
    pub in_every_checkpoint: bool,
}

impl Field {
    /// A field that is not an option.
    #[must_use]
    pub const fn internal() -> Self {
        Self {
            name: "",
            field: "",
            doc: "",
            value: "",
            kind: ValueKind::Internal,
            group: "",
            purposes: &[],
            unless_given: None,
            computed: None,
            only_with: None,
            needs: None,
            excludes: &[],
            bare: None,
            brief: None,
            in_every_checkpoint: false,
        }
    }

    /// A switch.
    #[must_use]
    pub const fn switch() -> Self {
        Self { kind: ValueKind::Switch, ..Self::internal() }
    }

    /// A whole number of 32 bits, `least` or more.
    #[must_use]
    pub const fn at_least(value: &'static str, least: u64) -> Self {
        let bounds = WholeRange { least, most: None, type_most: u32::MAX as u64 };
        Self { value, kind: ValueKind::Whole(bounds), ..Self::internal() }
    }

    /// A whole number from `least` to `most`.
    #[must_use]
    pub const fn within(value: &'static str, least: u64, most: u64) -> Self {
        let bounds = WholeRange { least, most: Some(most), type_most: most };
        Self { value, kind: ValueKind::Whole(bounds), ..Self::internal() }
    }

    /// A whole number of 64 bits, `least` or more.
    #[must_use]
    pub const fn from(value: &'static str, least: u64) -> Self {
        let bounds = WholeRange { least, most: None, type_most: u64::MAX };
        Self { value, kind: ValueKind::Whole(bounds), ..Self::internal() }
    }

    /// Bytes.
    #[must_use]
    pub const fn size() -> Self {
        Self { value: "SIZE", kind: ValueKind::Size, ..Self::internal() }
    }

    /// Fanouts of at most `hops` hops, each at most `most`.
    #[must_use]
    pub const fn fanouts(hops: usize, most: i32) -> Self {
        Self { value: "F,F,…", kind: ValueKind::Fanouts { hops, most }, ..Self::internal() }
    }

    /// A real number.
    #[must_use]
    pub const fn real(value: &'static str, bounds: Real) -> Self {
        Self { value, kind: ValueKind::Real(bounds), ..Self::internal() }
    }

    /// One of the names of `T`.
    #[must_use]
    pub const fn choice<T: Named>(value: &'static str) -> Self {
        Self::one_of(value, Choice::all::<T>)
    }

    /// One of these names.
    #[must_use]
    pub const fn one_of(value: &'static str, choices: fn() -> Vec<Choice>) -> Self {
        Self { value, kind: ValueKind::Choice(choices), ..Self::internal() }
    }

    /// A file or a folder.
    #[must_use]
    pub const fn path(value: &'static str) -> Self {
        Self { value, kind: ValueKind::Path, ..Self::internal() }
    }

    /// Text that `T` parses, and writes as its option value.
    #[must_use]
    pub const fn text<T: FromStr<Err: Display> + super::OptionValue>(
        value: &'static str,
        range: &'static str,
    ) -> Self {
        Self { value, kind: ValueKind::Text { read: read_as::<T>, range }, ..Self::internal() }
    }

    /// Sets a name that differs from the struct's field.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Sets the section of help, and the properties that depend on the option.
    #[must_use]
    pub const fn of(self, group: &'static str, purposes: &'static [OptionPurpose]) -> Self {
        Self { group, purposes, ..self }
    }

    /// Sets the description of a default that is not constant.
    #[must_use]
    pub const fn unless_given(self, said: &'static str) -> Self {
        Self { unless_given: Some(said), ..self }
    }

    /// Sets a default that is computed on the current machine, and its description.
    #[must_use]
    pub const fn computed(self, said: &'static str, computed: fn() -> String) -> Self {
        Self { unless_given: Some(said), computed: Some(computed), ..self }
    }

    /// Limits the effect to runs in which option `name` has one of these values.
    #[must_use]
    pub const fn only_with(self, name: &'static str, values: fn() -> Vec<&'static str>) -> Self {
        Self { only_with: Some((name, values)), ..self }
    }

    /// Requires option `name` as well.
    #[must_use]
    pub const fn needs(self, name: &'static str) -> Self {
        Self { needs: Some(name), ..self }
    }

    /// Excludes these options.
    #[must_use]
    pub const fn excludes(self, names: &'static [&'static str]) -> Self {
        Self { excludes: names, ..self }
    }

    /// Allows the option without a value, which then means this one. A value follows after `=`.
    #[must_use]
    pub const fn bare(self, value: &'static str) -> Self {
        Self { bare: Some(value), ..self }
    }

    /// Lists the option in short help, with this line.
    #[must_use]
    pub const fn brief(self, line: &'static str) -> Self {
        Self { brief: Some(line), ..self }
    }

    /// Stores the option in every checkpoint.
    #[must_use]
    pub const fn in_every_checkpoint(self) -> Self {
        Self { in_every_checkpoint: true, ..self }
    }

    /// Adds the name and documentation of the struct's field.
    #[must_use]
    pub const fn declared(self, field: &'static str, doc: &'static str) -> Self {
        let name = if self.name.is_empty() { field } else { self.name };
        Self { name, field, doc, ..self }
    }

    /// Whether this is an option, and not a field that the program sets.
    #[must_use]
    pub fn is_option(&self) -> bool {
        !matches!(self.kind, ValueKind::Internal)
    }

    /// The name on the command line and in a file: `batch-size`.
    #[must_use]
    pub fn long(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The help text, without the default.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.doc.trim().trim_end_matches('.')
    }

    /// The help text, with a default that is not constant.
    #[must_use]
    pub fn help(&self) -> String {
        match self.unless_given {
            Some(said) => format!("{} [default: {said}]", self.about()),
            None => self.about().to_owned(),
        }
    }

    /// The accepted values, for the documentation.
    #[must_use]
    pub fn range(&self) -> String {
        match self.kind {
            ValueKind::Switch | ValueKind::Internal => String::new(),
            ValueKind::Path => "a path".to_owned(),
            ValueKind::Real(bounds) => bounds.range().to_owned(),
            ValueKind::Text { range, .. } => range.to_owned(),
            ValueKind::Whole(WholeRange { least, most: Some(most), .. }) => format!("{least} to {most}"),
            ValueKind::Whole(WholeRange { least, .. }) => format!("{least} or more"),
            ValueKind::Size => "512MiB, 6GiB, 1.5GB".to_owned(),
            ValueKind::Fanouts { hops, most } => format!("1 to {most}, or -1 for all; 1 to {hops} hops"),
            ValueKind::Choice(choices) => {
                choices().iter().map(|choice| format!("`{}`", choice.name)).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Reads a value in the notation of users. Returns it in the form that
    /// [`OptionValue::of_text`](super::OptionValue::of_text) reads.
    ///
    /// # Errors
    /// The reason for a refusal. The message does not name the option.
    pub fn read(&self, text: &str) -> Result<String, String> {
        match self.kind {
            ValueKind::Switch => match text {
                "true" | "false" => Ok(text.to_owned()),
                _ => Err(format!("'{text}' is neither true nor false")),
            },
            ValueKind::Whole(bounds) => whole(text, bounds).map(|number| number.to_string()),
            ValueKind::Real(bounds) => bounds.read(text).map(|number| number.to_string()),
            ValueKind::Path if text.is_empty() => Err("the path is empty".to_owned()),
            ValueKind::Path => Ok(text.to_owned()),
            ValueKind::Text { read, .. } => read(text),
            ValueKind::Size => text
                .parse::<ByteSize>()
                .map(|size| size.bytes().to_string())
                .map_err(|error| error.to_string()),
            ValueKind::Fanouts { hops, most } => fanouts(text, hops, most),
            ValueKind::Choice(choices) => {
                let choices = choices();
                match choices.iter().find(|choice| choice.name == text) {
                    Some(choice) => Ok(choice.name.to_owned()),
                    None => {
                        let names: Vec<_> = choices.iter().map(|choice| choice.name).collect();
                        Err(format!("'{text}' is not one of {}", names.join(", ")))
                    }
                }
            }
            ValueKind::Internal => Err("not an option: the program sets this value".to_owned()),
        }
    }
}

fn read_as<T: FromStr<Err: Display> + super::OptionValue>(text: &str) -> Result<String, String> {
    text.parse::<T>().map(|value| value.text()).map_err(|error| error.to_string())
}

/// The fanouts of all relations, or lists by the names of relations: `15,10;writes=5,5`.
fn fanouts(text: &str, hops: usize, most: i32) -> Result<String, String> {
    let names_relations = text.contains(['=', ';']);
    let (mut default, mut named) = (None, BTreeMap::new());
    for item in text.split(';') {
        let (name, list) =
            item.split_once('=').map_or((ALL_RELATIONS, item), |(name, list)| (name.trim(), list));
        let list = fanout_list(list, hops, most, if names_relations { 0 } else { 1 })
            .map_err(|reason| if names_relations { format!("{name}: {reason}") } else { reason })?;
        let before = match name {
            ALL_RELATIONS => default.replace(list),
            "" => return Err(format!("'{item}' has no name before '='")),
            name => named.insert(name, list),
        };
        match before {
            Some(_) if name == ALL_RELATIONS => {
                return Err(
                    "two lists without a name, or with `*`: expected one for all other relations".to_owned()
                );
            }
            Some(_) => return Err(format!("{name} has two lists")),
            None => {}
        }
    }
    let named = named.into_iter().map(|(name, list)| format!("{name}={list}"));
    Ok(default.into_iter().chain(named).collect::<Vec<_>>().join(";"))
}

/// One list, with fanouts of at least `least`, or −1.
fn fanout_list(text: &str, hops: usize, most: i32, least: i32) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("no fanout given: expected one number per hop, such as 15,10,5".to_owned());
    }
    if text.contains(['[', '(', ' '])
        && let Some(list) = as_list(text)
    {
        return Err(format!("invalid value '{text}': expected numbers separated by commas only: {list}"));
    }
    let mut fanouts = Vec::new();
    for (hop, entry) in text.split(',').map(str::trim).enumerate() {
        match entry.parse::<i32>() {
            Ok(fanout) if fanout == -1 || (least..=most).contains(&fanout) => {
                fanouts.push(fanout.to_string())
            }
            Err(_) if entry.is_empty() => {
                return Err(format!("hop {hop} is empty: expected one number per hop, such as 15,10,5"));
            }
            _ => {
                return Err(format!(
                    "hop {hop}: invalid value '{entry}': expected -1 (all neighbours) or {least} to {most}"
                ));
            }
        }
    }
    if fanouts.len() > hops {
        return Err(format!("{} hops given: expected at most {hops}", fanouts.len()));
    }
    Ok(fanouts.join(","))
}

/// `10,5` for `[10, 5]` and `10 5`; `None` if it has other words, or already has this form.
fn as_list(text: &str) -> Option<String> {
    let bare = text.trim().trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
    let words: Vec<&str> = bare.split([',', ' ']).filter(|word| !word.is_empty()).collect();
    let is_list = text.split(',').map(str::trim).eq(words.iter().copied());
    (!is_list && words.iter().all(|word| word.parse::<i32>().is_ok())).then(|| words.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fanouts(text: &str) -> Result<String, String> {
        Field::fanouts(32, 1000).read(text)
    }

    #[test]
    fn both_ends_of_a_range_belong_to_it_as_its_text_says() {
        let field = Field::within("N", 1, 64);
        assert_eq!((field.read("1"), field.read("64")), (Ok("1".to_owned()), Ok("64".to_owned())));
        for text in ["0", "65", "-3"] {
            assert_eq!(field.read(text), Err(format!("{text} is not from 1 to 64")));
        }
        assert_eq!(field.read("6x"), Err("'6x' is not a whole number".to_owned()));
    }

    #[test]
    fn a_range_without_an_end_ends_with_its_type() {
        let field = Field::at_least("N", 1);
        assert_eq!(field.read("4294967295"), Ok("4294967295".to_owned()));
        assert_eq!(field.read("4294967296"), Err("4294967296 is too large".to_owned()));
        assert_eq!(field.read("18446744073709551616"), Err("18446744073709551616 is too large".to_owned()));
        assert_eq!(field.read("0"), Err("0 is not 1 or more".to_owned()));
    }

    #[test]
    fn fanouts_keep_their_order_and_minus_one_takes_all() {
        assert_eq!(fanouts("15, 10,5").unwrap(), "15,10,5");
        assert_eq!(fanouts("-1,10").unwrap(), "-1,10");
        assert_eq!(fanouts("1,1000").unwrap(), "1,1000");
    }

    #[test]
    fn fanouts_that_mean_nothing_are_refused_with_their_hop() {
        for (text, says) in [
            ("15,0", "hop 1: invalid value '0': expected -1 (all neighbours) or 1 to 1000"),
            ("-2,5", "hop 0: invalid value '-2'"),
            ("5,1001", "hop 1: invalid value '1001'"),
            ("", "no fanout"),
            (" ", "no fanout"),
            ("15,,5", "hop 1 is empty"),
            ("15,", "hop 1 is empty"),
            ("15,ten", "'ten'"),
            ("1.5", "'1.5'"),
            ("99999999999", "'99999999999'"),
            ("10 5", "separated by commas only: 10,5"),
            ("[15, -1]", "separated by commas only: 15,-1"),
        ] {
            let refusal = fanouts(text).unwrap_err();
            assert!(refusal.contains(says), "{text}: {refusal}");
        }
    }

    #[test]
    fn fanouts_of_relations_follow_the_default_ordered_by_name() {
        let text = "writes=5, 5;15,10;cites=0,-1";
        assert_eq!(fanouts(text).unwrap(), "15,10;cites=0,-1;writes=5,5");
        assert_eq!(fanouts("a=1;*=0").unwrap(), "0;a=1");
        for (text, says) in [
            ("15,10;writes=", "writes: no fanout given"),
            ("15;writes=5;writes=4", "writes has two lists"),
            ("15;*=4", "two lists without a name"),
            ("15;=4", "'=4' has no name"),
            ("15;writes=x", "writes: hop 0: invalid value 'x': expected -1 (all neighbours) or 0 to 1000"),
            ("15;", "*: no fanout given"),
        ] {
            let refusal = fanouts(text).unwrap_err();
            assert!(refusal.contains(says), "{text}: {refusal}");
        }
    }

    #[test]
    fn more_hops_than_the_random_key_has_bits_for_are_refused() {
        let hops = |n: usize| vec!["1"; n].join(",");
        assert!(fanouts(&hops(32)).is_ok());
        assert!(fanouts(&hops(33)).unwrap_err().contains("33 hops"));
    }
}
