//! `ripplekv fetch`: models, generated packs, the dictionary for Chinese scores.

use std::path::{Path, PathBuf};

use ripplekv_runner::hint_for;
use ripplekv_tasks::generate::{DEFAULT_SEED, write_study};

use crate::arguments::FetchArguments;
use crate::commands::fetch_longbench::fetch_longbench;
use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

/// The pack that comes from elsewhere.
const LONGBENCH: &str = "longbench";

pub(crate) fn fetch(arguments: &FetchArguments, output: Output) -> Result<(), Failure> {
    if arguments.name != LONGBENCH && (arguments.from.is_some() || arguments.partial) {
        return Err(Failure::Usage(format!(
            "--from and --partial go with `fetch {LONGBENCH}` only"
        )));
    }
    match arguments.name.as_str() {
        "study" => study(arguments.out.as_deref(), output),
        "quickstart" | "calibration" => {
            output.note(&format!(
                "the pack '{0}' comes with the repository, in datasets/{0}",
                arguments.name
            ));
            Ok(())
        }
        LONGBENCH => fetch_longbench(arguments, output),
        "jieba" => {
            wiring::segmenter()?;
            output.note("the dictionary is here");
            Ok(())
        }
        name => model(name, output),
    }
}

fn study(folder: Option<&Path>, output: Output) -> Result<(), Failure> {
    let folder = folder.map_or_else(|| PathBuf::from("datasets/study"), Path::to_owned);
    let manifest = write_study(&folder, DEFAULT_SEED).map_err(|error| {
        Failure::Data(format!(
            "{error}\nhint: choose a folder that can be written with --out DIR"
        ))
    })?;
    let records: usize = manifest.tasks.values().map(|task| task.records.len()).sum();
    output.line(&format!("{} ({records} records)", folder.display()))?;
    Ok(())
}

fn model(name: &str, output: Output) -> Result<(), Failure> {
    let catalog = wiring::catalog();
    let known: Vec<&str> = ["study", LONGBENCH, "jieba"]
        .into_iter()
        .chain(catalog.models.iter().map(|model| model.name))
        .collect();
    if !known.contains(&name) {
        return Err(Failure::Data(format!(
            "nothing to fetch is called '{name}'\nhint: {}",
            hint_for(name, &known)
        )));
    }
    let place = wiring::fetch_model(name)?;
    output.line(&place)?;
    Ok(())
}
