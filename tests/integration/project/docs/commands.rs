//! `docs/reference/commands.md` between `<!-- generated: NAME, NAME -->` and `<!-- end -->` is made from the
//! declarations of commands and options. `UVATRAIN_WRITE_DOCS=1` writes these parts; the notes between them are written
//! by hand.

use std::fs;

use clap::{Arg, Command};
use uva_launch::training::TrainingOptions;
use uva_runtime::LoaderOptions;
use uva_runtime::backend::BackendOptions;
use uva_runtime::options::hop_options::HopOptions;
use uva_runtime::spec::{Choice, Field, Options, Spelling, ValueKind};
use uva_runtime::tune::planning::CacheOptions;

use super::root;

/// Options that several commands have. They are listed once.
struct Shared {
    name: &'static str,
    fields: Vec<(&'static Field, String)>,
    in_python: bool,
}

impl Shared {
    fn of<O: Options>(name: &'static str, in_python: bool) -> Self {
        let default = O::default();
        Self { name, fields: O::declared().map(|field| (field, default.text(field))).collect(), in_python }
    }

    fn all() -> [Self; 5] {
        [
            Self::of::<LoaderOptions>("Options of the loader", true),
            Self::of::<TrainingOptions>("Options of training", false),
            Self::of::<HopOptions>("Options of hop sets", false),
            Self::of::<CacheOptions>("Options of the caches", false),
            Self::of::<BackendOptions>("Options of the backend", false),
        ]
    }

    fn link(&self) -> String {
        format!("[{}](#{})", self.name.to_lowercase(), super::anchor(self.name))
    }

    /// Whether a command's argument is this option, with the same default.
    fn has(&self, argument: &Arg) -> bool {
        self.fields.iter().any(|(field, default)| {
            let shown: Vec<_> = argument.get_default_values().iter().map(|value| value.to_str()).collect();
            argument.get_long() == Some(&*field.long())
                && help_of(argument) == spelled(&field.help())
                && (shown.is_empty() || shown == [Some(default.as_str())])
        })
    }

    /// The table with a row for each, and the meaning of named values.
    fn table(&self) -> String {
        let columns = |cells: [&str; 6]| {
            let cells = cells.into_iter().enumerate().filter(|(place, _)| self.in_python || *place != 1);
            row(cells.map(|(_, cell)| cell))
        };
        let mut text = format!("### {}\n", self.name);
        text += &columns(["option", "Python", "values", "default", "affects", "meaning"]);
        text += &("|---".repeat(5 + usize::from(self.in_python)) + "|\n");
        let mut tables = String::new();
        for (field, default) in &self.fields {
            let default = match (field.unless_given, default.as_str()) {
                (Some(said), _) => spelled(said),
                (None, "false") => "off".to_owned(),
                (None, "") => "none".to_owned(),
                (None, default) => format!("`{default}`"),
            };
            let affects: Vec<_> = field.purposes.iter().map(|purpose| purpose.name()).collect();
            let (option, python) = (format!("`--{}`", field.long()), format!("`{}`", field.name));
            let choices = match field.kind {
                ValueKind::Choice(choices) => named(&choices()),
                _ => Vec::new(),
            };
            let values = if choices.is_empty() { field.range() } else { described(&choices) };
            text +=
                &columns([&option, &python, &values, &default, &affects.join(", "), &spelled(field.about())]);
            if choices.len() >= MANY {
                tables += &format!("\n| `--{}` | |\n|---|---|\n", field.long());
                tables.extend(choices.iter().map(|(name, help)| row([&format!("`{name}`"), help])));
            }
        }
        text + &tables
    }
}

/// From this many values on, a shared option has its own table.
const MANY: usize = 9;

fn named(choices: &[Choice]) -> Vec<(String, String)> {
    choices.iter().map(|choice| (choice.name.to_owned(), spelled(choice.help))).collect()
}

fn spelled(text: &str) -> String {
    Spelling::CommandLine.sentence(text)
}

/// A row of a table.
fn row<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    cells.into_iter().map(|cell| format!("| {} ", cell.as_ref().replace('|', "\\|"))).collect::<String>()
        + "|\n"
}

/// Named values with their meanings, if they have any and are not too many for a cell.
fn described(values: &[(String, String)]) -> String {
    let silent = values.len() >= MANY || values.iter().all(|(_, help)| help.is_empty());
    let cells: Vec<_> = values
        .iter()
        .map(|(name, help)| if silent { format!("`{name}`") } else { format!("`{name}`: {}", lower(help)) })
        .collect();
    cells.join(if silent { ", " } else { "; " })
}

/// A sentence's first letter made small, unless its word is an abbreviation or a name.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => sentence.to_owned(),
    }
}

fn help_of(argument: &Arg) -> String {
    argument.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Its first sentence, without the default that the help names.
fn first_sentence(help: &str) -> &str {
    let help = help.split(" [default: ").next().unwrap_or_default();
    help.split(". ").next().unwrap_or_default()
}

/// The row of an argument that only this command has.
fn argument(argument: &Arg) -> String {
    let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let takes_values = argument.get_action().takes_values();
    let option = match argument.get_long() {
        Some(long) => format!("`--{long}`"),
        None => format!("`{}`", name.as_deref().unwrap_or_default()),
    };
    let choices: Vec<_> = argument
        .get_possible_values()
        .iter()
        .map(|one| {
            let help = one.get_help().map(ToString::to_string).unwrap_or_default();
            (one.get_name().to_owned(), help)
        })
        .collect();
    let values = match name {
        _ if !takes_values || argument.is_positional() => String::new(),
        _ if !choices.is_empty() => described(&choices),
        Some(name) => format!("`{name}`"),
        None => String::new(),
    };
    let help = help_of(argument);
    let said = help.split_once(" [default: ").map(|(_, rest)| rest.trim_end_matches(']').to_owned());
    let shown: Vec<_> = argument.get_default_values().iter().filter_map(|value| value.to_str()).collect();
    let default = match said {
        _ if argument.is_required_set() => "required".to_owned(),
        Some(said) => said,
        None if !takes_values || shown.is_empty() => String::new(),
        None => format!("`{}`", shown.join(",")),
    };
    row([option.as_str(), &values, &default, first_sentence(&help)])
}

/// The shared options of a command.
fn shared_with(command: &Command, shared: &Shared) -> Option<String> {
    let (has, lacks): (Vec<_>, Vec<_>) = shared.fields.iter().partition(|(field, _)| {
        command.get_arguments().any(|one| one.get_long() == Some(&*field.long()) && shared.has(one))
    });
    let list = |fields: &[&(&Field, String)]| {
        fields.iter().map(|(field, _)| format!("`--{}`", field.long())).collect::<Vec<_>>().join(", ")
    };
    match (has.len(), lacks.len()) {
        (0, _) => None,
        (_, 0) => Some(format!("all {}", shared.link())),
        (some, rest) if rest < some => Some(format!("{} but {}", shared.link(), list(&lacks))),
        _ => Some(format!("{} of the {}", list(&has), shared.link())),
    }
}

/// A command's part of the page.
fn section(command: &mut Command, shared: &[Shared]) -> String {
    let path = command.get_bin_name().unwrap_or_default().to_owned();
    let name = path.trim_start_matches("uvatrain ");
    let usage = command.render_usage().to_string();
    let usage: Vec<_> = usage.trim_start_matches("Usage: ").lines().map(str::trim).collect();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let level = "#".repeat(2 + name.matches(' ').count());
    let mut text = format!("{level} {name}\n{about}: `{}`", usage.join("`, `"));
    let mut also: Vec<_> = shared.iter().filter_map(|shared| shared_with(command, shared)).collect();
    let to_json = |one: &Arg| one.get_long() == Some("json");
    also.extend(command.get_arguments().any(to_json).then(|| "[`--json`](json.md)".to_owned()));
    if !also.is_empty() {
        text += &format!(". It has {}", also.join("; "));
    }
    text += ".\n";
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(|one| {
            !one.is_hide_set()
                && !["help", "version", "config", "print_config"].contains(&one.get_id().as_str())
        })
        .filter(|one| !to_json(one) && !shared.iter().any(|shared| shared.has(one)))
        .collect();
    if !own.is_empty() {
        text += "\n| option | values | default | meaning |\n|---|---|---|---|\n";
        text.extend(own.iter().map(|one| argument(one)));
    }
    text
}

/// A command and those below it, in the order of help.
fn sections(command: &mut Command, shared: &[Shared], into: &mut Vec<(String, String)>) {
    for inner in
        command.get_subcommands_mut().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        let name = inner.get_bin_name().unwrap_or_default().trim_start_matches("uvatrain ").to_owned();
        into.push((name, section(inner, shared)));
        sections(inner, shared, into);
    }
}

/// The generated parts by name, in the order of the page.
fn generated() -> Vec<(String, String)> {
    let shared = Shared::all();
    let mut tree = uvatrain_cli::shown_commands();
    tree.build();
    let mut list = "| command | purpose |\n|---|---|\n".to_owned();
    for command in tree.get_subcommands() {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        list += &row([format!("[`{name}`](#{name})").as_str(), first_sentence(&about)]);
    }
    let mut parts = vec![("commands".to_owned(), list)];
    parts.extend(shared.iter().map(|shared| (shared.name.to_lowercase(), shared.table())));
    sections(&mut tree, &shared, &mut parts);
    parts
}

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->\n";

#[test]
fn the_page_of_commands_is_what_the_declarations_say() {
    // A build without the model of requests has no such bench, and one without Parquet no such importer.
    if cfg!(not(all(feature = "request-model", feature = "parquet"))) {
        return;
    }
    let path = root().join("docs/reference/commands.md");
    let page = fs::read_to_string(&path).unwrap();
    let parts = generated();
    let named: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(" -->")).collect();
    let names: Vec<&str> = named.iter().flat_map(|names| names.split(", ")).collect();
    let expected: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected, "the parts of commands.md, and their order");
    let (mut parts, mut written, mut rest) = (parts.iter(), String::new(), page.as_str());
    for names in named {
        let begin = format!("{BEGIN}{names} -->\n");
        let (before, after) = rest.split_once(&begin).unwrap();
        let texts: Vec<&str> =
            parts.by_ref().take(names.split(", ").count()).map(|(_, text)| text.as_str()).collect();
        written += &[before, &begin, &texts.join("\n"), END].concat();
        rest = after.split_once(END).unwrap().1;
    }
    written += rest;
    if std::env::var_os("UVATRAIN_WRITE_DOCS").is_some() {
        fs::write(&path, &written).unwrap();
    } else {
        let differs = page.lines().zip(written.lines()).find(|(there, declared)| there != declared);
        assert!(
            page == written,
            "UVATRAIN_WRITE_DOCS=1 rewrites it; the first line that differs: {differs:?}"
        );
    }
}
