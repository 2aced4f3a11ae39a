//! Compiles the kernels ahead of time, for machines without NVRTC: `carry_kernels FOLDER [CAPABILITY…]`, by default 9.0.
//!
//! Prints the files. The program searches for them in `kernels` next to the executable and in `UVATRAIN_KERNELS`.

use std::path::Path;
use std::process::ExitCode;

use uva_cuda::{carry_kernels, nvrtc::Nvrtc};

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("carry_kernels: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let folder = arguments.next().ok_or("usage: carry_kernels FOLDER [CAPABILITY…]")?;
    let mut capabilities = Vec::new();
    for text in arguments {
        let parts =
            text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        capabilities.push(
            parts.ok_or_else(|| format!("invalid compute capability '{text}': expected one such as 9.0"))?,
        );
    }
    if capabilities.is_empty() {
        capabilities.push((9, 0));
    }
    let nvrtc = Nvrtc::find(None).map_err(|error| error.to_string())?;
    for capability in capabilities {
        for file in
            carry_kernels(&nvrtc, capability, Path::new(&folder)).map_err(|error| error.to_string())?
        {
            println!("{}", file.display());
        }
    }
    Ok(())
}
