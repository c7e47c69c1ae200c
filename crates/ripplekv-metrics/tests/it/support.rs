//! Where the tests find their data.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ripplekv_metrics::jieba::{SOURCE_FILES, Segmenter, Sources};
use serde::de::DeserializeOwned;

pub(crate) fn fixture_text(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn fixture<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_str(&fixture_text(name)).unwrap()
}

/// The records of JSON lines; only "\n" ends a line.
pub(crate) fn lines<T: DeserializeOwned>(text: &str) -> Vec<T> {
    text.split('\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The folder of shared LongBench files beside the project, or `None` with a message. The committed
/// fixtures cover the same metrics, so this may be absent in CI as well.
pub(crate) fn shared_longbench() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/longbench");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "skipped: {} is absent; tests/fixtures covers the same metrics",
        folder.display()
    );
    None
}

/// The segmenter over the data of the Python package, or `None` with a message; with `CI=true` its
/// absence is a failure.
pub(crate) fn segmenter() -> Option<&'static Segmenter> {
    static SEGMENTER: LazyLock<Option<Segmenter>> = LazyLock::new(load_segmenter);
    SEGMENTER.as_ref()
}

fn load_segmenter() -> Option<Segmenter> {
    let folder = jieba_folder();
    let texts = jieba_texts(&folder);
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    match texts {
        Ok([dictionary, start, transition, emission]) => {
            let sources = Sources {
                dictionary: &dictionary,
                start: &start,
                transition: &transition,
                emission: &emission,
            };
            Some(Segmenter::from_sources(&sources).unwrap())
        }
        Err(error) if in_ci || std::env::var_os("RIPPLEKV_JIEBA_DIR").is_some() => {
            panic!("jieba's data: {error}; set RIPPLEKV_JIEBA_DIR to the package's folder")
        }
        Err(error) => {
            eprintln!("skipped the Chinese part: {error}; set RIPPLEKV_JIEBA_DIR");
            None
        }
    }
}

/// `RIPPLEKV_JIEBA_DIR`, else where `ripplekv fetch` puts the package.
pub(crate) fn jieba_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("RIPPLEKV_JIEBA_DIR") {
        return PathBuf::from(folder);
    }
    let home = std::env::var_os("RIPPLEKV_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| {
        Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache/ripplekv")
    });
    home.join("jieba-0.42.1")
}

pub(crate) fn jieba_texts(folder: &Path) -> Result<[String; 4], String> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let [dictionary, start, transition, emission] = SOURCE_FILES;
    Ok([
        read(dictionary)?,
        read(start)?,
        read(transition)?,
        read(emission)?,
    ])
}
