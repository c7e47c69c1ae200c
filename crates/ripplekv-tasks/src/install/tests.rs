use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

/// A zip in a folder of its own.
struct Zip {
    folder: TempDir,
    writer: ZipWriter<File>,
}

impl Zip {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let writer = ZipWriter::new(File::create(folder.path().join("data.zip")).unwrap());
        Self { folder, writer }
    }

    fn with(mut self, name: &str, text: &str) -> Self {
        self.writer
            .start_file(name, SimpleFileOptions::default())
            .unwrap();
        self.writer.write_all(text.as_bytes()).unwrap();
        self
    }

    fn finish(self) -> (TempDir, PathBuf) {
        self.writer.finish().unwrap();
        let path = self.folder.path().join("data.zip");
        (self.folder, path)
    }
}

fn unpack(zip: Zip, limits: Limits) -> (Result<(), String>, Vec<String>) {
    let (folder, path) = zip.finish();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let outcome = archive::unpack(&path, &data, limits).map_err(|error| error.to_string());
    let mut names: Vec<String> = fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut around: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    around.sort();
    assert_eq!(
        around,
        ["data", "data.zip"],
        "something came out beside the folder"
    );
    (outcome, names)
}

#[test]
fn known_record_files_come_out_and_others_stay() {
    let zip = Zip::new()
        .with("data/qasper.jsonl", "{}\n")
        .with("data/qasper_e.jsonl", "{}\n")
        .with("__MACOSX/data/._qasper.jsonl", "x")
        .with("data/readme.md", "x")
        .with("elsewhere/trec.jsonl", "x")
        .with("data/logbook_qa.jsonl", "ours, not LongBench's");
    let (outcome, names) = unpack(zip, Limits::REAL);
    outcome.unwrap();
    assert_eq!(names, ["qasper.jsonl", "qasper_e.jsonl"]);
}

#[test]
fn names_that_leave_the_folder_are_refused_before_anything_is_written() {
    for (name, problem) in [
        ("../evil", "leaves the folder"),
        ("data/../../evil.jsonl", "leaves the folder"),
        ("/etc/evil", "absolute path"),
        ("C:/evil", "absolute path"),
        ("data\\..\\evil", "character"),
    ] {
        let zip = Zip::new().with("data/qasper.jsonl", "{}\n").with(name, "x");
        let (outcome, names) = unpack(zip, Limits::REAL);
        let message = outcome.unwrap_err();
        assert!(
            message.contains("refused") && message.contains(problem),
            "{message}"
        );
        assert_eq!(names, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn links_and_second_files_are_refused() {
    let mut zip = Zip::new().with("data/qasper.jsonl", "{}\n");
    zip.writer
        .add_symlink(
            "data/trec.jsonl",
            "/etc/passwd",
            SimpleFileOptions::default(),
        )
        .unwrap();
    let (outcome, names) = unpack(zip, Limits::REAL);
    assert!(outcome.unwrap_err().contains("is a link or a device"));
    assert!(names.is_empty());
    let zip = Zip::new()
        .with("data/trec.jsonl", "a")
        .with("b/data/trec.jsonl", "b");
    let (outcome, _) = unpack(zip, Limits::REAL);
    assert!(outcome.unwrap_err().contains("second file of its task"));
}

#[test]
fn sizes_are_bounded() {
    let long = "x".repeat(2_000);
    let make = || {
        Zip::new()
            .with("data/qasper.jsonl", &long)
            .with("data/trec.jsonl", &long)
    };
    let limits = |entries, file_bytes, total_bytes| Limits {
        entries,
        file_bytes,
        total_bytes,
    };
    unpack(make(), limits(2, 2_000, 4_000)).0.unwrap();
    for small in [
        limits(1, 2_000, 4_000),
        limits(2, 1_999, 4_000),
        limits(2, 2_000, 3_999),
    ] {
        let message = unpack(make(), small).0.unwrap_err();
        assert!(message.contains("refused"), "{message}");
    }
}

#[test]
fn what_is_no_archive_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("data.zip");
    fs::write(&path, "not a zip").unwrap();
    let error = archive::unpack(&path, folder.path(), Limits::REAL).unwrap_err();
    assert!(error.to_string().contains("broken archive"), "{error}");
    // Cut: the directory at the end is gone.
    let (_whole, whole) = Zip::new()
        .with("data/qasper.jsonl", &"{}\n".repeat(100))
        .finish();
    let bytes = fs::read(whole).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 30]).unwrap();
    let error = archive::unpack(&path, folder.path(), Limits::REAL).unwrap_err();
    assert!(error.to_string().contains("broken archive"), "{error}");
    let (_empty, empty) = Zip::new().with("data/notes.txt", "x").finish();
    let error = archive::unpack(&empty, folder.path(), Limits::REAL).unwrap_err();
    assert!(
        error.to_string().contains("no data/<task>.jsonl"),
        "{error}"
    );
}

#[test]
fn a_flipped_byte_is_noticed() {
    let (folder, path) = Zip::new()
        .with("data/qasper.jsonl", &"a line of the file\n".repeat(50))
        .finish();
    let mut bytes = fs::read(&path).unwrap();
    // Inside the compressed bytes of the first entry: header of 30 bytes, then the name.
    bytes[30 + "data/qasper.jsonl".len() + 8] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    let error = archive::unpack(&path, folder.path(), Limits::REAL).unwrap_err();
    assert!(
        matches!(error, InstallError::BrokenArchive { .. }),
        "{error}"
    );
}

#[test]
fn other_config_files_are_refused_and_nothing_is_left() {
    let (folder, path) = Zip::new().with("data/qasper.jsonl", "{}\n").finish();
    let request = InstallRequest {
        records: RecordSource::Archive(&path),
        records_from: "test".to_owned(),
        config: ConfigFiles {
            prompts: b"{}".to_vec(),
            lengths: b"{}".to_vec(),
            from: "test".to_owned(),
        },
        partial: true,
    };
    let target = folder.path().join("pack");
    let error = install_longbench(&request, &target)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("config/dataset2prompt.json: not LongBench's official file"),
        "{error}"
    );
    assert!(error.contains(LONGBENCH_PROMPT_SHA256), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_occupied_place_is_left_alone() {
    let (folder, path) = Zip::new().with("data/qasper.jsonl", "{}\n").finish();
    let request = InstallRequest {
        records: RecordSource::Archive(&path),
        records_from: String::new(),
        config: ConfigFiles {
            prompts: Vec::new(),
            lengths: Vec::new(),
            from: String::new(),
        },
        partial: false,
    };
    for target in [folder.path(), path.as_path()] {
        let error = install_longbench(&request, target).unwrap_err();
        assert!(matches!(error, InstallError::Occupied { .. }), "{error}");
    }
}
