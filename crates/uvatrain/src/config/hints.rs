//! Hints after a command line error: what other programs write differently.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// The error with a hint if its cause is recognised. `command` was called with `words`.
pub fn with_hint(mut error: clap::Error, command: &Command, words: &[OsString]) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidValue => {
            if let Some(name) = named_differently(&error) {
                error.insert(ContextKind::SuggestedValue, ContextValue::String(name));
            }
        }
        // `15,` of `15, 10, 5` is refused as a value before the others are seen.
        ErrorKind::UnknownArgument | ErrorKind::ValueValidation => {
            if let Some(hint) = list_in_several_words(command, words) {
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]));
            }
        }
        _ => {}
    }
    error
}

/// The accepted value that the refused one contains, in other spelling: `sage` of `GraphSAGE`, `gcn` of `GCNConv`.
fn named_differently(error: &clap::Error) -> Option<String> {
    let (Some(ContextValue::String(given)), Some(ContextValue::Strings(names))) =
        (error.get(ContextKind::InvalidValue), error.get(ContextKind::ValidValue))
    else {
        return None;
    };
    let plain = |text: &str| text.replace(['-', '_', ' '], "").to_lowercase();
    let given = plain(given);
    // Two letters are contained in too many words.
    let fits = |name: &&String| plain(name) == given || name.len() > 2 && given.contains(&plain(name));
    names.iter().filter(fits).max_by_key(|name| name.len()).cloned()
}

/// `--fanouts 10,5` for `--fanouts 10 5`: the values of a list given as separate words.
fn list_in_several_words(command: &Command, words: &[OsString]) -> Option<String> {
    let words: Vec<&str> =
        words.iter().map_while(|word| word.to_str().filter(|word| *word != "--")).collect();
    words.iter().enumerate().find_map(|(place, word)| {
        let name = word.strip_prefix("--")?;
        command.get_arguments().find(|argument| argument.get_long() == Some(name) && takes_list(argument))?;
        let is_entry =
            |word: &&&str| word.trim_end_matches(',').split(',').all(|entry| entry.parse::<f64>().is_ok());
        let entries: Vec<_> =
            words[place + 1..].iter().take_while(is_entry).map(|word| word.trim_end_matches(',')).collect();
        (entries.len() > 1).then(|| {
            format!("--{name} takes one word, with commas between the values: --{name} {}", entries.join(","))
        })
    })
}

fn takes_list(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    argument.get_value_delimiter().is_some()
        || names.iter().any(|name| name.contains(',') || name.contains("LIST"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::flags::Cli;

    fn refusal(words: &str) -> String {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let root = Cli::command();
        let error = root.clone().try_get_matches_from(&words).unwrap_err();
        let command = root.find_subcommand(&words[1]).unwrap();
        with_hint(error, command, &words).to_string()
    }

    #[test]
    fn names_of_other_libraries_get_a_suggestion() {
        for (given, ours) in [
            ("graphsage", "sage"),
            ("GraphSAGE", "sage"),
            ("SAGEConv", "sage"),
            ("GCNConv", "gcn"),
            ("GATv2", "gat"),
            ("GINEConv", "gine"),
            ("GINConv", "gin"),
            ("SGConv", "sgc"),
            ("SIGNConv", "sign"),
        ] {
            let refusal = refusal(&format!("uvatrain train d --model {given}"));
            assert!(refusal.contains(&format!("a similar value exists: '{ours}'")), "{given}: {refusal}");
        }
        assert!(refusal("uvatrain train d --metric ROC_AUC").contains("exists: 'roc-auc'"));
        assert!(!refusal("uvatrain train d --model mlp").contains("exists"));
    }

    #[test]
    fn a_list_in_several_words_is_answered_with_commas() {
        for (given, hint) in [
            ("train d --fanouts 10 5", "--fanouts 10,5"),
            ("train --fanouts 15, 10, -1 d", "--fanouts 15,10,-1"),
            ("generate d --nodes 9 --quadrants 0.4 0.2 0.2 0.2", "--quadrants 0.4,0.2,0.2,0.2"),
        ] {
            let refusal = refusal(&format!("uvatrain {given}"));
            assert!(refusal.contains(&format!("values: {hint}\n")), "{given}: {refusal}");
        }
        assert!(!refusal("uvatrain train d e").contains("values: "));
    }
}
