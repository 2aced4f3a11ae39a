//! libFuzzer over the target named by UVATRAIN_FUZZ_TARGET. scripts/check/fuzz.sh builds and runs it.
//!
//! With UVATRAIN_FUZZ_SEEDS=DIR it writes the seeds of every target into DIR/TARGET instead, and prints the targets'
//! names: a separate program could not be linked with the counters, which belong to libFuzzer.
#![no_main]
#![allow(missing_docs)]

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs, io, process};

use libfuzzer_sys::fuzz_target;
use uva_fuzz::{Target, target, targets};

fuzz_target!(
    init: {
        if let Some(folder) = env::var_os("UVATRAIN_FUZZ_SEEDS") {
            write_seeds(Path::new(&folder)).expect("room for the seeds");
            process::exit(0);
        }
    },
    |input: &[u8]| {
        static TARGET: OnceLock<Target> = OnceLock::new();
        let target = TARGET.get_or_init(|| target(&env::var("UVATRAIN_FUZZ_TARGET").unwrap_or_default()));
        // The tests check whether the input was accepted.
        let _ = target.run(input);
    }
);

fn write_seeds(folder: &Path) -> io::Result<()> {
    for target in targets() {
        let folder = folder.join(&target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in target.seeds().into_iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
