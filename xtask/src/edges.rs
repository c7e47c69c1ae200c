//! The dependency edges between our crates: no other may exist.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Crate and the crates of the workspace it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ripplekv-metrics", &[]),
    ("ripplekv-tasks", &["ripplekv-metrics"]),
    ("ripplekv-cache", &[]),
    ("ripplekv-model", &["ripplekv-cache"]),
    ("ripplekv-runner", &["ripplekv-tasks", "ripplekv-metrics"]),
    (
        "ripplekv-engine",
        &[
            "ripplekv-model",
            "ripplekv-cache",
            "ripplekv-metrics",
            "ripplekv-tasks",
            "ripplekv-runner",
        ],
    ),
    ("ripplekv-report", &["ripplekv-runner", "ripplekv-metrics"]),
    (
        "ripplekv-cli",
        &[
            "ripplekv-metrics",
            "ripplekv-tasks",
            "ripplekv-cache",
            "ripplekv-model",
            "ripplekv-runner",
            "ripplekv-engine",
            "ripplekv-report",
        ],
    ),
    ("xtask", &[]),
];

/// Foreign crates that only some of ours may use directly, so that they stay at the edge of the tree.
const KEPT_APART: &[(&str, &[&str])] = &[
    ("polars", &["ripplekv-report"]),
    ("plotters", &["ripplekv-report"]),
    (
        "candle-core",
        &["ripplekv-cache", "ripplekv-model", "ripplekv-engine"],
    ),
    ("candle-nn", &["ripplekv-model"]),
    ("clap", &["ripplekv-cli"]),
];

/// Checks the workspace at `root` and gives the number of edges between our crates.
pub(crate) fn check(root: &Path) -> Result<usize> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    check_metadata(&metadata)
}

fn check_metadata(metadata: &Value) -> Result<usize> {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty);
    let names: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut wrong = Vec::new();
    let mut edges = 0;
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("the crate {name} is in no room of the design"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap_or(&empty) {
            let used = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if names.contains(&used) {
                edges += 1;
                if !allowed.contains(&used) {
                    wrong.push(format!("{name} may not use {used}"));
                }
            }
            if let Some((_, users)) = KEPT_APART.iter().find(|(foreign, _)| *foreign == used)
                && !for_tests
                && !users.contains(&name)
            {
                wrong.push(format!("{name} may not use {used} directly"));
            }
        }
    }
    if wrong.is_empty() {
        Ok(edges)
    } else {
        bail!("{}\nhint: see CONTRIBUTING.md, \"Rooms\"", wrong.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::{ALLOWED, check, check_metadata};
    use serde_json::json;

    #[test]
    fn the_workspace_has_only_designed_edges() {
        let edges = check(&crate::root()).unwrap();
        let designed: usize = ALLOWED.iter().map(|(_, allowed)| allowed.len()).sum();
        assert!(edges > 0 && edges <= 2 * designed, "{edges}");
    }

    #[test]
    fn a_wrong_edge_is_found() {
        let package = |name: &str, uses: &str, kind| json!({"name": name, "dependencies": [{"name": uses, "kind": kind}]});
        let error = |packages| {
            check_metadata(&json!({"packages": packages}))
                .unwrap_err()
                .to_string()
        };
        let tasks = package("ripplekv-tasks", "ripplekv-metrics", json!(null));
        let metrics = package("ripplekv-metrics", "ripplekv-tasks", json!("dev"));
        assert!(
            error(json!([tasks, metrics])).contains("ripplekv-metrics may not use ripplekv-tasks")
        );
        let polars = package("ripplekv-runner", "polars", json!(null));
        assert!(error(json!([polars])).contains("ripplekv-runner may not use polars directly"));
        let stranger = package("ripplekv-new", "serde", json!(null));
        assert!(error(json!([stranger])).contains("ripplekv-new is in no room"));
    }
}
