//! The program that trains the built-in models, and the libtorch that it loads. Only training with them requires
//! either.

use std::path::Path;

use uva_launch::training::TrainerProgram;

use super::check::Check;
use crate::runs::trainer;

const NAME: &str = "libtorch";

/// All checks of this module, and the program if it can train.
pub fn checks(option: Option<&Path>) -> (Vec<Check>, Option<TrainerProgram>) {
    let libtorch = trainer::libtorch(option);
    let found = match &libtorch {
        Ok(found) => {
            let version = found.version.as_ref().map_or_else(String::new, |version| format!("{version} "));
            Check::ok(NAME, format!("{version}in {} ({})", found.root().display(), found.found_by))
        }
        Err(missing) => Check::missing(NAME, missing.to_string(), trainer::how_to_get_libtorch()),
    };
    let lacks = |finding: String| Check::missing(trainer::PROGRAM, finding, trainer::how_to_install());
    let (program, usable) = match trainer::path() {
        Err(error) => (lacks(error.to_string()), None),
        Ok(path) if !path.is_file() => (
            lacks(format!("{} is not there: `uvatrain train` cannot run, all else can", path.display())),
            None,
        ),
        Ok(path) => {
            let shown = path.display().to_string();
            match libtorch.ok().map(|libtorch| trainer::with_libtorch(path, &libtorch)) {
                None => (
                    Check::note(
                        trainer::PROGRAM,
                        format!("{shown}, which needs libtorch"),
                        trainer::how_to_get_libtorch(),
                    ),
                    None,
                ),
                Some(Ok(program)) => (Check::ok(trainer::PROGRAM, shown), Some(program)),
                Some(Err(error)) => (lacks(error.to_string()), None),
            }
        }
    };
    (vec![found, program], usable)
}
