//! `ripplekv fetch`: models, generated packs, the dictionary for Chinese scores.

use std::path::{Path, PathBuf};

use ripplekv_runner::hint_for;
use ripplekv_tasks::generate::{DEFAULT_SEED, write_study};

use crate::arguments::FetchArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::wiring;

pub(crate) fn fetch(arguments: &FetchArguments, output: Output) -> Result<(), Failure> {
    match arguments.name.as_str() {
        "study" => study(arguments.out.as_deref(), output),
        "quickstart" | "calibration" => {
            output.note(&format!(
                "the pack '{0}' comes with the repository, in datasets/{0}",
                arguments.name
            ));
            Ok(())
        }
        "longbench" => Err(Failure::Data(
            "fetching the longbench pack is not in this version\nhint: give a folder that has it with --pack DIR"
                .to_owned(),
        )),
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
    let manifest =
        write_study(&folder, DEFAULT_SEED).map_err(|error| Failure::Data(error.to_string()))?;
    let records: usize = manifest.tasks.values().map(|task| task.records.len()).sum();
    output.line(&format!("{} ({records} records)", folder.display()))?;
    Ok(())
}

fn model(name: &str, output: Output) -> Result<(), Failure> {
    let catalog = wiring::catalog();
    let known: Vec<&str> = ["study", "jieba"]
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
