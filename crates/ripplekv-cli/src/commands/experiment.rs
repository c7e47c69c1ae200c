//! What `run`, `plan` and `check` share: spec and selection to a plan, and the folders it uses.

use std::path::{Path, PathBuf};

use ripplekv_runner::catalog::Catalog;
use ripplekv_runner::plan::{Plan, PlanOptions};
use ripplekv_runner::select::{Only, Shard};
use ripplekv_runner::spec::Spec;

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
    };
    Ok(Plan::new(&spec, catalog, &pack, options)?)
}

/// The results folder of a plan.
pub(crate) fn results_dir(plan: &Plan, selection: &SelectionArguments) -> PathBuf {
    selection
        .out
        .clone()
        .unwrap_or_else(|| Path::new("results").join(&plan.name))
}

/// The report folder that belongs to a results folder.
pub(crate) fn report_dir(results: &Path) -> PathBuf {
    match (results.parent(), results.file_name()) {
        (Some(parent), Some(name)) if parent.file_name().is_some_and(|last| last == "results") => {
            parent.with_file_name("reports").join(name)
        }
        (_, Some(name)) => Path::new("reports").join(name),
        _ => PathBuf::from("reports/report"),
    }
}

#[cfg(test)]
mod tests {
    use super::report_dir;
    use std::path::Path;

    #[test]
    fn reports_stand_beside_results() {
        for (results, report) in [
            ("results/quickstart", "reports/quickstart"),
            ("/a/results/x", "/a/reports/x"),
            ("/tmp/elsewhere", "reports/elsewhere"),
            ("results/x/", "reports/x"),
        ] {
            assert_eq!(report_dir(Path::new(results)), Path::new(report));
        }
    }
}
