//! Compiles the kernels for machines that shall not have to: `carry_kernels FOLDER [CAPABILITY…]`, 9.0 unless given.
//!
//! Prints the files. The program looks for them in `kernels` beside itself and where `UVATRAIN_KERNELS` says.

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
        capabilities.push(parts.ok_or_else(|| format!("{text} is no compute capability such as 9.0"))?);
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
