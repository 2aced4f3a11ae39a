//! The program that trains the built-in models, `uvatrain-consumer`, and the libtorch that it loads. Before a run
//! starts anything, both are located, and the program's version is checked.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use uva_cuda::libtorch::{self, AskPython, Libtorch};
use uva_cuda::user_cache_folder;
use uva_launch::launcher::protocol;
use uva_launch::training::TrainerProgram;
use uva_mem::files::{Replacement, read_regular};
use uva_mem::out_of_memory::MemoryLimits;
use uva_runtime::machine;

use crate::exit;

/// The program's name. Its directory is that of `uvatrain`.
pub const PROGRAM: &str = "uvatrain-consumer";

/// The command that installs both programs: by pip if that installed this one, else in a checkout.
pub fn how_to_install() -> String {
    pip("uvatrain[train]")
        .unwrap_or_else(|| "./scripts/setup/libtorch.sh && cargo install --path crates/uvatrain".to_owned())
}

/// The command that installs libtorch.
pub fn how_to_get_libtorch() -> String {
    pip(&format!("torch=={}.*", libtorch::SERIES)).unwrap_or_else(|| {
        format!("./scripts/setup/libtorch.sh, or python3 -m pip install torch=={}.0", libtorch::SERIES)
    })
}

/// The pip command that installs `requirement` into the environment that contains this program.
fn pip(requirement: &str) -> Option<String> {
    let python = libtorch::own_environment()?.join("bin/python");
    Some(format!("{} -m pip install '{requirement}'", python.display()))
}

/// The output of `uvatrain-consumer --version`. It must match, because launcher and consumer share implicit layouts.
pub fn identity() -> String {
    format!("{PROGRAM} {} (protocol {})", env!("CARGO_PKG_VERSION"), protocol())
}

/// The program's file, whether or not it is there.
pub fn path() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot determine the path of this program")?;
    Ok(own.with_file_name(PROGRAM))
}

/// The libtorch in force.
///
/// # Errors
/// What the machine lacks, with every searched place.
pub fn libtorch(option: Option<&Path>) -> anyhow::Result<Libtorch> {
    libtorch::find(option, AskPython::Yes).map_err(|missing| {
        exit::lacking(format!(
            "{missing}: run {}; for another directory give --libtorch or set {}",
            how_to_get_libtorch(),
            libtorch::VARIABLE
        ))
        .into()
    })
}

/// The program, and the environment in which it loads libtorch: the libtorch of `option`, or the one that is found.
/// Whether both fit is tested once and then cached, if the command may write.
///
/// # Errors
/// What the machine lacks: the program, its matching version, or libtorch.
pub fn find(option: Option<&Path>, may_write: bool) -> anyhow::Result<TrainerProgram> {
    let path = path()?;
    if !path.is_file() {
        return Err(exit::lacking(format!(
            "{} is not there: this program trains the built-in models, and must be in the directory of uvatrain; install \
             both with `{}`",
            path.display(),
            how_to_install()
        ))
        .into());
    }
    let libtorch = libtorch(option)?;
    let program = unchecked(path, &libtorch)?;
    let known = Known::of(&program, &libtorch.lib);
    // A libtorch that loaded before may lack memory now.
    let is_limited = MemoryLimits::now().are_there();
    if is_limited || !known.as_ref().is_some_and(Known::is_stored) {
        check_version(&program)?;
        if let Some(known) = known.filter(|_| may_write) {
            known.store();
        }
    }
    Ok(program)
}

/// The program with this libtorch, which is loaded to see that the two fit.
///
/// # Errors
/// As [`find`].
pub fn with_libtorch(path: PathBuf, libtorch: &Libtorch) -> anyhow::Result<TrainerProgram> {
    let program = unchecked(path, libtorch)?;
    check_version(&program)?;
    Ok(program)
}

fn unchecked(path: PathBuf, libtorch: &Libtorch) -> anyhow::Result<TrainerProgram> {
    let Some(lib) = libtorch.lib.to_str() else {
        return Err(
            exit::lacking(format!("{:?}: the path is not valid UTF-8: rename it", libtorch.lib)).into()
        );
    };
    let before = std::env::var("LD_LIBRARY_PATH").ok().filter(|folders| !folders.is_empty());
    let folders = before.map_or_else(|| lib.to_owned(), |before| format!("{lib}:{before}"));
    let named = (libtorch::VARIABLE.to_owned(), lib.to_owned());
    Ok(TrainerProgram {
        path,
        environment: vec![("LD_LIBRARY_PATH".to_owned(), folders), named.clone()],
        libtorch: Some((named.0, Some(named.1))),
    })
}

/// A program and a libtorch that were found to fit. To read a version, libtorch has to be loaded, which takes a third
/// of a second. So the user's cache folder stores the files that passed, with all properties that a new version of a
/// file changes.
struct Known {
    /// The file of the cache.
    file: PathBuf,
    /// The files, and their expected properties.
    content: String,
}

impl Known {
    /// The current state of these files, and the folders that are searched for libraries. `None` if these or a cache
    /// folder are missing.
    fn of(program: &TrainerProgram, lib: &Path) -> Option<Self> {
        let mut content = identity();
        for (name, value) in &program.environment {
            content += &format!("\n{name}={value}");
        }
        for path in [&program.path, &lib.join("libtorch_cpu.so"), &lib.join("libc10.so")] {
            let is = path.metadata().ok()?;
            content += &format!(
                "\n{}: {} bytes, inode {} of device {}, written at {}.{:09}, changed at {}.{:09}",
                path.display(),
                is.len(),
                is.ino(),
                is.dev(),
                is.mtime(),
                is.mtime_nsec(),
                is.ctime(),
                is.ctime_nsec()
            );
        }
        let file = user_cache_folder()?.join(format!("{PROGRAM}.checked"));
        Some(Self { file, content })
    }

    fn is_stored(&self) -> bool {
        read_regular(&self.file, 1 << 20).is_ok_and(|stored| stored == self.content.as_bytes())
    }

    /// Replaces the stored entry. If the folder is not writable, the next run repeats the test.
    fn store(&self) {
        let stored = self.file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let mut file = Replacement::of(&self.file, 0o666)?;
            file.file().write_all(self.content.as_bytes())?;
            file.commit()
        });
        if let Err(error) = stored {
            tracing::debug!("{}: {error}", self.file.display());
        }
    }
}

/// Starts the program to read its version, which also shows that it loads.
fn check_version(program: &TrainerProgram) -> anyhow::Result<()> {
    let path = program.path.display();
    let asked = Command::new(&program.path)
        .arg("--version")
        .envs(program.environment.iter().cloned())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| machine::not_started(PROGRAM, &error))?;
    let said = String::from_utf8_lossy(&asked.stdout);
    if asked.status.success() && said.trim() == identity() {
        return Ok(());
    }
    let limits = MemoryLimits::now();
    if !asked.status.success() && limits.are_there() {
        let reason = String::from_utf8_lossy(&asked.stderr);
        return Err(exit::lacking(format!(
            "{path} with libtorch does not load in so little memory: {}{limits}",
            reason.lines().next().unwrap_or("no reason given"),
        ))
        .into());
    }
    let problem = if asked.status.success() {
        format!("the program is {}, but this uvatrain requires {}", said.trim(), identity())
    } else {
        let reason = String::from_utf8_lossy(&asked.stderr);
        format!(
            "the program does not start ({}): {}",
            asked.status,
            reason.lines().next().unwrap_or("no reason given")
        )
    };
    Err(exit::lacking(format!("{path}: {problem}; reinstall both programs: `{}`", how_to_install())).into())
}

/// Trains in this process, which has the models. It re-executes itself unless its environment already holds these
/// variables, since libtorch reads them when it is loaded, before `main`.
pub fn restart_with(environment: Vec<(String, String)>) -> anyhow::Result<()> {
    if environment.iter().all(|(name, value)| std::env::var_os(name).is_some_and(|is| is == value.as_str())) {
        return Ok(());
    }
    let program = std::env::current_exe().context("cannot find this program to restart it")?;
    Err(become_program(&program, environment))
}

/// Replaces this process by the same command line of `program`.
pub fn become_program(program: &Path, environment: Vec<(String, String)>) -> anyhow::Error {
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).envs(environment).exec();
    anyhow::Error::new(error).context(format!("cannot start {}", program.display()))
}
