//! `ripplekv fetch longbench`: the official records and prompts, from the network or from this machine.

use std::path::{Path, PathBuf};

use ripplekv_tasks::{
    ConfigFiles, InstallRequest, InstalledPack, LONGBENCH_COMMIT, LocalPack, Pack, RecordSource,
    install_longbench,
};

use crate::arguments::FetchArguments;
use crate::download::Downloader;
use crate::failure::Failure;
use crate::output::Output;

/// Address of the hub, as its other tools read it.
const HUB_VARIABLE: &str = "HF_ENDPOINT";
const HUB: &str = "https://huggingface.co";
/// Set where the hub must not be asked.
const OFFLINE_VARIABLE: &str = "HF_HUB_OFFLINE";
const RECORDS: &str = "datasets/THUDM/LongBench/resolve/main/data.zip";
/// Address of the folder that holds the two config files, for mirrors and tests.
const CONFIG_VARIABLE: &str = "RIPPLEKV_LONGBENCH_CONFIG";
const CONFIG: &str = "https://raw.githubusercontent.com/THUDM/LongBench";

const CONFIG_BYTES: u64 = 1 << 20;
const ARCHIVE_BYTES: u64 = 2 << 30;
const MEGABYTE: u64 = 1_000_000;

pub(crate) fn fetch_longbench(arguments: &FetchArguments, output: Output) -> Result<(), Failure> {
    let target = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("datasets/longbench"));
    if let Ok(pack) = Pack::open(&target) {
        output.note("the pack is here already; remove the folder to fetch it again");
        output.line(&format!(
            "{} ({} tasks)",
            target.display(),
            pack.tasks().len()
        ))?;
        return Ok(());
    }
    let installed = match &arguments.from {
        Some(from) => from_machine(from, &target, arguments.partial)?,
        None => from_network(&target, arguments.partial, output)?,
    };
    let records: usize = installed.tasks.values().map(|task| task.records).sum();
    if installed.partial {
        output.warning("the pack is only a part of LongBench; its manifest says so");
    }
    output.line(&format!("{} ({records} records)", target.display()))?;
    Ok(())
}

fn install(request: &InstallRequest<'_>, target: &Path) -> Result<InstalledPack, Failure> {
    install_longbench(request, target).map_err(|error| Failure::Data(error.to_string()))
}

fn from_machine(from: &Path, target: &Path, partial: bool) -> Result<InstalledPack, Failure> {
    let found = LocalPack::find(from).map_err(|error| Failure::Data(error.to_string()))?;
    let request = InstallRequest {
        records: found.records(),
        records_from: found.records_from(),
        config: found.config(),
        partial,
    };
    install(&request, target)
}

fn stated(variable: &str) -> Option<String> {
    std::env::var(variable)
        .ok()
        .filter(|value| !value.is_empty())
        .map(|value| value.trim_end_matches('/').to_owned())
}

fn from_network(target: &Path, partial: bool, output: Output) -> Result<InstalledPack, Failure> {
    let offline = stated(OFFLINE_VARIABLE).map(|value| value.to_lowercase());
    if offline.is_some_and(|value| ["1", "true", "yes", "on"].contains(&value.as_str())) {
        return Err(Failure::Data(format!(
            "cannot fetch longbench: {OFFLINE_VARIABLE} is set\nhint: unset it, or give a folder or an archive with --from"
        )));
    }
    let config_folder = stated(CONFIG_VARIABLE)
        .unwrap_or_else(|| format!("{CONFIG}/{LONGBENCH_COMMIT}/LongBench/config"));
    let hub = stated(HUB_VARIABLE).unwrap_or_else(|| HUB.to_owned());
    let archive_address = format!("{hub}/{RECORDS}");
    let downloader = Downloader::new();
    // The small files first: where there is no network, that is then known at once.
    let config = |name: &str| downloader.bytes(&format!("{config_folder}/{name}"), CONFIG_BYTES);
    let config = ConfigFiles {
        prompts: config("dataset2prompt.json")?,
        lengths: config("dataset2maxlen.json")?,
        from: config_folder.clone(),
    };
    config
        .check()
        .map_err(|error| Failure::Data(format!("{config_folder}: {error}")))?;
    let folder = tempfile::Builder::new()
        .prefix("ripplekv-longbench-")
        .tempdir()
        .map_err(|error| Failure::Data(format!("cannot make a temporary folder: {error}")))?;
    let archive = folder.path().join("data.zip");
    output.note(&format!("fetching {archive_address}"));
    let mut told = 0;
    downloader.file(
        &archive_address,
        &archive,
        ARCHIVE_BYTES,
        &mut |bytes, all| {
            // A line every 20 MB: enough to see that it goes on, in a log as on a terminal.
            if bytes / (20 * MEGABYTE) > told {
                told = bytes / (20 * MEGABYTE);
                let of = all.map_or_else(String::new, |all| format!(" of {}", all / MEGABYTE));
                output.note(&format!("{}{of} MB", bytes / MEGABYTE));
            }
        },
    )?;
    let request = InstallRequest {
        records: RecordSource::Archive(&archive),
        records_from: archive_address.clone(),
        config,
        partial,
    };
    install_longbench(&request, target).map_err(|error| {
        // The file is gone with its folder; the address is what the user knows.
        let text = error.to_string();
        Failure::Data(text.replace(&archive.display().to_string(), &archive_address))
    })
}
