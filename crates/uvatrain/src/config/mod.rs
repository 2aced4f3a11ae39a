//! `--config FILE` and `--print-config`: options in a file, under their names on the command line.
//!
//! A file has a section for each command, such as `[train]` or `[bench.sample]`, with its options without their dashes.
//! [`file`] reads it. Its options become words of the command line before the typed ones, unless they were typed as
//! well ([`words`]), so both share one parser and one set of checks. [`print`] writes the options in force as such a
//! section.

mod file;
mod hints;
mod print;
mod words;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::{CommandFactory, Parser};
use uva_files::escape;

use crate::flags::Cli;
use crate::{exit, ui};

/// The file that `--config` named, once it was read.
static READ: OnceLock<PathBuf> = OnceLock::new();

/// The file that `--config` named; `None` without that option.
pub fn file_read() -> Option<&'static Path> {
    READ.get().map(PathBuf::as_path)
}

/// The request of the command line.
#[derive(Debug)]
pub enum ConfigRequest {
    /// To run a command.
    Command(Box<Cli>),
    /// To print this, which is the options in force.
    Config(String),
}

/// Why a command line contains no request.
#[derive(Debug)]
pub enum Refusal {
    /// Clap's answer, including help and version, and the place of the option in question if it is in a file.
    Usage(clap::Error, Option<String>),
    /// A problem with the file.
    Problem(exit::CommandError),
}

/// Reads the command line, and the file that it names.
///
/// # Errors
/// For help and version, and for any mistake.
pub fn parse(typed: Vec<OsString>) -> Result<ConfigRequest, Refusal> {
    let root = Cli::command();
    let typed = words::with_help_as_option(&root, typed);
    let line = words::CommandLine::new(&root, &typed);
    let entries = match &line.config {
        Some(path) => {
            let file = file::read(&root, path).map_err(Refusal::Problem)?;
            let _ = READ.set(path.into());
            file.section(&line.path)
        }
        None => Vec::new(),
    };
    let entries: Vec<file::ConfigEntry> =
        entries.into_iter().filter(|entry| !line.options.contains(&entry.option)).collect();
    for entry in &entries {
        tracing::debug!("{}: {}", entry.place, entry.word().unwrap_or_default());
    }
    let all = line.with(&entries);
    let at_fault = |error: clap::Error| {
        let error = hints::with_hint(fit_for_a_terminal(error, &all), line.command(&root), &all);
        let place = words::option_at_fault(&error)
            .and_then(|option| entries.iter().find(|entry| entry.option == option))
            .map(|entry| entry.place.clone());
        Refusal::Usage(error, place)
    };
    if line.prints {
        return print::in_force(root.clone(), &line.path, all.clone())
            .map(ConfigRequest::Config)
            .map_err(at_fault);
    }
    Cli::try_parse_from(&all).map(|cli| ConfigRequest::Command(Box::new(cli))).map_err(at_fault)
}

/// The error, safe for a terminal. Clap repeats words of the command line verbatim, between colours of its own. If a
/// word has control characters, parsing is repeated with the escaped words to get the same error.
fn fit_for_a_terminal(error: clap::Error, words: &[OsString]) -> clap::Error {
    let shown: Vec<OsString> = words
        .iter()
        .map(|word| match escape::word(&word.to_string_lossy()) {
            Cow::Owned(shown) => shown.into(),
            Cow::Borrowed(_) => word.clone(),
        })
        .collect();
    if shown == words {
        return error;
    }
    Cli::try_parse_from(shown).err().unwrap_or_else(|| {
        // The escaped words parse without error. Stripping the colours leaves plain text.
        clap::Error::raw(error.kind(), escape::lines(&error.to_string()).into_owned())
    })
}

impl Refusal {
    /// Prints the refusal and returns the exit code. Help and version go to stdout and are a success; all else goes to
    /// stderr. A failed write (a closed pipe) is ignored, because there is no reader.
    pub fn say(self) -> u8 {
        match self {
            Refusal::Usage(error, place) => {
                if let Some(place) = place {
                    ui::out::say(&format!("{place}:"));
                }
                let _ = error.print();
                error.exit_code() as u8
            }
            Refusal::Problem(problem) => {
                ui::out::say(&format!("uvatrain: {problem}"));
                exit::Code::BadInput as u8
            }
        }
    }
}
