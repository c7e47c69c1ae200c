//! The `ripplekv` program: arguments in, exit code out. What it does lives in `commands/`.
//! To add a verb: one file in `commands/`, one variant in [`arguments::Verb`], one line in [`commands::execute`].

mod arguments;
mod commands;
mod download;
mod failure;
mod output;
mod packs;
mod progress;
mod signals;
mod tables;
mod wiring;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use ripplekv_runner::exit;

use crate::arguments::Cli;
use crate::output::Output;

fn main() -> ExitCode {
    let arguments = match Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::DONE,
                _ => exit::USAGE,
            };
            // A closed pipe while printing help is no fault.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let output = Output::new(arguments.quiet, arguments.verbose);
    match commands::execute(&arguments, &output) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if let Some(text) = failure.text() {
                output.error(&text);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
