//! `uvatrain completions` and `uvatrain man`, both generated from the declarations of the options.

use anyhow::Context;
use clap::{Command, CommandFactory};

use crate::flags::Cli;
use crate::flags::machine::{CompletionsFlags, ManFlags};
use crate::ui::out;

/// Prints the completion script for the shell.
pub fn completions(flags: &CompletionsFlags) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut shown_commands(), "uvatrain", &mut script);
    out::script(&String::from_utf8(script).context("the completions are not valid UTF-8")?)
}

/// The command line with the commands for users. Completion scripts of some shells include hidden commands.
pub fn shown_commands() -> Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("uvatrain")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(all.get_arguments())
        .subcommands(shown)
}

/// Prints the program's manual page, or writes all pages into a directory, which is created.
pub fn man(flags: &ManFlags) -> anyhow::Result<()> {
    let Some(directory) = &flags.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).context("cannot render the page")?;
        return out::script(&String::from_utf8(page).context("the page is not valid UTF-8")?);
    };
    let cannot = || format!("cannot write manual pages to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(cannot)?;
    clap_mangen::generate_to(Cli::command(), directory).with_context(cannot)
}
