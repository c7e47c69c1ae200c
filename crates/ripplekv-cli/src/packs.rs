//! Where a pack lies: the folder given, or `datasets/<name>` beside the current folder or above the spec.

use std::path::{Path, PathBuf};

/// The folder of a pack named in a spec. Where nothing is found, the folder where it should be.
pub(crate) fn find(name: &str, spec_file: Option<&Path>) -> PathBuf {
    let places = places(name, spec_file);
    let found = places.iter().find(|folder| folder.is_dir());
    found.or(places.first()).cloned().unwrap_or_default()
}

/// Where a pack is looked for, the first place first.
pub(crate) fn places(name: &str, spec_file: Option<&Path>) -> Vec<PathBuf> {
    let is_path = name.contains(['/', '\\']) || name.starts_with('.');
    let relative = if is_path {
        PathBuf::from(name)
    } else {
        Path::new("datasets").join(name)
    };
    let above_spec = spec_file
        .and_then(|file| std::path::absolute(file).ok())
        .map(|file| {
            file.ancestors()
                .skip(1)
                .map(|folder| folder.join(&relative))
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
    std::iter::once(relative).chain(above_spec).collect()
}
