//! Where fixtures and the pip-packaged model lie.

use std::path::PathBuf;

use ripplekv_model::catalog::{ModelFiles, ModelReference, resolve};
use ripplekv_model::home::Home;

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

/// Whether a test may skip what it cannot reach. Nothing is skipped in CI.
pub(crate) fn may_skip(reason: &str) -> bool {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        return false;
    }
    println!("skipped: {reason}");
    true
}

/// The quickstart's GGUF file, fetched into the user's own cache folder once; `None` without a
/// network outside CI.
pub(crate) fn smollm2() -> Option<PathBuf> {
    let home = Home::from_environment().unwrap();
    let name = ModelReference::Named("smollm2-135m-instruct-q4".to_owned());
    match resolve(&name, &home) {
        Ok(ModelFiles::Gguf(path)) => Some(path),
        Ok(other) => panic!("{other:?} is not a GGUF file"),
        Err(error) if may_skip(&error.to_string()) => None,
        Err(error) => panic!("{error}"),
    }
}
