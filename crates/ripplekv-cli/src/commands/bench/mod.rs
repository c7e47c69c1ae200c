//! `ripplekv bench`: speed and memory of the program on given prompts, beside a peer's where its document is given.
//! Every measurement is a process of its own, so that its peak memory is its own. `tools/peers/` measures the peers.

mod document;
mod measure;
mod table;

use std::path::Path;
use std::process::{Command, Stdio};

use ripplekv_runner::exit;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::document::{Document, Peers, Prompts, SCHEMA};
use crate::arguments::{BenchArguments, BenchPart};
use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

/// Lengths measured where none are given, in tokens.
const GRID_LENGTHS: [usize; 1] = [4096];
const PROFILE_LENGTHS: [usize; 1] = [2048];

pub(crate) fn bench(arguments: &BenchArguments, output: Output) -> Result<u8, Failure> {
    wiring::set_threads(arguments.machine.threads)?;
    let prompts = arguments.prompts.as_deref();
    let prompts: Option<Prompts> = prompts.map(read).transpose()?;
    if let (Some((part, tokens)), Some(prompts)) = (arguments.child, &prompts) {
        let text = measure::measure(part, prompts.of(tokens)?, arguments)?;
        output.line(&text)?;
        return Ok(exit::DONE);
    }
    // a wrong name or file is found before anything is measured
    wiring::named_model(&arguments.model)?;
    let peers: Option<Peers> = arguments.peers.as_deref().map(read).transpose()?;
    let mut document = match &arguments.out {
        Some(path) if path.exists() || prompts.is_none() => read_document(path)?,
        _ => Document::default(),
    };
    if let Some(prompts) = &prompts {
        add(&mut document, prompts, arguments, output)?;
    }
    if arguments.json {
        output.line(&format!("{:#}", table::json(&document, peers.as_ref())))?;
    } else {
        output.data(&table::markdown(&document, peers.as_ref()))?;
    }
    Ok(exit::DONE)
}

/// Measures what is asked for and keeps it.
fn add(
    document: &mut Document,
    prompts: &Prompts,
    arguments: &BenchArguments,
    output: Output,
) -> Result<(), Failure> {
    document.describe(arguments);
    for &part in &arguments.parts {
        for tokens in lengths(part, arguments, prompts) {
            prompts.of(tokens)?;
            output.note(&format!("{part} {tokens}"));
            document.add(part, &in_own_process(part, tokens, arguments)?)?;
            // what is measured is kept, whatever happens to the rest
            if let Some(path) = &arguments.out {
                write(path, document)?;
            }
        }
    }
    Ok(())
}

/// Lengths of one part.
fn lengths(part: BenchPart, arguments: &BenchArguments, prompts: &Prompts) -> Vec<usize> {
    let fixed = match part {
        BenchPart::Forward | BenchPart::Attention => prompts.lengths(),
        BenchPart::Grid => GRID_LENGTHS.to_vec(),
        BenchPart::Profile => PROFILE_LENGTHS.to_vec(),
    };
    if arguments.lengths.is_empty() {
        fixed
    } else {
        arguments.lengths.clone()
    }
}

/// This program again, for one measurement; what it prints.
fn in_own_process(
    part: BenchPart,
    tokens: usize,
    arguments: &BenchArguments,
) -> Result<String, Failure> {
    let failed = |reason: String| Failure::Data(format!("bench: {part} {tokens}: {reason}"));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command
        .arg("bench")
        .args(
            arguments
                .prompts
                .iter()
                .flat_map(|path| [Path::new("--prompts"), path]),
        )
        .args(["--model", &arguments.model])
        .args(["--device", &arguments.machine.device])
        .args(["--repeats", &arguments.repeats.to_string()])
        .args(["--new-tokens", &arguments.new_tokens.to_string()])
        .args(["--child", &format!("{part}:{tokens}")])
        .stderr(Stdio::inherit());
    if let Some(threads) = arguments.machine.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    let done = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(format!("ended with {}", done.status)));
    }
    String::from_utf8(done.stdout).map_err(|error| failed(error.to_string()))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let failed = |reason: String| {
        Failure::Data(format!(
            "{}: {reason}\nhint: tools/peers/bench_peers.py writes prompts and peers, bench --out its own document",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// A document of this program, or of another that wrote the same.
fn read_document(path: &Path) -> Result<Document, Failure> {
    let schema = &read::<Value>(path)?["schema"];
    if *schema != SCHEMA {
        return Err(Failure::Data(format!(
            "{}: schema: this program reads {SCHEMA}, the file has {schema}\nhint: remove the file, or name another with --out",
            path.display()
        )));
    }
    read(path)
}

fn write(path: &Path, document: &Document) -> Result<(), Failure> {
    let failed = |reason: String| Failure::Data(format!("{}: {reason}", path.display()));
    let text = serde_json::to_string_pretty(document).map_err(|error| failed(error.to_string()))?;
    std::fs::write(path, text + "\n").map_err(|error| failed(error.to_string()))
}
