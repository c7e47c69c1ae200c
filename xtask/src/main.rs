//! Chores of this repository: `cargo xtask edges` and `cargo xtask generate [--check]`.
//! Uses no crate of the workspace: generated texts come from the built program itself.

mod edges;
mod generate;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str =
    "cargo xtask edges              refuse dependency edges that the design does not have
cargo xtask generate           write generated documentation and the schema of the spec
cargo xtask generate --check   fail where a generated file is not up to date";

#[expect(
    clippy::print_stderr,
    reason = "a command line tool without other output"
)]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(text) => {
            eprintln!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<String> {
    let root = root();
    match words {
        ["edges"] => {
            let edges = edges::check(&root)?;
            Ok(format!("{edges} dependency edges, all as designed"))
        }
        ["generate"] => generate::generate(&root, false),
        ["generate", "--check"] => generate::generate(&root, true),
        _ => bail!("unknown chore\n{HELP}"),
    }
}

/// The repository. Asked of cargo at run time: clones that share a target folder share this binary too.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().unwrap_or(&here).to_owned()
}
