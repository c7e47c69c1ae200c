//! Lines of `records/`: which are sound, and what becomes of two for one sample.

use std::collections::{BTreeMap, BTreeSet};

use ripplekv_runner::record::{RECORD_SCHEMA, Record};
use serde::Deserialize;

use super::cells::row_name;
use super::{LeftOut, Reader};

/// What keeps a folder's records out.
pub(super) struct Refused {
    /// Models that are not those of the same name read before.
    pub(super) models: BTreeSet<String>,
    /// Content hash of the folder's profiles, by model.
    pub(super) profiles: BTreeMap<String, String>,
    /// Records made with another profile than the folder's: how many, by model, method and budget.
    pub(super) foreign_profile: BTreeMap<String, usize>,
    /// Records of a schema that this program does not know: how many, by schema.
    pub(super) newer: BTreeMap<u32, usize>,
    /// Lines of the file at hand that are no sound record.
    pub(super) lines: LeftOut,
}

/// A record and where it stands.
pub(super) struct Stored {
    pub(super) record: Record,
    pub(super) place: String,
    pub(super) conflicting: bool,
}

#[derive(Deserialize)]
struct SchemaOnly {
    schema: u32,
}

impl Reader {
    /// False when the record's cell is not known.
    pub(super) fn record(&mut self, place: String, line: &str, refused: &mut Refused) -> bool {
        if let Ok(version) = serde_json::from_str::<SchemaOnly>(line)
            && version.schema > RECORD_SCHEMA
        {
            *refused.newer.entry(version.schema).or_default() += 1;
            return true;
        }
        let record = match serde_json::from_str::<Record>(line) {
            Ok(record) => record,
            Err(error) => {
                let text = format!("{place}: record left out: {error}");
                refused.lines.add(text);
                return true;
            }
        };
        let Some(cell) = self.cells.get(&record.cell) else {
            return false;
        };
        if refused.models.contains(&cell.model) {
            return true;
        }
        if let (Some(used), Some(own)) = (&record.profile_hash, refused.profiles.get(&cell.model))
            && used != own
        {
            let row = row_name(cell);
            *refused.foreign_profile.entry(row).or_default() += 1;
            return true;
        }
        if let Some(score) = record.score
            && !(0.0..=1.0).contains(&score)
        {
            refused.lines.add(format!(
                "{place}: record left out: score {score} is not within 0 and 1"
            ));
            return true;
        }
        self.add_record(place, record);
        true
    }

    pub(super) fn add_record(&mut self, place: String, record: Record) {
        let key = (record.cell.clone(), record.sample.clone());
        let Some(known) = self.records.get_mut(&key) else {
            self.records.insert(
                key,
                Stored {
                    record,
                    place,
                    conflicting: false,
                },
            );
            return;
        };
        // A failed sample that was run again has two lines; the one without an error counts.
        match (known.record.error.is_some(), record.error.is_some()) {
            (false, true) => return,
            (true, _) => {
                known.record = record;
                known.place = place;
                return;
            }
            (false, false) if known.record == record => return,
            (false, false) => {}
        }
        known.conflicting = true;
        let text = format!(
            "{place}: sample `{}` of cell `{}` differs from the line at {}; the sample is left out of everything",
            record.sample, record.cell, known.place
        );
        let files = (file_of(&place).to_owned(), file_of(&known.place).to_owned());
        self.conflicts.entry(files).or_insert_with(|| (0, text)).0 += 1;
    }
}

impl Reader {
    /// One line for each pair of files that disagree, so that a whole run against another does not fill the page.
    pub(super) fn warn_of_conflicts(&mut self) {
        for ((file, first), (count, text)) in std::mem::take(&mut self.conflicts) {
            self.warn(match count {
                1 => text,
                many => format!(
                    "{file}: {many} samples differ from their lines in {first}; these samples are left out of everything"
                ),
            });
        }
    }
}

/// The file of `file:line`.
fn file_of(place: &str) -> &str {
    place.rsplit_once(':').map_or(place, |(file, _)| file)
}
