//! The commands for the shell that `uvatrain` is called from: `completions`, `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// The options of `uvatrain completions`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain completions bash > ~/.local/share/bash-completion/completions/uvatrain
  uvatrain completions zsh > ~/.zfunc/_uvatrain
  uvatrain completions fish > ~/.config/fish/completions/uvatrain.fish")]
pub struct CompletionsFlags {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// The options of `uvatrain man`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain man | man -l -
  uvatrain man ~/.local/share/man/man1")]
pub struct ManFlags {
    /// Write a page for every command to this directory, instead of printing the first page
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
