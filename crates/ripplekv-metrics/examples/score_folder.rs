//! Scores a folder of prediction files on all cores and prints task scores and the time taken.
//! `cargo run --release -p ripplekv-metrics --example score_folder -- FOLDER JIEBA_FOLDER`
#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use ripplekv_metrics::jieba::{SOURCE_FILES, Segmenter, Sources};
use ripplekv_metrics::{CodeSimilarity, Context, find_metric, first_line, score, task_score};
use serde::Deserialize;

#[derive(Deserialize)]
struct Record {
    dataset: String,
    pred: String,
    answers: Vec<String>,
    all_classes: Option<Vec<String>>,
}

type Failure = Box<dyn Error + Send + Sync>;

fn metric_of(task: &str) -> &'static str {
    match task {
        "multifieldqa_zh" => "qa-f1-zh",
        "dureader" | "vcsum" => "rouge-l-zh",
        "gov_report" | "qmsum" | "multi_news" | "samsum" => "rouge-l",
        "trec" | "lsht" => "classification",
        "passage_count" => "count",
        "passage_retrieval_en" => "retrieval",
        "passage_retrieval_zh" => "retrieval-zh",
        "lcc" | "repobench-p" => "code-similarity",
        _ => "qa-f1",
    }
}

fn load_segmenter(folder: &Path) -> Result<Segmenter, Failure> {
    let read = |index: usize| std::fs::read_to_string(folder.join(SOURCE_FILES[index]));
    Ok(Segmenter::from_sources(&Sources {
        dictionary: &read(0)?,
        start: &read(1)?,
        transition: &read(2)?,
        emission: &read(3)?,
    })?)
}

fn score_record(record: &Record, segmenter: &Segmenter) -> Result<[f64; 2], Failure> {
    let metric = find_metric(metric_of(&record.dataset)).ok_or("no such metric")?;
    let one_line = ["trec", "triviaqa", "samsum", "lsht"].contains(&record.dataset.as_str());
    let prediction = if one_line {
        first_line(&record.pred)
    } else {
        &record.pred
    };
    let with = |code| {
        let context = Context {
            all_classes: record.all_classes.as_deref().unwrap_or_default(),
            segmenter: Some(segmenter),
            code,
        };
        score(metric, prediction, &record.answers, &context)
    };
    let difflib = with(CodeSimilarity::Difflib)?;
    let levenshtein = if metric.name == "code-similarity" {
        with(CodeSimilarity::Levenshtein)?
    } else {
        difflib
    };
    Ok([difflib, levenshtein])
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: score_folder FOLDER JIEBA_FOLDER";
    let folder = arguments.next().ok_or(usage)?;
    let jieba_folder = arguments.next().ok_or(usage)?;

    let before = Instant::now();
    let segmenter = load_segmenter(Path::new(&jieba_folder))?;
    let loaded = before.elapsed();
    let mut files: Vec<_> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut samples = 0;
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let lines: Vec<_> = text.split('\n').filter(|line| !line.is_empty()).collect();
        let scores = lines
            .par_iter()
            .map(|line| score_record(&serde_json::from_str(line)?, &segmenter))
            .collect::<Result<Vec<_>, Failure>>()?;
        samples += scores.len();
        let [difflib, levenshtein] = [0, 1].map(|flavour| {
            task_score(&scores.iter().map(|both| both[flavour]).collect::<Vec<_>>())
        });
        let task = file.file_stem().unwrap_or_default().to_string_lossy();
        println!("{task:24} {difflib:?} {levenshtein:?}");
    }
    let elapsed = before.elapsed();
    println!("{samples} predictions in {elapsed:.2?}, {loaded:.2?} of it reading jieba's data");
    Ok(())
}
