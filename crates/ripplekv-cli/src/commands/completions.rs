//! `ripplekv completions` and `ripplekv man`.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::arguments::Cli;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn completions(shell: Shell, output: Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ripplekv", &mut script);
    output.data(&String::from_utf8_lossy(&script))?;
    Ok(())
}

pub(crate) fn man(folder: &Path, output: Output) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Data(format!(
            "cannot write {}: {error}\nhint: choose a folder that can be written",
            folder.display()
        ))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    output.note(&format!("man pages are in {}", folder.display()));
    Ok(())
}
