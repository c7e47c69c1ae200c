//! Fetching through pip: once, checked, by one process at a time, and every failure in plain words.
//! A shell script stands in for Python; the last tests use the real one and the real index.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ripplekv_model::catalog::{ModelFiles, ModelReference, resolve};
use ripplekv_model::fetch::{
    BundleState, FetchError, Fetcher, JIEBA, PinnedMember, PipBundle, jieba,
};
use ripplekv_model::home::Home;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support::may_skip;

const CONTENT: &[u8] = b"the tide turned before the bakery opened\n";
const MEMBER: &str = "package/data file.bin";
const FILE: &str = "data file.bin";
const FOLDER: &str = "models/m";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

fn wheel(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(*name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A cache folder, an archive that "the index" has, and a script in the place of Python.
struct Bench {
    folder: TempDir,
    digest: String,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            folder: tempfile::Builder::new()
                .prefix("ripplekv fetch é")
                .tempdir()
                .unwrap(),
            digest: sha256(CONTENT),
        };
        fs::create_dir(bench.path("bin")).unwrap();
        bench.serve(
            "p-1-py3-none-any.whl",
            &wheel(&[("other", b"x"), (MEMBER, CONTENT)]),
        );
        bench.script("cp \"$BENCH\"/index/* \"$dest\"/");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn home(&self) -> Home {
        Home::at(self.path("home"))
    }

    /// The one archive that the index has.
    fn serve(&self, name: &str, bytes: &[u8]) {
        fs::remove_dir_all(self.path("index")).ok();
        fs::create_dir(self.path("index")).unwrap();
        fs::write(self.path("index").join(name), bytes).unwrap();
    }

    /// Python notes that it ran, then does this, with `$dest` as pip would have it.
    fn script(&self, body: &str) {
        let text = format!(
            "#!/bin/sh\nBENCH='{}'\necho \"$@\" >> \"$BENCH/runs\"\nwhile [ $# -gt 0 ]; do\n  [ \"$1\" = --dest ] && dest=$2\n  shift\ndone\n{body}\n",
            self.folder.path().display()
        );
        self.write_script(&text);
    }

    fn write_script(&self, text: &str) {
        let path = self.path("bin/python3");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).map_or(0, |text| text.lines().count())
    }

    fn members(&self) -> [PinnedMember<'_>; 1] {
        [PinnedMember {
            member: MEMBER,
            file: FILE,
            bytes: CONTENT.len() as u64,
            sha256: &self.digest,
        }]
    }

    fn fetch(&self) -> Result<PathBuf, FetchError> {
        Fetcher::with_python(self.home(), self.path("bin/python3")).fetch(&bundle(&self.members()))
    }

    fn file(&self) -> PathBuf {
        self.path("home").join(FOLDER).join(FILE)
    }

    /// A failure must leave nothing but the lock, and must have a hint.
    fn fails(&self) -> FetchError {
        let error = self.fetch().unwrap_err();
        let left: Vec<PathBuf> = files_below(&self.path("home"));
        assert!(
            left.iter()
                .all(|path| path.extension().is_some_and(|e| e == "lock")),
            "{error}: left {left:?}"
        );
        assert!(error.to_string().contains("\nhint: "), "{error}");
        error
    }

    /// This test program once more, as a process that fetches with the script found on PATH.
    fn child(&self) -> Child {
        let path = std::env::var("PATH").unwrap();
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fetch::a_process_of_its_own", "--ignored"])
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("BENCH_HOME", self.path("home"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }
}

fn bundle<'a>(members: &'a [PinnedMember<'a>]) -> PipBundle<'a> {
    PipBundle {
        package: "p",
        version: "1",
        archive_sha256: "00",
        folder: FOLDER,
        members,
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{what} never happened"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "started as a process of its own by the tests below"]
fn a_process_of_its_own() {
    let home = Home::at(std::env::var_os("BENCH_HOME").expect("started by another test"));
    let digest = sha256(CONTENT);
    let members = [PinnedMember {
        member: MEMBER,
        file: FILE,
        bytes: CONTENT.len() as u64,
        sha256: &digest,
    }];
    let folder = Fetcher::new(home).fetch(&bundle(&members)).unwrap();
    assert_eq!(fs::read(folder.join(FILE)).unwrap(), CONTENT);
}

#[test]
fn a_wheel_is_fetched_once_and_nothing_else_is_left() {
    let bench = Bench::new();
    let state = |bench: &Bench| bundle(&bench.members()).state(&bench.home()).unwrap();
    assert_eq!(state(&bench), BundleState::Absent);
    let folder = bench.fetch().unwrap();
    assert_eq!(folder, bench.path("home").join(FOLDER));
    assert_eq!(fs::read(bench.file()).unwrap(), CONTENT);
    assert_eq!(state(&bench), BundleState::Present);
    let mut left = files_below(&bench.path("home"));
    left.sort();
    assert_eq!(left, [bench.file(), bench.path("home/models/m.lock")]);

    bench.fetch().unwrap();
    assert_eq!(bench.runs(), 1);
    // And without any Python at all.
    fs::remove_dir_all(bench.path("bin")).unwrap();
    bench.fetch().unwrap();
}

#[test]
fn pip_is_asked_for_the_pinned_version_with_its_digest() {
    let bench = Bench::new();
    bench
        .script("cp \"$dest/requirements.txt\" \"$BENCH/asked\"; cp \"$BENCH\"/index/* \"$dest\"/");
    bench.fetch().unwrap();
    assert_eq!(
        fs::read_to_string(bench.path("asked")).unwrap(),
        "p==1 --hash=sha256:00\n"
    );
    let arguments = fs::read_to_string(bench.path("runs")).unwrap();
    for wanted in [
        "-m pip download",
        "--no-deps",
        "--require-hashes",
        "--timeout",
        "--retries 1",
    ] {
        assert!(arguments.contains(wanted), "{arguments}");
    }
}

#[test]
fn a_source_archive_serves_as_well() {
    let bench = Bench::new();
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::fast(),
    ));
    let mut header = tar::Header::new_gnu();
    header.set_size(CONTENT.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, MEMBER, CONTENT).unwrap();
    let archive = tar.into_inner().unwrap().finish().unwrap();
    bench.serve("p-1.tar.gz", &archive);
    bench.fetch().unwrap();
    assert_eq!(fs::read(bench.file()).unwrap(), CONTENT);
}

#[test]
fn a_link_in_an_archive_is_not_followed() {
    let bench = Bench::new();
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::fast(),
    ));
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, MEMBER, "/etc/passwd").unwrap();
    bench.serve("p-1.tar.gz", &tar.into_inner().unwrap().finish().unwrap());
    let error = bench.fails();
    assert!(
        error
            .to_string()
            .contains("p-1.tar.gz has no package/data file.bin"),
        "{error}"
    );
}

#[test]
fn other_content_is_refused() {
    let changed = [b'T'; CONTENT.len()];
    let longer = [CONTENT, b"more"].concat();
    for content in [&changed[..], &CONTENT[..10], &longer] {
        let bench = Bench::new();
        bench.serve("p-1-py3-none-any.whl", &wheel(&[(MEMBER, content)]));
        let error = bench.fails();
        assert!(matches!(error, FetchError::WrongDigest { .. }), "{error}");
        assert!(error.to_string().contains(&bench.digest), "{error}");
    }
}

#[test]
fn broken_archives_are_told_apart_from_other_content() {
    let whole = wheel(&[(MEMBER, CONTENT)]);
    for (name, bytes, wanted) in [
        (
            "p-1-py3-none-any.whl",
            &whole[..whole.len() / 2],
            "p-1-py3-none-any.whl:",
        ),
        (
            "p-1-py3-none-any.whl",
            &wheel(&[("x", b"")]),
            "has no package/data file.bin",
        ),
        ("p-1.tar.gz", b"\x1f\x8bnot gzip", "p-1.tar.gz:"),
        ("p-1.zip.txt", b"", "pip left no archive"),
    ] {
        let bench = Bench::new();
        bench.serve(name, bytes);
        let error = bench.fails();
        assert!(matches!(error, FetchError::BrokenArchive { .. }), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn every_failure_of_python_has_its_own_words() {
    let bench = Bench::new();
    let place = bench.file().display().to_string();

    bench.script("echo '/usr/bin/python3: No module named pip' >&2; exit 1");
    let error = bench.fails();
    assert!(
        matches!(error, FetchError::NoPip { .. }) && error.to_string().contains(&place),
        "{error}"
    );

    bench.script(
        "echo 'WARNING: Retrying after connection broken by NewConnectionError' >&2; echo 'ERROR: No matching distribution found for p==1' >&2; exit 1",
    );
    let error = bench.fails();
    assert!(
        matches!(error, FetchError::NoNetwork { .. }) && error.to_string().contains(&place),
        "{error}"
    );

    bench.script("echo 'ERROR: the disk is full' >&2; exit 2");
    let error = bench.fails();
    assert!(matches!(error, FetchError::PipFailed { .. }), "{error}");
    assert!(error.to_string().contains("the disk is full"), "{error}");

    // What an interrupted pip left is gone as well.
    bench.script("echo half > \"$dest/p-1-py3-none-any.whl.part\"; kill -9 $$");
    assert!(matches!(bench.fails(), FetchError::PipFailed { .. }));

    fs::remove_file(bench.path("bin/python3")).unwrap();
    let error = bench.fails();
    assert!(
        matches!(error, FetchError::NoPython { .. }) && error.to_string().contains(&place),
        "{error}"
    );
}

#[test]
fn a_damaged_file_is_reported_and_not_fetched_over() {
    let bench = Bench::new();
    bench.fetch().unwrap();
    fs::write(bench.file(), &CONTENT[..7]).unwrap();
    let error = bench.fetch().unwrap_err();
    assert!(matches!(error, FetchError::Damaged { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("7 bytes, not 41") && text.contains("hint: delete it"),
        "{text}"
    );
    assert!(text.contains(&bench.file().display().to_string()), "{text}");

    fs::write(bench.file(), [b'x'; CONTENT.len()]).unwrap();
    let text = bench.fetch().unwrap_err().to_string();
    assert!(text.contains("SHA-256"), "{text}");
    assert_eq!(bench.runs(), 1);

    // What the hint says works.
    fs::remove_file(bench.file()).unwrap();
    bench.fetch().unwrap();
    assert_eq!(bench.runs(), 2);
}

#[test]
fn an_unusable_cache_folder_is_named() {
    let bench = Bench::new();
    fs::write(bench.path("home"), "a file").unwrap();
    let error = bench.fetch().unwrap_err();
    assert!(matches!(error, FetchError::NotWritable { .. }), "{error}");
    assert!(error.to_string().contains("RIPPLEKV_HOME"), "{error}");
    assert_eq!(bench.runs(), 0);
}

#[test]
fn of_many_processes_one_downloads() {
    let bench = Bench::new();
    bench.script("sleep 0.5; cp \"$BENCH\"/index/* \"$dest\"/");
    let children: Vec<Child> = (0..4).map(|_| bench.child()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(bench.runs(), 1);
    assert_eq!(fs::read(bench.file()).unwrap(), CONTENT);
}

#[test]
fn a_killed_process_leaves_nothing_that_counts() {
    let bench = Bench::new();
    bench.script("cp \"$BENCH\"/index/* \"$dest\"/half.whl; exec sleep 5");
    let mut child = bench.child();
    wait_for("the download", || bench.runs() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!bench.file().exists());

    bench.script("cp \"$BENCH\"/index/* \"$dest\"/");
    assert!(bench.child().wait().unwrap().success());
    assert_eq!(fs::read(bench.file()).unwrap(), CONTENT);
    assert!(!bench.path("home/models/m.partial").exists());
}

/// Real Python, real pip, and an index that nobody answers for.
#[test]
fn without_a_network_the_answer_comes_within_seconds() {
    let bench = Bench::new();
    bench.write_script(
        "#!/bin/sh\nPIP_INDEX_URL=http://127.0.0.1:1/simple PIP_FIND_LINKS= PIP_NO_CACHE_DIR=1 exec python3 \"$@\"\n",
    );
    let start = Instant::now();
    let error = bench.fails();
    assert!(matches!(error, FetchError::NoNetwork { .. }), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn the_quickstart_model_comes_from_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path());
    let reference = ModelReference::Named("smollm2-135m-instruct-q4".to_owned());
    let path = match resolve(&reference, &home) {
        Ok(ModelFiles::Gguf(path)) => path,
        Ok(other) => panic!("{other:?}"),
        Err(error) if may_skip(&error.to_string()) => return,
        Err(error) => panic!("{error}"),
    };
    let mut left = files_below(folder.path());
    left.sort();
    let lock = folder.path().join("models/smollm2-135m-instruct-q4.lock");
    assert_eq!(left, [path, lock]);
    let start = Instant::now();
    resolve(&reference, &home).unwrap();
    println!("a second start checks the file in {:?}", start.elapsed());
}

#[test]
fn jieba_s_dictionary_comes_from_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let found = match jieba(&Home::at(folder.path())) {
        Ok(found) => found,
        Err(error) if may_skip(&error.to_string()) => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(found, folder.path().join("jieba-0.42.1"));
    let mut left = files_below(&found);
    left.sort();
    let mut wanted: Vec<PathBuf> = JIEBA.members.iter().map(|m| found.join(m.file)).collect();
    wanted.sort();
    assert_eq!(left, wanted);
}
