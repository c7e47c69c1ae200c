//! Where fixtures and the pip-packaged model lie.

use std::path::PathBuf;

/// A path below `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).join(name)
}

/// A JSON file below `tests/fixtures`.
pub(crate) fn json_fixture(name: &str) -> serde_json::Value {
    let path = fixture(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
