//! What `run`, `plan`, `check` and the stages share: spec and selection to a plan, and the folders it uses.

use std::path::{Component, Path, PathBuf};

use ripplekv_model::home::Home;
use ripplekv_runner::RunnerError;
use ripplekv_runner::catalog::Catalog;
use ripplekv_runner::plan::{Plan, PlanOptions};
use ripplekv_runner::select::{Only, Shard};
use ripplekv_runner::spec::{DEFAULT_CALIBRATION, Spec};
use ripplekv_tasks::PackError;

use crate::arguments::SelectionArguments;
use crate::failure::Failure;
use crate::packs;

/// The pack's folder: `--pack`, or what the spec names.
pub(crate) fn pack_dir(spec: &Spec, given: Option<&Path>) -> Result<PathBuf, Failure> {
    match (given, &spec.tasks.pack) {
        (Some(folder), _) => Ok(folder.to_owned()),
        (None, Some(name)) => Ok(packs::find(name, spec.source.file())),
        (None, None) => Err(spec
            .source
            .error(
                "tasks",
                "the key 'tasks.pack' is missing",
                Some("write tasks: {pack: quickstart}, or give --pack DIR".to_owned()),
            )
            .into()),
    }
}

/// Says where a pack that the spec names was looked for, if that is what is wrong.
pub(crate) fn named_pack(error: RunnerError, spec: &Spec, given: Option<&Path>) -> Failure {
    let (RunnerError::Pack(PackError::NoFolder { path, hint }), None, Some(name)) =
        (&error, given, &spec.tasks.pack)
    else {
        return error.into();
    };
    let places: Vec<String> = packs::places(name, spec.source.file())
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    Failure::Data(format!(
        "no pack folder at {}\nhint: {hint}; looked in {}; --pack DIR names another place",
        path.display(),
        places.join(", ")
    ))
}

/// Reads a spec and resolves it under the given selection.
pub(crate) fn plan(
    file: &Path,
    selection: &SelectionArguments,
    catalog: &Catalog,
) -> Result<Plan, Failure> {
    let only = Only::parse(&selection.only)?;
    let spec = Spec::load(file, &selection.overrides)?;
    let pack = pack_dir(&spec, selection.pack.as_deref())?;
    let options = PlanOptions {
        only,
        limit: selection.limit.clone(),
        shard: selection.shard.unwrap_or(Shard::ALL),
        calibration: calibration_dir(&spec),
    };
    Plan::new(&spec, catalog, &pack, options)
        .map_err(|error| named_pack(error, &spec, selection.pack.as_deref()))
}

/// The folder of the calibration pack that the spec names.
pub(crate) fn calibration_dir(spec: &Spec) -> PathBuf {
    let name = match spec.profile.calibration.as_str() {
        DEFAULT_CALIBRATION => "calibration",
        name => name,
    };
    packs::find(name, spec.source.file())
}

/// The folder that keeps profiles between experiments; where the machine has none, the results folder itself.
pub(crate) fn profile_home(results: &Path) -> PathBuf {
    Home::from_environment().map_or_else(|_| results.to_owned(), |home| home.path().to_owned())
}

/// The results folder of an experiment.
pub(crate) fn results_dir(name: &str, selection: &SelectionArguments) -> PathBuf {
    selection
        .out
        .clone()
        .unwrap_or_else(|| Path::new("results").join(name))
}

/// The report folder that belongs to a results folder: `reports/<name>` for `results/<name>` below the current
/// folder. Elsewhere it lies in the results folder itself, so that two experiments never share one.
pub(crate) fn report_dir(results: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    report_dir_from(&here, results)
}

fn report_dir_from(here: &Path, results: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in here.join(results).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    match whole.strip_prefix(here.join("results")) {
        Ok(name) if name.components().count() == 1 => Path::new("reports").join(name),
        _ => results.join("report"),
    }
}

#[cfg(test)]
mod tests {
    use super::report_dir_from;
    use std::path::Path;

    #[test]
    fn reports_stand_beside_results_and_never_share_a_folder() {
        for (results, report) in [
            ("results/quickstart", "reports/quickstart"),
            ("results/x/", "reports/x"),
            ("./results/x", "reports/x"),
            ("/here/results/x", "reports/x"),
            ("other/../results/x", "reports/x"),
            ("/a/results/x", "/a/results/x/report"),
            ("/tmp/elsewhere", "/tmp/elsewhere/report"),
            ("a/x", "a/x/report"),
            ("b/x", "b/x/report"),
            ("results", "results/report"),
            ("results/a/x", "results/a/x/report"),
            ("../results/x", "../results/x/report"),
        ] {
            assert_eq!(
                report_dir_from(Path::new("/here"), Path::new(results)),
                Path::new(report)
            );
        }
    }
}
