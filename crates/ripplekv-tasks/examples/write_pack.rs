//! Writes a generated pack: `write_pack quickstart DIR [SCORES.json]`, `write_pack candidates DIR`,
//! `write_pack study DIR` or `write_pack calibration DIR`. Scores: a JSON object from record id to the full cache's score.
#![expect(clippy::print_stderr, reason = "a small program for developers")]

use std::collections::BTreeMap;
use std::error::Error;

use ripplekv_tasks::generate::{
    DEFAULT_SEED, PackKind, QUICKSTART_RECORDS_PER_TASK, generate_candidates, select_quickstart,
    write_calibration, write_pack, write_study,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let candidates = || generate_candidates(PackKind::Quickstart, DEFAULT_SEED);
    let manifest = match arguments[..] {
        ["study", dir] => write_study(dir, DEFAULT_SEED)?,
        ["calibration", dir] => write_calibration(dir, DEFAULT_SEED)?,
        ["candidates", dir] => {
            write_pack(dir, PackKind::Quickstart, DEFAULT_SEED, &candidates(), None)?
        }
        ["quickstart", dir] => {
            // Without scores: the lowest id of every part.
            let all = candidates();
            let zero: BTreeMap<_, _> = all.iter().map(|one| (one.record.id.clone(), 0.0)).collect();
            let kept = select_quickstart(&all, &zero, QUICKSTART_RECORDS_PER_TASK)?;
            write_pack(dir, PackKind::Quickstart, DEFAULT_SEED, &kept, None)?
        }
        ["quickstart", dir, scores] => {
            let scores: BTreeMap<String, f64> = serde_json::from_slice(&std::fs::read(scores)?)?;
            let kept = select_quickstart(&candidates(), &scores, QUICKSTART_RECORDS_PER_TASK)?;
            write_pack(
                dir,
                PackKind::Quickstart,
                DEFAULT_SEED,
                &kept,
                Some(&scores),
            )?
        }
        _ => {
            return Err(
                "usage: write_pack quickstart|candidates|study|calibration DIR [SCORES.json]"
                    .into(),
            );
        }
    };
    for (task, records) in manifest.tasks {
        eprintln!("{task}: {} records", records.records.len());
    }
    Ok(())
}
