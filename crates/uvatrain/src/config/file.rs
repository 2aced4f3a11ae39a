//! The configuration file: a section for each command, with its options by name.

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml_edit::{Document, Item, Table, Value};
use uva_mem::files::read_regular_text;
use uva_runtime::spec::nearest;

use crate::exit::{CommandError, usage};

/// Files larger than this are not configuration files.
const MOST_BYTES: u64 = 1 << 20;

/// One option of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name, without dashes.
    pub option: String,
    value: Setting,
    /// `FILE:LINE`.
    pub place: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    Switch(bool),
    Value(String),
}

impl ConfigEntry {
    /// The equivalent word of a command line; `None` for a switch that is off.
    pub fn word(&self) -> Option<String> {
        match &self.value {
            Setting::Switch(on) => on.then(|| format!("--{}", self.option)),
            Setting::Value(value) => Some(format!("--{}={value}", self.option)),
        }
    }
}

/// A file that was read, with every name in it resolved.
#[derive(Debug)]
pub struct ConfigFile {
    /// The entries of each command.
    sections: Vec<(Vec<String>, Vec<ConfigEntry>)>,
}

impl ConfigFile {
    /// The entries of the command at `path`.
    pub fn section(self, path: &[String]) -> Vec<ConfigEntry> {
        self.sections.into_iter().find(|(of, _)| of == path).map(|(_, entries)| entries).unwrap_or_default()
    }
}

/// Reads the file, and checks every section and every name, also of commands other than the one that runs. Otherwise a
/// mistyped name would go unnoticed until its option is missed.
///
/// # Errors
/// If the file cannot be read, is not TOML, or names an unknown command or option.
pub fn read(root: &Command, path: &Path) -> Result<ConfigFile, CommandError> {
    let text = read_regular_text(path, MOST_BYTES).map_err(|error| unreadable(path, &error))?;
    parse(root, path, &text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandError {
    usage(format!("--config: cannot read {}: {error}", path.display()))
}

fn parse(root: &Command, path: &Path, text: &str) -> Result<ConfigFile, CommandError> {
    let source = Source { path: path.to_owned(), text };
    let document = Document::parse(text).map_err(|error| {
        // The parser's message shows the line and spans several lines.
        source.refuse(error.span(), error.message().trim_end().replace('\n', ", "))
    })?;
    let mut file = ConfigFile { sections: Vec::new() };
    source.command(root, &mut Vec::new(), document.as_table(), &mut file)?;
    Ok(file)
}

struct Source<'t> {
    path: PathBuf,
    text: &'t str,
}

impl Source<'_> {
    /// A command's section: its options, and the sections of its subcommands.
    fn command(
        &self,
        command: &Command,
        path: &mut Vec<String>,
        table: &Table,
        file: &mut ConfigFile,
    ) -> Result<(), CommandError> {
        let mut entries = Vec::new();
        for (name, item) in table {
            let span = table.key(name).and_then(|key| key.span());
            if let Item::Table(inner) = item {
                let found = visible(command).find(|subcommand| subcommand.get_name() == name);
                let Some(subcommand) = found else {
                    let names = visible(command).map(Command::get_name);
                    return Err(self.unknown(span.or(inner.span()), "command", path, name, names));
                };
                path.push(name.to_owned());
                self.command(subcommand, path, inner, file)?;
                path.pop();
                continue;
            }
            if path.is_empty() {
                let message = format!(
                    "'{name}' is not in a section: options belong to the section of their command, such as [train]"
                );
                return Err(self.refuse(span, message));
            }
            let Some(argument) = options(command).find(|argument| argument.get_long() == Some(name)) else {
                let names = options(command).filter_map(Arg::get_long);
                return Err(self.unknown(span, "option", path, name, names));
            };
            let value = setting(argument, item)
                .map_err(|expected| self.refuse(span.clone(), format!("{name} takes {expected}")))?;
            entries.push(ConfigEntry { option: name.to_owned(), value, place: self.place(span) });
        }
        file.sections.push((path.clone(), entries));
        Ok(())
    }

    fn unknown<'n>(
        &self,
        span: Option<Range<usize>>,
        what: &str,
        path: &[String],
        name: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> CommandError {
        let of = if path.is_empty() { "uvatrain".to_owned() } else { format!("[{}]", path.join(".")) };
        let near =
            nearest(name, names).map_or_else(String::new, |near| format!("; a similar one is '{near}'"));
        self.refuse(span, format!("{of} has no {what} '{name}'{near}"))
    }

    fn refuse(&self, span: Option<Range<usize>>, message: String) -> CommandError {
        usage(format!("{}: {message}", self.place(span)))
    }

    /// `FILE:LINE`.
    fn place(&self, span: Option<Range<usize>>) -> String {
        let path = self.path.display();
        let before = span.and_then(|span| self.text.get(..span.start));
        before.map_or_else(|| path.to_string(), |text| format!("{path}:{}", text.matches('\n').count() + 1))
    }
}

/// Commands that may have a section: not the roles.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

/// Options that may be in a file: all except help and the options about the file.
pub fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        argument.get_long().is_some_and(|long| !["config", "print-config", "help", "version"].contains(&long))
            && !argument.is_hide_set()
    })
}

/// The option's value from the item, or an error that names the expected type.
fn setting(argument: &Arg, item: &Item) -> Result<Setting, &'static str> {
    let value = item.as_value().ok_or("one value")?;
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return value.as_bool().map(Setting::Switch).ok_or("true or false");
    }
    match value {
        Value::Array(values) => {
            let values: Option<Vec<String>> = values.iter().map(text).collect();
            values.map(|values| Setting::Value(values.join(","))).ok_or("a list of words or numbers")
        }
        value => text(value).map(Setting::Value).ok_or("a word, a number, true or false, or a list of these"),
    }
}

/// A single value as it is written on the command line.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        Value::Boolean(flag) => Some(flag.value().to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::flags::Cli;

    fn parsed(text: &str) -> Result<ConfigFile, CommandError> {
        parse(&Cli::command(), Path::new("run.toml"), text)
    }

    fn words(text: &str, command: &[&str]) -> Vec<String> {
        let path: Vec<String> = command.iter().map(ToString::to_string).collect();
        let file = parsed(text).unwrap_or_else(|problem| panic!("{problem}"));
        file.section(&path).iter().filter_map(ConfigEntry::word).collect()
    }

    #[test]
    fn entries_become_the_words_that_say_the_same() {
        let text = "\
# a comment
[train]
fanouts = [15, 10]
lr = 1e-2
epochs = 3
resume = false
drop-last = true
slot-bytes = '6GiB'

[bench.sample]
fanouts = \"-1,5\"
";
        let train = ["--fanouts=15,10", "--lr=0.01", "--epochs=3", "--drop-last", "--slot-bytes=6GiB"];
        assert_eq!(words(text, &["train"]), train);
        assert_eq!(words(text, &["bench", "sample"]), ["--fanouts=-1,5"]);
        assert!(words(text, &["bench", "gather"]).is_empty());
        // An option that takes true or false is not a switch.
        assert_eq!(words("import.symmetrise = true", &["import"]), ["--symmetrise=true"]);
    }

    #[test]
    fn unknown_keys_are_refused_with_their_line_and_a_suggestion() {
        for (text, says) in [
            ("[train]\nlr = 1\nfanout = 3\n", &["run.toml:3", "[train]", "'fanout'", "'fanouts'"][..]),
            ("[trian]\n", &["run.toml:1", "command 'trian'", "'train'"]),
            ("\n\n[bench.smaple]\n", &["run.toml:3", "[bench]", "'smaple'", "'sample'"]),
            ("seed = 3\n", &["run.toml:1", "'seed'", "[train]"]),
            ("[train]\nresume = 3\n", &["run.toml:2", "resume", "true or false"]),
            ("[train]\nlr = 1979-05-27\n", &["run.toml:2", "lr takes"]),
            ("[train]\nlr = 1\nlr = 2\n", &["run.toml:3", "duplicate"]),
            ("[train]\nlr = \n", &["run.toml:2"]),
            ("[sampler]\nchannel = 3\n", &["run.toml:1", "'sampler'"]),
            ("[train]\nconfig = 'other.toml'\n", &["run.toml:2", "'config'"]),
            ("[train]\nlr = {a = 1}\n", &["run.toml:2", "lr takes"]),
        ] {
            let problem = parsed(text).unwrap_err().to_string();
            for part in says {
                assert!(problem.contains(part), "{part} is missing in: {problem}");
            }
        }
    }
}
