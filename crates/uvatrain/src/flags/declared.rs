//! Options that a library declares ([`uva_runtime::spec`]), as arguments of the command line.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser, ValueHint};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use uva_runtime::spec::{Choice, Field, Named, OptionValue, Options, PartialOptions, Spelling, ValueKind};

/// Adds the options that `shown` accepts.
fn augment<O: Options>(command: Command, shown: impl Fn(&Field) -> bool) -> Command {
    let default = O::default();
    let fields = O::declared().filter(|field| shown(field));
    fields.fold(command, |command, field| command.arg(argument(field, default.text(field))))
}

fn argument(field: &'static Field, default: String) -> Arg {
    let full = Spelling::CommandLine.sentence(&field.help());
    let argument = Arg::new(field.name)
        .long(kept(field.long()))
        .help_heading(field.group)
        .conflicts_with_all(field.excludes);
    // Short help has one line for each common option; `--help` has all options.
    let argument = match field.brief {
        Some(line) => {
            let takes_value = !matches!(field.kind, ValueKind::Switch);
            argument.help(line).long_help(full).hide_possible_values(takes_value)
        }
        None => argument.help(full).hide_short_help(true),
    };
    let argument = field.needs.into_iter().fold(argument, Arg::requires);
    let argument = match field.kind {
        ValueKind::Switch => return argument.action(ArgAction::SetTrue),
        ValueKind::Choice(names) => argument.value_parser(choices(&names())),
        ValueKind::Path => {
            argument.value_hint(ValueHint::AnyPath).value_parser(PathBufValueParser::new().try_map(text))
        }
        _ => argument.value_parser(move |text: &str| field.read(text)),
    };
    let argument = field.bare.into_iter().fold(argument, |argument, bare| {
        argument.num_args(0..=1).require_equals(true).default_missing_value(bare)
    });
    // An empty default is not shown.
    let default = Some(default).filter(|default| field.unless_given.is_none() && !default.is_empty());
    argument
        .value_name(field.value)
        .action(ArgAction::Set)
        .allow_hyphen_values(matches!(field.kind, ValueKind::Fanouts { .. }))
        .default_values(default.map(kept))
}

/// A path as UTF-8: a run's processes receive paths in JSON, and its metrics show them.
fn text(path: PathBuf) -> Result<String, String> {
    path.into_os_string().into_string().map_err(|path| {
        format!("{path:?}: the path is not valid UTF-8: rename the file, or use a symbolic link to it")
    })
}

/// Text for clap, which keeps names and defaults as `&'static str`. A process builds its commands only a few times.
fn kept(text: String) -> &'static str {
    text.leak()
}

/// The given values of the options that `shown` accepts. An argument of another option may have the same name.
fn given<O: Options>(
    matches: &ArgMatches,
    shown: impl Fn(&Field) -> bool,
) -> Result<PartialOptions<O>, clap::Error> {
    let mut given = PartialOptions::default();
    for field in O::declared().filter(|field| shown(field)) {
        let text = match field.kind {
            ValueKind::Switch => {
                let on = matches.try_get_one::<bool>(field.name).ok().flatten();
                on.filter(|on| **on).map(ToString::to_string)
            }
            _ => matches.try_get_one::<String>(field.name).ok().flatten().cloned(),
        };
        if let Some(text) = text {
            given
                .give(field.name, &text)
                .map_err(|error| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error))?;
        }
    }
    Ok(given)
}

/// A parser of the named values of `T`, each with its help.
pub fn one_of<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    choices(&Choice::all::<T>())
        .try_map(|name| T::of_text(&name).ok_or_else(|| format!("invalid value '{name}'")))
}

fn choices(choices: &[Choice]) -> PossibleValuesParser {
    PossibleValuesParser::new(
        choices
            .iter()
            .map(|choice| PossibleValue::new(choice.name).help(Spelling::CommandLine.sentence(choice.help))),
    )
}

/// Selects which options of a struct a command has.
pub trait OptionFilter {
    /// Whether the command has this option.
    fn shows(field: &Field) -> bool;
}

/// Selects all options.
#[derive(Clone, Copy, Debug)]
pub struct All;

impl OptionFilter for All {
    fn shows(_: &Field) -> bool {
        true
    }
}

/// The options of `O` that `S` selects, for `#[command(flatten)]`.
#[derive(Clone, Debug)]
pub struct Declared<O, S = All> {
    /// The given values.
    pub given: PartialOptions<O>,
    /// The options that the user gave, also those with a default.
    pub typed: Vec<&'static Field>,
    shown: PhantomData<fn() -> S>,
}

impl<O: Options, S> Declared<O, S> {
    /// The complete options for the library, with defaults that depend on the machine filled in.
    pub fn options(&self) -> O {
        self.given.options()
    }

    /// Whether the user gave the option. For options without a constant default.
    pub fn gives(&self, name: &str) -> bool {
        self.given.get(name).is_some()
    }
}

impl<O: Options, S: OptionFilter> FromArgMatches for Declared<O, S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = |field: &&Field| matches.value_source(field.name) == Some(ValueSource::CommandLine);
        let typed = O::declared().filter(|field| S::shows(field)).filter(typed).collect();
        Ok(Self { given: given(matches, S::shows)?, typed, shown: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<O: Options, S: OptionFilter> Args for Declared<O, S> {
    fn augment_args(command: Command) -> Command {
        augment::<O>(command, S::shows)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Serializes the options that `S` selects.
impl<O: Options, S: OptionFilter> Serialize for Declared<O, S> {
    fn serialize<T: Serializer>(&self, to: T) -> Result<T::Ok, T::Error> {
        let mut map = to.serialize_map(None)?;
        self.given.add_to(&mut map, S::shows)?;
        map.end()
    }
}
