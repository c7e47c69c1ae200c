//! Made-up cells for the unit tests of tables and figures.

use ripplekv_runner::cell::{Cell, CellKey, Query, ResolvedMethod};
use ripplekv_runner::record::{RECORD_SCHEMA, Record};
use serde_json::json;

use crate::group::{Group, groups};
use crate::options::ReportOptions;
use crate::read::{CellSamples, Results, Sample};

/// A cell; the method's name is its label without settings in parentheses.
pub(crate) fn cell(model: &str, task: &str, label: &str, budget: Option<&str>) -> Cell {
    Cell {
        key: CellKey(format!("{task} {label} {budget:?}")),
        model: model.to_owned(),
        task: task.to_owned(),
        method: ResolvedMethod {
            name: label.split('(').next().unwrap_or(label).to_owned(),
            label: label.to_owned(),
            params: json!({}),
        },
        budget: budget.map(str::to_owned),
        query: Query::Aware,
        protocol: json!({}),
    }
}

/// The cell with one sample for each pair of score (0 to 1) and KL.
pub(crate) fn with_samples(cell: Cell, values: &[(f64, Option<f64>)]) -> CellSamples {
    let samples = values
        .iter()
        .enumerate()
        .map(|(index, (score, answer_kl))| {
            let record = record(&cell.key, index as u64, *score, *answer_kl);
            Sample {
                record,
                timing: None,
            }
        });
    CellSamples {
        samples: samples.collect(),
        selected: None,
        cell,
    }
}

fn record(key: &CellKey, index: u64, score: f64, answer_kl: Option<f64>) -> Record {
    Record {
        schema: RECORD_SCHEMA,
        cell: key.clone(),
        sample: index.to_string(),
        index,
        prompt_hash: String::new(),
        prompt_tokens: 1000,
        removed_tokens: 0,
        budget_entries: None,
        kept_per_layer: vec![100; 4],
        cache_bytes: 1 << 20,
        kept_hash: String::new(),
        must_keep_tokens: 4,
        short_prompt: false,
        profile_hash: None,
        calibrated: None,
        output_tokens: 8,
        finish: None,
        output: String::new(),
        answers: Vec::new(),
        all_classes: None,
        length: 1000,
        score: Some(score),
        score_levenshtein: None,
        edit_similarity: None,
        answer_kl,
        warnings: Vec::new(),
        error: None,
    }
}

/// The one group of these cells.
pub(crate) fn group(cells: Vec<CellSamples>, options: &ReportOptions) -> Group {
    let results = Results {
        cells,
        ..Results::default()
    };
    groups(&results, options).remove(0)
}
