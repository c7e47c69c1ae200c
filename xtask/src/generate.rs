//! Generated files: tables of the README between markers, the command line page, the schema of the spec.
//! A table stands between `<!-- generated: NAME -->` and `<!-- /generated -->`; NAME is a page of `ripplekv docs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Files written whole, and the arguments of the program that print them.
const WHOLE: &[(&str, &[&str])] = &[
    ("experiments/schema.json", &["schema"]),
    ("docs/cli.md", &["docs", "cli"]),
];

/// Files with tables between markers; one that does not exist is left out.
const MARKED: &[&str] = &[
    "README.md",
    "docs/spec.md",
    "docs/results.md",
    "CONTRIBUTING.md",
];

/// The main table of the reference run that the README shows.
const REFERENCE_TABLE: &str = "reports/quickstart/smollm2-135m-instruct-q4-aware/main.md";

/// Writes, or with `check` compares, every generated file.
pub(crate) fn generate(root: &Path, check: bool) -> Result<String> {
    let program = program(root)?;
    let print = |arguments: &[&str]| print(&program, root, arguments);
    let mut changed = Vec::new();
    for (file, arguments) in WHOLE {
        changed.extend(put(root, file, &print(arguments)?, check)?);
    }
    for file in MARKED {
        let path = root.join(file);
        if !path.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| (*file).to_owned())?;
        let filled = fill(&text, |page| match page {
            "main-table" => main_table(root),
            page => print(&["docs", page]),
        })
        .with_context(|| (*file).to_owned())?;
        changed.extend(put(root, file, &filled, check)?);
    }
    match (changed.is_empty(), check) {
        (true, _) => Ok("generated files are up to date".to_owned()),
        (false, true) => bail!(
            "not up to date: {}\nhint: cargo xtask generate",
            changed.join(", ")
        ),
        (false, false) => Ok(format!("written: {}", changed.join(", "))),
    }
}

/// The main table of the committed reference report, so that the README shows what a command made.
fn main_table(root: &Path) -> Result<String> {
    let report = root.join(REFERENCE_TABLE);
    std::fs::read_to_string(&report).with_context(|| report.display().to_string())
}

/// The built program: beside this one, or built now.
fn program(root: &Path) -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folder = here.parent().context("this program lies in no folder")?;
    let mut build = Command::new(env!("CARGO"));
    // Build scripts look at the variables that cargo set for this program: with them ring, and all that stands on it,
    // would be compiled again, and once more at the next build from outside.
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_ours {
            build.env_remove(name);
        }
    }
    let status = build
        .args(["build", "--release", "--quiet", "--package", "ripplekv-cli"])
        .current_dir(root)
        .status()
        .context("cannot run cargo build")?;
    if !status.success() {
        bail!("ripplekv does not build");
    }
    Ok(folder.join(format!("ripplekv{}", std::env::consts::EXE_SUFFIX)))
}

fn print(program: &Path, root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .env_remove("RIPPLEKV_FAKE_ENGINE")
        .current_dir(root)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "ripplekv {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Writes a file where it differs, or only says so.
fn put(root: &Path, file: &str, text: &str, check: bool) -> Result<Option<String>> {
    let path = root.join(file);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    if before == text {
        return Ok(None);
    }
    if !check {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text).with_context(|| file.to_owned())?;
    }
    Ok(Some(file.to_owned()))
}

const OPEN: &str = "<!-- generated: ";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- /generated -->";

/// Replaces what stands between the markers.
fn fill(text: &str, mut page: impl FnMut(&str) -> Result<String>) -> Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(OPEN) {
        let after = &rest[start + OPEN.len()..];
        let name_end = after.find(OPEN_END).context("a marker does not end")?;
        let name = &after[..name_end];
        let close = after
            .find(CLOSE)
            .with_context(|| format!("the marker of '{name}' is not closed"))?;
        filled.push_str(&rest[..start + OPEN.len() + name_end + OPEN_END.len()]);
        filled.push_str(&format!("\n{}\n", page(name)?.trim_end()));
        filled.push_str(CLOSE);
        rest = &after[close + CLOSE.len()..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{fill, main_table};

    /// The README's table and pictures are the committed report's, which in turn is what a command makes
    /// (`ripplekv-cli/tests/it/committed.rs`).
    #[test]
    fn the_readme_shows_the_committed_report() {
        let root = crate::root();
        let text = std::fs::read_to_string(root.join("README.md")).unwrap();
        let mut tables = 0;
        let filled = fill(&text, |page| {
            if page == "main-table" {
                tables += 1;
                return main_table(&root);
            }
            // Other pages come from the program, not from the report: they stay as they are.
            let start = text.find(&format!("<!-- generated: {page} -->")).unwrap();
            let inside = text[start..].split_once("-->").unwrap().1;
            Ok(inside
                .split("<!-- /generated -->")
                .next()
                .unwrap()
                .trim_start()
                .to_owned())
        });
        assert_eq!(filled.unwrap(), text, "hint: cargo xtask generate");
        assert_eq!(tables, 1);
        let pictures: Vec<&str> = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .filter(|link| link.ends_with(".png") || link.ends_with(".svg"))
            .collect();
        assert!(!pictures.is_empty());
        let listed = std::fs::read_to_string(root.join("reports/quickstart/files.json")).unwrap();
        for picture in pictures {
            let name = Path::new(picture)
                .strip_prefix("reports/quickstart")
                .unwrap();
            assert!(
                listed.contains(&format!("\"{}\"", name.display())),
                "{picture}"
            );
            assert!(root.join(picture).is_file(), "{picture}");
        }
    }

    #[test]
    fn only_what_stands_between_markers_changes() {
        let text = "a\n<!-- generated: tasks -->\nold\n<!-- /generated -->\nb\n<!-- generated: models --><!-- /generated -->c";
        let filled = fill(text, |page| Ok(format!("[{page}]\n"))).unwrap();
        assert_eq!(
            filled,
            "a\n<!-- generated: tasks -->\n[tasks]\n<!-- /generated -->\nb\n<!-- generated: models -->\n[models]\n<!-- /generated -->c"
        );
        assert_eq!(
            fill(&filled, |page| Ok(format!("[{page}]\n"))).unwrap(),
            filled
        );
        assert!(fill("<!-- generated: x -->", |_| Ok(String::new())).is_err());
    }
}
