//! One member out of a wheel (zip) or a source archive (tar.gz). Nothing is written but that member,
//! so no path in an archive can reach outside.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::read::GzDecoder;

/// What went wrong, and on which side.
#[derive(Debug)]
pub(super) enum Problem {
    /// The archive.
    Archive(String),
    /// Writing the member.
    Write(io::Error),
}

/// Copies a member of at most `limit_bytes` (and the first byte beyond, so that a longer one is
/// noticed) to `out`.
pub(super) fn copy_member(
    archive: &Path,
    member: &str,
    limit_bytes: u64,
    out: &mut impl Write,
) -> Result<(), Problem> {
    let name = archive
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let file = File::open(archive).map_err(|error| Problem::Archive(format!("{name}: {error}")))?;
    let absent = || Problem::Archive(format!("{name} has no {member}"));
    let broken = |error: &dyn std::fmt::Display| Problem::Archive(format!("{name}: {error}"));
    if name.ends_with(".whl") || name.ends_with(".zip") {
        let mut zip = zip::ZipArchive::new(io::BufReader::new(file)).map_err(|e| broken(&e))?;
        let index = zip.index_for_name(member).ok_or_else(absent)?;
        let reader = zip.by_index(index).map_err(|e| broken(&e))?;
        return copy(reader, limit_bytes, out, &name);
    }
    if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
        let mut tar = tar::Archive::new(GzDecoder::new(io::BufReader::new(file)));
        for entry in tar.entries().map_err(|e| broken(&e))? {
            let entry = entry.map_err(|e| broken(&e))?;
            let is_it = entry.header().entry_type().is_file()
                && entry.path().map_err(|e| broken(&e))?.as_ref() == Path::new(member);
            if is_it {
                return copy(entry, limit_bytes, out, &name);
            }
        }
        return Err(absent());
    }
    Err(Problem::Archive(format!(
        "{name} is neither a wheel nor a .tar.gz"
    )))
}

fn copy(
    reader: impl Read,
    limit_bytes: u64,
    out: &mut impl Write,
    name: &str,
) -> Result<(), Problem> {
    let mut reader = reader.take(limit_bytes.saturating_add(1));
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = reader
            .read(&mut buffer)
            .map_err(|error| Problem::Archive(format!("{name}: {error}")))?;
        if count == 0 {
            return Ok(());
        }
        out.write_all(&buffer[..count]).map_err(Problem::Write)?;
    }
}
