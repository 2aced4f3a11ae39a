//! The command line as words, before anything is parsed.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Command;
use clap::error::{ContextKind, ContextValue};

use super::file::ConfigEntry;

const CONFIG: &str = "config";
const PRINT: &str = "print-config";

/// The words of a command line.
#[derive(Debug)]
pub struct CommandLine<'w> {
    words: &'w [OsString],
    /// The command and its subcommand: `bench`, `sample`.
    pub path: Vec<String>,
    /// Where words of a file are inserted: after the command's name.
    insert_at: usize,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--print-config`.
    pub prints: bool,
    /// Options that were typed, without dashes; an alias by the option's own name.
    pub options: Vec<String>,
}

impl<'w> CommandLine<'w> {
    /// Searches for the command's name and for options up to `--`, after which the words belong to another program.
    pub fn new(root: &Command, words: &'w [OsString]) -> CommandLine<'w> {
        let mut line = CommandLine {
            words,
            path: Vec::new(),
            insert_at: 1.min(words.len()),
            config: None,
            prints: false,
            options: Vec::new(),
        };
        let mut command = root;
        let mut arguments = false;
        let mut place = 1;
        while let Some(word) = words.get(place).filter(|word| *word != "--") {
            place += 1;
            if let Some((name, value)) = option(word) {
                if name == CONFIG {
                    let value = value.map(OsStr::to_owned).or_else(|| words.get(place).cloned());
                    place += usize::from(word.len() == CONFIG.len() + 2);
                    line.config = value.map(PathBuf::from);
                } else if name == PRINT {
                    line.prints = true;
                } else {
                    // The first option that is not global ends the names of commands.
                    arguments = true;
                    line.options.push(name.to_owned());
                }
            } else if !arguments
                && let Some(found) = word.to_str().and_then(|word| command.find_subcommand(word))
            {
                command = found;
                line.path.push(found.get_name().to_owned());
                line.insert_at = place;
            } else {
                arguments = true;
            }
        }
        for option in &mut line.options {
            let owner = command.get_arguments().find(|argument| {
                argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&option.as_str()))
            });
            if let Some(name) = owner.and_then(|argument| argument.get_long()) {
                *option = name.to_owned();
            }
        }
        line
    }

    /// The command that the path leads to.
    pub fn command<'c>(&self, root: &'c Command) -> &'c Command {
        self.path.iter().fold(root, |command, name| command.find_subcommand(name).unwrap_or(command))
    }

    /// The words with those of `entries` inserted before the arguments.
    pub fn with(&self, entries: &[ConfigEntry]) -> Vec<OsString> {
        let (before, after) = self.words.split_at(self.insert_at);
        let entries = entries.iter().filter_map(ConfigEntry::word).map(OsString::from);
        before.iter().cloned().chain(entries).chain(after.iter().cloned()).collect()
    }
}

/// `uvatrain help train` as `uvatrain train --help`, and `uvatrain bench help sample` likewise.
pub fn with_help_as_option(root: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let mut command = root;
    for place in 1..words.len() {
        if words[place] == "help" && command.has_subcommands() {
            words.remove(place);
            words.push("--help".into());
            break;
        }
        match words[place].to_str().and_then(|word| command.find_subcommand(word)) {
            Some(found) => command = found,
            None => break,
        }
    }
    words
}

/// `--name` or `--name=value`.
fn option(word: &OsStr) -> Option<(&str, Option<&OsStr>)> {
    let word = word.as_encoded_bytes().strip_prefix(b"--")?;
    let end = word.iter().position(|&byte| byte == b'=');
    let name = std::str::from_utf8(&word[..end.unwrap_or(word.len())]).ok()?;
    // A value that is not text does not name a file that could be opened by it.
    let value = end.and_then(|end| std::str::from_utf8(&word[end + 1..]).ok()).map(OsStr::new);
    Some((name, value))
}

/// The option that clap's error is about, without dashes.
pub fn option_at_fault(error: &clap::Error) -> Option<String> {
    let argument = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(argument) => argument,
        ContextValue::Strings(arguments) => arguments.first()?,
        _ => return None,
    };
    let name = argument.strip_prefix("--")?;
    let end = name.find([' ', '=', '[']).unwrap_or(name.len());
    Some(name[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::flags::Cli;

    fn line(words: &str) -> (Vec<String>, usize, Option<PathBuf>, bool, Vec<String>) {
        let words: Vec<OsString> =
            std::iter::once("uvatrain").chain(words.split_whitespace()).map(OsString::from).collect();
        let line = CommandLine::new(&Cli::command(), &words);
        (line.path, line.insert_at, line.config, line.prints, line.options)
    }

    #[test]
    fn the_command_its_options_and_the_file_are_found_in_any_order() {
        let file = || Some(PathBuf::from("f.toml"));
        let options = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let path = options;
        assert_eq!(
            line("train data --config f.toml --seed 3 --lr=0.1"),
            (path(&["train"]), 2, file(), false, options(&["seed", "lr"]))
        );
        assert_eq!(
            line("--config=f.toml bench sample data --print-config"),
            (path(&["bench", "sample"]), 4, file(), true, vec![])
        );
        // The name of a dataset may be that of a command.
        assert_eq!(line("info train"), (path(&["info"]), 2, None, false, vec![]));
        assert_eq!(
            line("bench --config f.toml gather d"),
            (path(&["bench", "gather"]), 5, file(), false, vec![])
        );
    }

    #[test]
    fn arguments_after_two_dashes_belong_to_another_program() {
        let found = line("run data --slots 4 -- python --config f.toml --seed 1");
        assert_eq!(found, (vec!["run".to_owned()], 2, None, false, vec!["slots".to_owned()]));
    }

    #[test]
    fn an_alias_is_the_option_itself() {
        assert_eq!(line("import a b --symmetrize").4, ["symmetrise"]);
    }
}
