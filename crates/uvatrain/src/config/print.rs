//! The options in force, as a section that `--config` takes.

use std::ffi::OsString;
use std::fmt::Write;

use clap::{Arg, ArgAction, ArgMatches, Command};
use toml_edit::Value;

use super::file::options;

/// The section of the command at `path`, with the options in force by `words` and the defaults. Required arguments may
/// be missing, since they are not options.
///
/// # Errors
/// Clap's error for a wrong word.
pub fn in_force(root: Command, path: &[String], words: Vec<OsString>) -> Result<String, clap::Error> {
    let mut root = without_requirements(root, path);
    let matches = root.try_get_matches_from_mut(words)?;
    let (mut command, mut matches) = (&root, &matches);
    for name in path {
        // Both exist, since the words led there.
        let (Some(found), Some(inner)) = (command.find_subcommand(name), matches.subcommand_matches(name))
        else {
            break;
        };
        (command, matches) = (found, inner);
    }
    let name = path.join(" ");
    let mut text =
        format!("# The options of `uvatrain {name}` that are in force; `--config FILE` takes them.\n");
    let _ = writeln!(text, "[{}]", path.join("."));
    let mut left_out = Vec::new();
    for argument in options(command) {
        let long = argument.get_long().unwrap_or_default();
        match value(argument, matches) {
            Some(value) => {
                let _ = writeln!(text, "{long} = {value}");
            }
            None => left_out.push(long),
        }
    }
    if !left_out.is_empty() {
        let _ = writeln!(text, "# Not given, and without a default that is a value: {}", left_out.join(", "));
    }
    Ok(text)
}

fn without_requirements(command: Command, path: &[String]) -> Command {
    let command = command.mut_args(|argument| argument.required(false));
    match path {
        [] => command,
        [name, rest @ ..] => {
            command.mut_subcommand(name, |inner| without_requirements(inner, rest).subcommand_required(false))
        }
    }
}

/// The value of an option as TOML; `None` where it has none.
fn value(argument: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = argument.get_id().as_str();
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return Some(matches.get_flag(id).to_string());
    }
    let words: Vec<String> = matches.get_raw(id)?.map(|word| word.to_string_lossy().into_owned()).collect();
    Some(literal(&words.join(",")))
}

/// A number or a boolean if it reads back as the same word, a string otherwise.
fn literal(word: &str) -> String {
    let same = |text: String| text == word;
    let bare = word.parse::<i64>().is_ok_and(|number| same(number.to_string()))
        || word
            .parse::<f64>()
            .is_ok_and(|number| number.is_finite() && word.contains('.') && same(number.to_string()))
        || word == "true"
        || word == "false";
    if bare { word.to_owned() } else { Value::from(word).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_read_back_unchanged_are_not_quoted() {
        for word in ["3", "-1", "0.003", "true"] {
            assert_eq!(literal(word), word);
        }
        for word in ["15,10,5", "007", "1e3", "auto", "0.50", "nan", "1.", ""] {
            assert_eq!(literal(word), format!("\"{word}\""));
        }
        assert_eq!(literal("a\"b").parse::<Value>().unwrap().as_str(), Some("a\"b"));
    }
}
