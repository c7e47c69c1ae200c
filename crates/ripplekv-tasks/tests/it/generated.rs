//! The generated packs: same seed same bytes, answers everywhere in the context, nothing shared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ripplekv_metrics::Context;
use ripplekv_tasks::generate::{
    CALIBRATION_RECORDS_PER_TASK, Candidate, DEFAULT_SEED, GENERATOR_VERSION, PackKind,
    QUICKSTART_CANDIDATES_PER_TASK, QUICKSTART_RECORDS_PER_TASK, STUDY_RECORDS_PER_TASK,
    SelectError, generate_candidates, read_manifest, select_quickstart, write_pack, write_study,
};
use ripplekv_tasks::{
    Category, LENGTH_FILE, MANIFEST_FILE, PROMPT_FILE, Pack, Suite, TASKS, score_record,
};

/// The folder of a committed pack.
pub(crate) fn committed(pack: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../datasets")).join(pack)
}

/// That a committed pack and the one just written have the same files, byte for byte.
pub(crate) fn assert_same_files(written: &Path, committed: &Path, tasks: &[&str]) {
    let mut files = vec![
        PROMPT_FILE.to_owned(),
        LENGTH_FILE.to_owned(),
        MANIFEST_FILE.to_owned(),
    ];
    files.extend(tasks.iter().map(|task| format!("data/{task}.jsonl")));
    for file in &files {
        let (ours, theirs) = (written.join(file), committed.join(file));
        assert_eq!(fs::read(ours).unwrap(), fs::read(theirs).unwrap(), "{file}");
    }
    let data = fs::read_dir(committed.join("data")).unwrap().count();
    assert_eq!(
        data + 3,
        files.len(),
        "a file that the generator does not make"
    );
}

fn own_tasks() -> Vec<&'static str> {
    TASKS
        .iter()
        .filter(|task| task.suite == Suite::Own)
        .map(|task| task.name)
        .collect()
}

fn by_task(candidates: &[Candidate]) -> BTreeMap<&str, Vec<&Candidate>> {
    let mut tasks: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        tasks
            .entry(candidate.task.name)
            .or_default()
            .push(candidate);
    }
    tasks
}

fn all_kinds() -> [(PackKind, usize, Vec<Candidate>); 3] {
    [
        (PackKind::Quickstart, QUICKSTART_CANDIDATES_PER_TASK),
        (PackKind::Study, STUDY_RECORDS_PER_TASK),
        (PackKind::Calibration, CALIBRATION_RECORDS_PER_TASK),
    ]
    .map(|(kind, count)| (kind, count, generate_candidates(kind, DEFAULT_SEED)))
}

#[test]
fn same_seed_same_bytes_other_seed_other_bytes() {
    let lines = |seed| -> Vec<String> {
        generate_candidates(PackKind::Quickstart, seed)
            .iter()
            .map(|candidate| candidate.record.to_line())
            .collect()
    };
    assert_eq!(lines(7), lines(7));
    let (one, other) = (lines(7), lines(8));
    assert!(one.iter().all(|line| !other.contains(line)));
}

#[test]
fn every_category_has_its_records_and_no_two_are_alike() {
    let mut contexts = BTreeSet::new();
    let mut ids = BTreeSet::new();
    let mut total = 0;
    for (kind, count, candidates) in all_kinds() {
        let tasks = by_task(&candidates);
        let of_its_own = usize::from(kind == PackKind::Calibration);
        assert_eq!(tasks.len(), Category::ALL.len() + of_its_own);
        assert!(tasks.values().all(|records| records.len() == count));
        total += candidates.len();
        for candidate in &candidates {
            contexts.insert(
                blake3::hash(candidate.record.context.as_bytes())
                    .to_hex()
                    .to_string(),
            );
            ids.insert(candidate.record.id.clone());
        }
    }
    assert_eq!(contexts.len(), total, "two packs share a context");
    assert_eq!(ids.len(), total);
    assert!(ids.iter().all(|id| id.len() == 48));
    const { assert!(6 * STUDY_RECORDS_PER_TASK >= 200) };
}

#[test]
fn answers_score_full_marks_and_stand_in_the_evidence() {
    for (_, _, candidates) in all_kinds() {
        for Candidate { task, record, .. } in &candidates {
            let score = score_record(
                task,
                &record.answers[0],
                &record.answers,
                record.all_classes.as_deref(),
                &Context::default(),
            )
            .unwrap();
            assert!(score > 0.999_999, "{task} {}: {score}", record.id);
            if task.category != Category::Summarization {
                let telling = record.answers[0].trim_start_matches("    return ");
                let parts = telling
                    .split(", ")
                    .filter(|_| task.category == Category::MultiDocQa);
                let mut parts: Vec<&str> = parts.collect();
                if parts.is_empty() {
                    parts.push(telling);
                }
                for part in parts {
                    assert!(record.context.contains(part), "{task} {part}");
                    assert!(!record.input.contains(part), "{task} {part}");
                }
            }
        }
    }
}

#[test]
fn an_answer_is_said_of_the_asked_thing_only_once() {
    // Without its evidence a context must not tell the answer.
    for (_, _, candidates) in all_kinds() {
        for Candidate {
            task,
            record,
            position,
        } in &candidates
        {
            let subject = match task.name {
                "ticket_class" => record.input.split_once('\n').unwrap().1,
                // The customer, or the number of the order.
                "order_table" => record
                    .input
                    .trim_start_matches("What did ")
                    .trim_start_matches("Who placed order number ")
                    .trim_start_matches("Where should order number ")
                    .trim_end_matches(" be left?")
                    .trim_end_matches(" order?")
                    .trim_end_matches('?'),
                "paragraph_find" => record.input.trim_end_matches(" which paragraph?"),
                _ => continue,
            };
            let places: Vec<usize> = record
                .context
                .match_indices(subject)
                .map(|(at, _)| at)
                .collect();
            assert!(!places.is_empty() && places.len() <= 3, "{subject}");
            let far = (places[places.len() - 1] - places[0]) as f64 / record.context.len() as f64;
            assert!(far < 0.1, "{task}: `{subject}` is told of in two places");
            let at = places[0] as f64 / record.context.len() as f64;
            assert!((at - position.evidence[0]).abs() < 0.1, "{task} {at}");
        }
    }
}

/// The largest distance between the places' distribution and the uniform one.
fn distance_from_uniform(mut places: Vec<f64>) -> f64 {
    places.sort_by(f64::total_cmp);
    let count = places.len() as f64;
    places
        .iter()
        .enumerate()
        .map(|(index, place)| {
            let (below, above) = (index as f64 / count, (index as f64 + 1.0) / count);
            (place - below).abs().max((place - above).abs())
        })
        .fold(0.0, f64::max)
}

#[test]
fn places_of_answers_are_uniform_over_the_context() {
    let study = generate_candidates(PackKind::Study, DEFAULT_SEED);
    for (task, records) in by_task(&study) {
        let halves = records[0].position.evidence.len();
        for half in 0..halves {
            let places: Vec<f64> = records
                .iter()
                .map(|candidate| candidate.position.evidence[half])
                // The summary's points lie one in each third.
                .map(|place| {
                    if halves == 3 {
                        place * 3.0 - half as f64
                    } else {
                        place
                    }
                })
                .collect();
            let distance = distance_from_uniform(places);
            // A second half is drawn freely around the text: within the 1% bound of 36 draws.
            let most = if halves == 2 && half == 1 { 0.27 } else { 0.1 };
            assert!(distance < most, "{task} {half}: {distance}");
        }
    }
}

#[test]
fn evidence_lies_where_it_was_wanted() {
    for (kind, _, candidates) in all_kinds() {
        for Candidate { task, position, .. } in &candidates {
            let points = position.evidence.len() as f64;
            let wanted = if points == 3.0 {
                position.wanted / 3.0
            } else {
                position.wanted
            };
            let off = (position.evidence[0] - wanted).abs();
            assert!(
                off < 0.06,
                "{kind:?} {task}: wanted {wanted}, is {}",
                position.evidence[0]
            );
        }
    }
}

#[test]
fn the_choice_is_by_score_then_id_within_each_part() {
    let candidates = generate_candidates(PackKind::Quickstart, 3);
    let scores = |of: &dyn Fn(usize, &Candidate) -> f64| -> BTreeMap<String, f64> {
        candidates
            .iter()
            .enumerate()
            .map(|(index, one)| (one.record.id.clone(), of(index, one)))
            .collect()
    };
    let part = |one: &Candidate| (one.position.wanted * 4.0) as usize;
    let chosen =
        |scores: &BTreeMap<String, f64>| select_quickstart(&candidates, scores, 4).unwrap();

    let by_id = chosen(&scores(&|_, _| 0.0));
    let by_score = scores(&|index, _| ((index * 7) % 12) as f64);
    for kept in [&by_id, &chosen(&by_score)] {
        assert_eq!(kept.len(), 24);
        for records in by_task(kept).values() {
            let parts: BTreeSet<usize> = records.iter().map(|one| part(one)).collect();
            assert_eq!(parts.len(), 4, "one of every part");
        }
    }
    for one in &by_id {
        let rivals = candidates
            .iter()
            .filter(|other| other.task == one.task && part(other) == part(one));
        assert_eq!(rivals.clone().count(), 3);
        assert!(
            rivals
                .into_iter()
                .all(|other| one.record.id <= other.record.id)
        );
    }
    for one in chosen(&by_score) {
        let mine = by_score[&one.record.id];
        let rivals = candidates
            .iter()
            .filter(|other| other.task == one.task && part(other) == part(&one));
        assert!(
            rivals
                .into_iter()
                .all(|other| by_score[&other.record.id] <= mine)
        );
    }
}

#[test]
fn a_candidate_without_a_score_stops_the_choice() {
    let candidates = generate_candidates(PackKind::Quickstart, 3);
    let id = candidates[0].record.id.clone();
    let error = select_quickstart(&candidates, &BTreeMap::new(), 4).unwrap_err();
    assert_eq!(
        error,
        SelectError::NoScore {
            task: candidates[0].task.name,
            id
        }
    );
    assert!(
        error
            .to_string()
            .contains("\nhint: score all candidates with the method `full`")
    );
    let scores = candidates
        .iter()
        .map(|one| (one.record.id.clone(), 1.0))
        .collect();
    let error = select_quickstart(&candidates, &scores, 100).unwrap_err();
    assert!(
        matches!(error, SelectError::EmptyPart { parts: 100, .. }),
        "{error}"
    );
}

#[test]
fn the_committed_quickstart_pack_is_made_again_byte_for_byte() {
    let quickstart = committed("quickstart");
    let manifest = read_manifest(&quickstart).unwrap();
    assert_eq!(manifest.generator_version, GENERATOR_VERSION);
    assert_eq!(manifest.seed, DEFAULT_SEED);
    let candidates = generate_candidates(PackKind::Quickstart, manifest.seed);
    let kept: BTreeMap<&str, Option<f64>> = manifest
        .tasks
        .values()
        .flat_map(|task| &task.records)
        .map(|record| (record.id.as_str(), record.full_score))
        .collect();
    let scores: BTreeMap<String, f64> = kept
        .iter()
        .filter_map(|(id, score)| Some(((*id).to_owned(), (*score)?)))
        .collect();
    let records: Vec<Candidate> = candidates
        .into_iter()
        .filter(|candidate| kept.contains_key(candidate.record.id.as_str()))
        .collect();
    assert_eq!(records.len(), 6 * QUICKSTART_RECORDS_PER_TASK);
    let again = tempfile::tempdir().unwrap();
    let scores = (!scores.is_empty()).then_some(&scores);
    write_pack(
        again.path(),
        PackKind::Quickstart,
        manifest.seed,
        &records,
        scores,
    )
    .unwrap();
    assert_same_files(again.path(), &quickstart, &own_tasks());
}

#[test]
fn the_committed_quickstart_pack_agrees_with_the_task_table() {
    let pack = Pack::open(committed("quickstart")).unwrap();
    assert_eq!(pack.name(), "quickstart");
    assert_eq!(
        pack.tasks().map(|task| task.name).collect::<Vec<_>>(),
        own_tasks()
    );
    let manifest = read_manifest(committed("quickstart")).unwrap();
    for task in pack.tasks() {
        assert_eq!(pack.max_new_tokens(task).unwrap(), task.max_new_tokens);
        let records = pack.load(task).unwrap();
        assert_eq!(records.len(), task.expected_records);
        assert_eq!(pack.hash(task).unwrap(), manifest.tasks[task.name].blake3);
        let kept = &manifest.tasks[task.name].records;
        assert!(
            records
                .iter()
                .zip(kept)
                .all(|(record, kept)| record.id == kept.id)
        );
        let quarters: BTreeSet<usize> = kept
            .iter()
            .map(|record| (record.position.wanted * 4.0) as usize)
            .collect();
        assert_eq!(
            quarters.len(),
            4,
            "{task}: the answers lie in every quarter"
        );
    }
}

#[test]
fn the_study_pack_opens() {
    let dir = tempfile::tempdir().unwrap();
    write_study(dir.path(), DEFAULT_SEED).unwrap();
    let pack = Pack::open(dir.path()).unwrap();
    assert_eq!(pack.name(), "study");
    let records: usize = pack
        .tasks()
        .map(|task| pack.load(task).unwrap().len())
        .sum();
    assert_eq!(records, 216);
}
