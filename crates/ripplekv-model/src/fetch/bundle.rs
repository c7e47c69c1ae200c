//! Pinned files out of one Python package, put into the cache folder once.
//! A lock makes other processes wait; files appear under their names only when complete and checked.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::pip::Pip;
use super::{FetchError, archive};
use crate::home::Home;

/// One file inside an archive, with what it must be.
#[derive(Clone, Copy, Debug)]
pub struct PinnedMember<'a> {
    /// Path inside the archive.
    pub member: &'a str,
    /// Path below the bundle's folder.
    pub file: &'a str,
    /// Size.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: &'a str,
}

/// The wanted files of one released Python package.
#[derive(Clone, Copy, Debug)]
pub struct PipBundle<'a> {
    /// Name on the package index.
    pub package: &'a str,
    /// Exact version.
    pub version: &'a str,
    /// SHA-256 of the wheel or source archive; pip checks it before it looks inside.
    pub archive_sha256: &'a str,
    /// Folder below the cache folder.
    pub folder: &'a str,
    /// The files.
    pub members: &'a [PinnedMember<'a>],
}

/// Whether a bundle is in the cache folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleState {
    /// All files are there with the right sizes.
    Present,
    /// At least one file is not there.
    Absent,
}

impl PipBundle<'_> {
    /// Where the files lie.
    pub fn folder_in(&self, home: &Home) -> PathBuf {
        home.path().join(self.folder)
    }

    /// As pip writes it.
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }

    /// A quick look that neither hashes nor fetches; a file of the wrong size is an error.
    pub fn state(&self, home: &Home) -> Result<BundleState, FetchError> {
        let folder = self.folder_in(home);
        let mut state = BundleState::Present;
        for member in self.members {
            let path = folder.join(member.file);
            match fs::metadata(&path) {
                Ok(metadata) if metadata.len() == member.bytes => {}
                Ok(metadata) => return Err(wrong_size(path, metadata.len(), member)),
                Err(error) if is_absent(&error) => state = BundleState::Absent,
                Err(source) => return Err(FetchError::Read { path, source }),
            }
        }
        Ok(state)
    }

    /// As [`Self::state`], and every present file has its digest.
    fn verify(&self, home: &Home) -> Result<BundleState, FetchError> {
        let state = self.state(home)?;
        if state == BundleState::Present {
            let folder = self.folder_in(home);
            for member in self.members {
                let path = folder.join(member.file);
                let found = digest_of(&path)?;
                if found != member.sha256 {
                    let problem = format!("its SHA-256 is {found}, not {}", member.sha256);
                    return Err(FetchError::Damaged { path, problem });
                }
            }
        }
        Ok(state)
    }
}

/// Fetches bundles into one cache folder.
///
/// ```no_run
/// use ripplekv_model::fetch::{Fetcher, JIEBA};
/// use ripplekv_model::home::Home;
///
/// let folder = Fetcher::new(Home::from_environment()?).fetch(&JIEBA)?;
/// assert!(folder.join("dict.txt").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fetcher {
    home: Home,
    pip: Pip,
}

impl Fetcher {
    /// Fetches with the `python3` that the environment finds.
    pub fn new(home: Home) -> Self {
        Self {
            home,
            pip: Pip::default(),
        }
    }

    /// Fetches with this Python.
    pub fn with_python(home: Home, program: impl Into<PathBuf>) -> Self {
        Self {
            home,
            pip: Pip::with_program(program.into()),
        }
    }

    /// The folder with the bundle's files, fetched if they are not there. Every file's size and
    /// SHA-256 is checked in either case.
    pub fn fetch(&self, bundle: &PipBundle<'_>) -> Result<PathBuf, FetchError> {
        let folder = bundle.folder_in(&self.home);
        if bundle.verify(&self.home)? == BundleState::Present {
            return Ok(folder);
        }
        let _lock = self.lock(&folder)?;
        // Another process may have brought it while this one waited.
        if bundle.verify(&self.home)? == BundleState::Absent {
            let work = beside(&folder, "partial");
            clear(&work)?;
            let outcome = self.bring(bundle, &folder, &work);
            let cleared = clear(&work);
            outcome?;
            cleared?;
        }
        Ok(folder)
    }

    fn lock(&self, folder: &Path) -> Result<File, FetchError> {
        let path = beside(folder, "lock");
        let open = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|source| FetchError::NotWritable {
            path: path.clone(),
            source,
        })
    }

    /// Everything happens in `work`, on the same file system; the last step is a rename.
    fn bring(&self, bundle: &PipBundle<'_>, folder: &Path, work: &Path) -> Result<(), FetchError> {
        let downloads = work.join("download");
        make_folder(&downloads)?;
        let place = folder.join(bundle.members.first().map_or("", |member| member.file));
        let archive = self.pip.download(bundle, &downloads, &place)?;
        for member in bundle.members {
            let target = work.join("files").join(member.file);
            extract(bundle, member, &archive, &target)?;
        }
        for member in bundle.members {
            let target = folder.join(member.file);
            make_folder(target.parent().unwrap_or(folder))?;
            fs::rename(work.join("files").join(member.file), &target).map_err(|source| {
                FetchError::NotWritable {
                    path: target,
                    source,
                }
            })?;
        }
        Ok(())
    }
}

fn extract(
    bundle: &PipBundle<'_>,
    member: &PinnedMember<'_>,
    archive: &Path,
    target: &Path,
) -> Result<(), FetchError> {
    make_folder(target.parent().unwrap_or(target))?;
    let not_writable = |source| FetchError::NotWritable {
        path: target.to_owned(),
        source,
    };
    let file = File::create_new(target).map_err(not_writable)?;
    let mut writer = HashingWriter::new(file);
    archive::copy_member(archive, member.member, member.bytes, &mut writer).map_err(|problem| {
        match problem {
            archive::Problem::Write(source) => not_writable(source),
            archive::Problem::Archive(problem) => FetchError::BrokenArchive {
                package: bundle.requirement(),
                problem,
            },
        }
    })?;
    let (bytes, digest) = writer.finish().map_err(not_writable)?;
    if bytes != member.bytes || digest != member.sha256 {
        return Err(FetchError::WrongDigest {
            package: bundle.requirement(),
            problem: format!(
                "{} has {bytes} bytes and SHA-256 {digest}, expected {} and {}",
                member.member, member.bytes, member.sha256
            ),
        });
    }
    Ok(())
}

/// Writes to a file and hashes what it writes.
struct HashingWriter {
    file: File,
    hasher: Sha256,
    bytes: u64,
}

impl HashingWriter {
    fn new(file: File) -> Self {
        Self {
            file,
            hasher: Sha256::new(),
            bytes: 0,
        }
    }

    fn finish(self) -> io::Result<(u64, String)> {
        // The rename that follows must not be durable before the bytes are.
        self.file.sync_all()?;
        Ok((self.bytes, hexadecimal(&self.hasher.finalize())))
    }
}

impl io::Write for HashingWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.hasher.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn digest_of(path: &Path) -> Result<String, FetchError> {
    let mut hasher = Sha256::new();
    let read = || {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = io::Read::read(&mut file, &mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            hasher.update(&buffer[..count]);
        }
    };
    match { read }() {
        Ok(()) => Ok(hexadecimal(&hasher.finalize())),
        Err(source) => Err(FetchError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wrong_size(path: PathBuf, found: u64, member: &PinnedMember<'_>) -> FetchError {
    let problem = format!("it has {found} bytes, not {}", member.bytes);
    FetchError::Damaged { path, problem }
}

/// A file where a folder should be makes everything below it absent; making the folder then fails
/// with the better message.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// `models/x` -> `models/x.lock`.
fn beside(folder: &Path, extension: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

fn make_folder(path: &Path) -> Result<(), FetchError> {
    fs::create_dir_all(path).map_err(|source| FetchError::NotWritable {
        path: path.to_owned(),
        source,
    })
}

/// Removes what an interrupted process left, or this one no longer needs.
fn clear(work: &Path) -> Result<(), FetchError> {
    match fs::remove_dir_all(work) {
        Err(error) if !is_absent(&error) => Err(FetchError::NotWritable {
            path: work.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}
