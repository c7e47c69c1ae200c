//! Model folders from the Hugging Face hub, in the cache that its other tools share.
//! `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN` and `HF_HUB_OFFLINE` mean what they mean there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// `hf-hub` has no time limit of its own: without this one a dropped packet is waited for for ever.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";
const WEIGHTS_INDEX: &str = "model.safetensors.index.json";
/// Files that many repositories have and none must have.
const OPTIONAL: &[&str] = &[
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
];

/// Why a model could not be had from the hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The repository's name has the wrong form.
    #[error("`{repository}` is not a hub repository\nhint: write it as `organisation/name`")]
    BadName {
        /// The name as given.
        repository: String,
    },
    /// There is no place for the hub's cache.
    #[error("no home folder is known for the hub's cache\nhint: set HF_HOME")]
    NoCache,
    /// No answer from the hub.
    #[error(
        "cannot fetch {repository}: {endpoint} cannot be reached ({problem})\nhint: connect to a network, or copy the model folder here and use {{path: FOLDER}}"
    )]
    Unreachable {
        /// The repository.
        repository: String,
        /// The hub's address.
        endpoint: String,
        /// What was seen.
        problem: String,
    },
    /// The hub was not asked.
    #[error(
        "cannot fetch {repository}: HF_HUB_OFFLINE is set and the model is not complete in {}\nhint: unset it, or copy the model folder here and use {{path: FOLDER}}",
        cache.display()
    )]
    Offline {
        /// The repository.
        repository: String,
        /// The hub's cache folder.
        cache: PathBuf,
    },
    /// The hub refused.
    #[error(
        "cannot fetch {repository} at revision {revision}: the hub refuses or does not know it ({problem})\nhint: check the name and the revision; for a gated model accept its licence on its page and set HF_TOKEN"
    )]
    Refused {
        /// The repository.
        repository: String,
        /// The revision.
        revision: String,
        /// The status.
        problem: String,
    },
    /// The repository is not a model that can be read.
    #[error(
        "{repository} at revision {revision} has no {file}\nhint: ripplekv reads safetensors with a tokenizer.json"
    )]
    MissingFile {
        /// The repository.
        repository: String,
        /// The revision.
        revision: String,
        /// What is missing.
        file: String,
    },
    /// The list of shards makes no sense.
    #[error("{}: {problem}\nhint: delete it and run again", path.display())]
    BadIndex {
        /// The index file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A download broke off, or the disk is full.
    #[error(
        "cannot fetch {file} of {repository}: {source}\nhint: run again; a part that is here already is kept"
    )]
    Download {
        /// The repository.
        repository: String,
        /// The file.
        file: String,
        /// The reason.
        source: ApiError,
    },
}

/// One hub and one cache.
#[derive(Clone, Debug)]
pub struct Hub {
    cache_folder: PathBuf,
    endpoint: String,
    token: Option<String>,
    offline: bool,
}

impl Hub {
    /// As the environment says.
    pub fn from_environment() -> Result<Self, HubError> {
        let stated = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let cache_folder = match stated("HF_HOME") {
            Some(home) => PathBuf::from(home).join("hub"),
            None => dirs::home_dir()
                .ok_or(HubError::NoCache)?
                .join(".cache/huggingface/hub"),
        };
        let token = stated("HF_TOKEN").or_else(|| Cache::new(cache_folder.clone()).token());
        Ok(Self {
            endpoint: stated("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            token,
            offline: stated("HF_HUB_OFFLINE").is_some_and(|value| {
                ["1", "true", "yes", "on"].contains(&value.to_lowercase().as_str())
            }),
            cache_folder,
        })
    }

    /// This cache folder and this address.
    pub fn at(cache_folder: impl Into<PathBuf>, endpoint: &str) -> Self {
        Self {
            cache_folder: cache_folder.into(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: None,
            offline: false,
        }
    }

    /// The model's folder if it is complete in the cache; asks nobody.
    pub fn cached(&self, repository: &str, revision: &str) -> Option<PathBuf> {
        let cache = Cache::new(self.cache_folder.clone());
        let repo = Repo::with_revision(repository.to_owned(), RepoType::Model, revision.to_owned());
        let config = cache.repo(repo).get(CONFIG)?;
        let folder = config.parent()?.to_owned();
        let has = |name: &str| folder.join(name).exists();
        let complete = has(TOKENIZER)
            && if has(WEIGHTS_INDEX) {
                shards(&folder.join(WEIGHTS_INDEX))
                    .ok()?
                    .iter()
                    .all(|shard| has(shard))
            } else {
                has(WEIGHTS)
            };
        complete.then_some(folder)
    }

    /// The model's folder, downloaded if it is not complete in the cache.
    pub fn fetch(&self, repository: &str, revision: &str) -> Result<PathBuf, HubError> {
        check_name(repository)?;
        if let Some(folder) = self.cached(repository, revision) {
            return Ok(folder);
        }
        if self.offline {
            return Err(HubError::Offline {
                repository: repository.to_owned(),
                cache: self.cache_folder.clone(),
            });
        }
        let api = ApiBuilder::from_cache(Cache::new(self.cache_folder.clone()))
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone())
            .with_retries(2)
            .build()
            .map_err(|error| self.explain(repository, revision, &error))?;
        let listing = self.listing(&api, repository, revision)?;

        // All files from one commit, although a branch may move meanwhile.
        let pinned = Repo::with_revision(
            repository.to_owned(),
            RepoType::Model,
            listing.commit.clone(),
        );
        let files = Files {
            repo: api.repo(pinned),
            listing: &listing,
            repository,
            revision,
        };
        let config = files.need(CONFIG)?;
        files.need(TOKENIZER)?;
        for name in OPTIONAL {
            if listing.names.contains(*name) {
                files.get(name)?;
            }
        }
        if listing.names.contains(WEIGHTS_INDEX) {
            for shard in shards(&files.get(WEIGHTS_INDEX)?)? {
                files.need(&shard)?;
            }
        } else {
            files.need(WEIGHTS)?;
        }
        let branch =
            Repo::with_revision(repository.to_owned(), RepoType::Model, revision.to_owned());
        Cache::new(self.cache_folder.clone())
            .repo(branch)
            .create_ref(&listing.commit)
            .map_err(|source| HubError::Download {
                repository: repository.to_owned(),
                file: format!("refs/{revision}"),
                source: source.into(),
            })?;
        Ok(config.parent().map(Path::to_owned).unwrap_or(config))
    }

    fn listing(&self, api: &Api, repository: &str, revision: &str) -> Result<Listing, HubError> {
        let repo = Repo::with_revision(repository.to_owned(), RepoType::Model, revision.to_owned());
        let repo = api.repo(repo);
        let (sender, receiver) = mpsc::channel();
        // A thread that never gets an answer ends with the process.
        std::thread::spawn(move || {
            let _ = sender.send(repo.info());
        });
        match receiver.recv_timeout(ANSWER_WITHIN) {
            Ok(Ok(info)) => Ok(Listing {
                commit: info.sha,
                names: info
                    .siblings
                    .into_iter()
                    .map(|file| file.rfilename)
                    .collect(),
            }),
            Ok(Err(error)) => Err(self.explain(repository, revision, &error)),
            Err(_) => Err(HubError::Unreachable {
                repository: repository.to_owned(),
                endpoint: self.endpoint.clone(),
                problem: format!("no answer within {} s", ANSWER_WITHIN.as_secs()),
            }),
        }
    }

    fn explain(&self, repository: &str, revision: &str, error: &ApiError) -> HubError {
        let problem = error.to_string();
        if problem.contains("http status: 4") {
            return HubError::Refused {
                repository: repository.to_owned(),
                revision: revision.to_owned(),
                problem,
            };
        }
        HubError::Unreachable {
            repository: repository.to_owned(),
            endpoint: self.endpoint.clone(),
            problem,
        }
    }
}

struct Listing {
    commit: String,
    names: BTreeSet<String>,
}

struct Files<'a> {
    repo: ApiRepo,
    listing: &'a Listing,
    repository: &'a str,
    revision: &'a str,
}

impl Files<'_> {
    fn get(&self, name: &str) -> Result<PathBuf, HubError> {
        self.repo.get(name).map_err(|source| HubError::Download {
            repository: self.repository.to_owned(),
            file: name.to_owned(),
            source,
        })
    }

    fn need(&self, name: &str) -> Result<PathBuf, HubError> {
        if !self.listing.names.contains(name) {
            return Err(HubError::MissingFile {
                repository: self.repository.to_owned(),
                revision: self.revision.to_owned(),
                file: name.to_owned(),
            });
        }
        self.get(name)
    }
}

/// `organisation/name`, which becomes part of an address and of a folder's name.
fn check_name(repository: &str) -> Result<(), HubError> {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    match repository.split_once('/') {
        Some((organisation, name)) if is_part(organisation) && is_part(name) => Ok(()),
        _ => Err(HubError::BadName {
            repository: repository.to_owned(),
        }),
    }
}

/// The files that an index names, each once, in order.
fn shards(index: &Path) -> Result<BTreeSet<String>, HubError> {
    let bad = |problem: String| HubError::BadIndex {
        path: index.to_owned(),
        problem,
    };
    let bytes = fs::read(index).map_err(|error| bad(error.to_string()))?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    let map = value["weight_map"]
        .as_object()
        .ok_or_else(|| bad("it has no `weight_map`".to_owned()))?;
    map.values()
        .map(|shard| match shard.as_str() {
            // A shard lies beside its index, wherever the index says.
            Some(name) if !name.contains(['/', '\\']) => Ok(name.to_owned()),
            _ => Err(bad(format!("{shard} is not a file name"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_names_have_two_plain_parts() {
        for good in ["Qwen/Qwen2.5-7B-Instruct", "a/b_c"] {
            check_name(good).unwrap();
        }
        for bad in [
            "", "gpt2", "a/b/c", "../b", "a/..", "a/b?x", "a /b", "/b", "a/",
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_index_cannot_name_files_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(WEIGHTS_INDEX);
        fs::write(
            &path,
            r#"{"weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors"}}"#,
        )
        .unwrap();
        assert!(
            shards(&path)
                .unwrap()
                .iter()
                .eq(["1.safetensors", "2.safetensors"])
        );
        for bad in [
            r#"{"weight_map": {"a": "../x"}}"#,
            r#"{"weight_map": {"a": 1}}"#,
            "{}",
            "{",
        ] {
            fs::write(&path, bad).unwrap();
            assert!(shards(&path).is_err(), "{bad}");
        }
    }
}
