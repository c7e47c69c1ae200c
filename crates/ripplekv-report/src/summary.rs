//! One cell in numbers: its LongBench score with an interval, what it kept, what it cost.
//! Scores round the way LongBench's `eval.py` does (`ripplekv_metrics::task_score`).

use ripplekv_metrics::statistics::standard_error;
use ripplekv_metrics::{find_metric, task_score};
use ripplekv_runner::cell::Cell;
use ripplekv_runner::record::Record;

use crate::group::GroupTask;
use crate::metric::Metric;
use crate::options::{OTHER_CATEGORY, ReportOptions};
use crate::read::{CellSamples, Sample};
use crate::stats::{self, Interval};

/// Numbers of one cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CellSummary {
    /// The cell.
    pub(crate) cell: Cell,
    /// Label in tables, unique within its group.
    pub(crate) label: String,
    /// Category of its task.
    pub(crate) category: String,
    /// Points from which on a sample counts as correct; `None` where the metric knows no such line.
    pub(crate) correct_from: Option<f64>,
    /// Samples that the cells of the group should have for this task: what was selected, not what is stored.
    pub(crate) expected: usize,
    /// Scored samples.
    pub(crate) scored: usize,
    /// Failed samples.
    pub(crate) failed: usize,
    /// 100 times the mean score, two decimals; `None` without a scored sample.
    pub(crate) score: Option<f64>,
    /// Standard error of the score, in points.
    pub(crate) standard_error: Option<f64>,
    /// Mean answer KL in nats; `None` where no sample has one.
    pub(crate) answer_kl: Option<f64>,
    /// 95% bootstrap interval of the score, in points.
    pub(crate) interval: Option<Interval>,
    /// Mean kept prompt entries per layer and KV head.
    pub(crate) kept_entries: Option<f64>,
    /// Mean kept prompt entries per KV head, one number a layer; empty where samples disagree on the layers.
    pub(crate) kept_per_layer: Vec<f64>,
    /// Mean share of the prompt's entries that was kept, in percent.
    pub(crate) kept_percent: Option<f64>,
    /// Mean bytes of the compressed cache.
    pub(crate) cache_bytes: Option<f64>,
    /// Score as a percentage of the full cache's score on the same task; filled in by the group.
    pub(crate) score_percent_of_full: Option<f64>,
    /// Mean prompt tokens.
    pub(crate) prompt_tokens: Option<f64>,
    /// Mean generated tokens.
    pub(crate) output_tokens: Option<f64>,
    /// Mean milliseconds of the shared prefill.
    pub(crate) prefill_ms: Option<f64>,
    /// Mean milliseconds to select and gather.
    pub(crate) compress_ms: Option<f64>,
    /// Mean milliseconds to decode.
    pub(crate) decode_ms: Option<f64>,
    /// Greatest peak of resident memory, in bytes.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// What every timed sample cost, in file order.
    pub(crate) costs: Vec<SampleCost>,
    /// Samples whose budget was below the must-keep set.
    pub(crate) short_prompts: usize,
    /// Samples that carry a warning.
    pub(crate) with_warnings: usize,
    /// (sample id, points) in file order: what paired comparisons work on.
    points: Vec<(String, f64)>,
    /// (sample id, nats) in file order.
    answer_kls: Vec<(String, f64)>,
}

/// What one sample of a cell cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SampleCost {
    pub(crate) prompt_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) prefill_ms: f64,
    pub(crate) compress_ms: f64,
    pub(crate) decode_ms: f64,
    pub(crate) cache_bytes: u64,
    pub(crate) peak_rss_bytes: u64,
    /// Whether prefill, decoding steps and peak are this cell's own.
    pub(crate) alone: bool,
}

impl SampleCost {
    /// From the prompt to the last token of the answer.
    pub(crate) fn latency_ms(&self) -> f64 {
        self.prefill_ms + self.compress_ms + self.decode_ms
    }

    /// Tokens after the first, which comes from the prefill, by the time of their steps.
    pub(crate) fn decode_tokens_per_second(&self) -> Option<f64> {
        (self.output_tokens > 1 && self.decode_ms > 0.0)
            .then(|| (self.output_tokens - 1) as f64 / (self.decode_ms / 1e3))
    }
}

fn cost(sample: &Sample) -> Option<SampleCost> {
    let timing = sample.timing.as_ref()?;
    Some(SampleCost {
        prompt_tokens: sample.record.prompt_tokens,
        output_tokens: sample.record.output_tokens,
        prefill_ms: timing.prefill_ms,
        compress_ms: timing.compress_ms,
        decode_ms: timing.decode_ms,
        cache_bytes: sample.record.cache_bytes,
        peak_rss_bytes: timing.peak_rss_bytes,
        alone: timing.alone,
    })
}

impl CellSummary {
    /// True when every sample that the task should have was scored.
    pub(crate) fn is_complete(&self) -> bool {
        self.scored > 0 && self.scored >= self.expected
    }

    /// True while samples are not stored yet; a failed sample is stored.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.scored + self.failed < self.expected.max(1)
    }

    /// (sample id, number) of every sample that has the metric, in file order.
    pub(crate) fn values(&self, metric: Metric) -> &[(String, f64)] {
        match metric {
            Metric::Score => &self.points,
            Metric::AnswerKl => &self.answer_kls,
        }
    }

    /// Mean over the samples that have the metric; scores rounded as LongBench does.
    pub(crate) fn mean(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Score => self.score,
            Metric::AnswerKl => self.answer_kl,
        }
    }

    pub(crate) fn new(
        data: &CellSamples,
        label: String,
        task: Option<&GroupTask>,
        expected: usize,
        options: &ReportOptions,
    ) -> CellSummary {
        let metric = task.and_then(|task| find_metric(task.metric.as_deref()?));
        let samples = &data.samples;
        let of = |metric: Metric| -> Vec<(String, f64)> {
            let records = samples.iter().map(|sample| &sample.record);
            records
                .filter_map(|record| Some((record.sample.clone(), metric.of(record)?)))
                .collect()
        };
        let (points, answer_kls) = (of(Metric::Score), of(Metric::AnswerKl));
        let scores: Vec<f64> = samples
            .iter()
            .filter_map(|sample| sample.record.score)
            .collect();
        let unnamed: Vec<f64> = points.iter().map(|(_, points)| *points).collect();
        // What was kept and what it cost is measured on the samples that ran.
        let ran: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.record.error.is_none())
            .collect();
        let over =
            |value: fn(&Sample) -> Option<f64>| mean(ran.iter().filter_map(|sample| value(sample)));
        CellSummary {
            cell: data.cell.clone(),
            label,
            category: task.map_or_else(|| OTHER_CATEGORY.to_owned(), |task| task.category.clone()),
            correct_from: metric
                .and_then(|metric| metric.correct_from)
                .map(|from| 100.0 * from),
            expected,
            scored: scores.len(),
            failed: samples.len() - scores.len(),
            score: task_score(&scores),
            standard_error: standard_error(&unnamed),
            answer_kl: mean(answer_kls.iter().map(|(_, nats)| *nats)),
            interval: stats::mean_interval(&[unnamed], options),
            kept_entries: over(kept_entries),
            kept_per_layer: kept_per_layer(&ran),
            kept_percent: over(kept_percent),
            cache_bytes: over(|sample| Some(sample.record.cache_bytes as f64)),
            score_percent_of_full: None,
            prompt_tokens: over(|sample| Some(sample.record.prompt_tokens as f64)),
            output_tokens: over(|sample| Some(sample.record.output_tokens as f64)),
            prefill_ms: over(|sample| sample.timing.as_ref().map(|timing| timing.prefill_ms)),
            compress_ms: over(|sample| sample.timing.as_ref().map(|timing| timing.compress_ms)),
            decode_ms: over(|sample| sample.timing.as_ref().map(|timing| timing.decode_ms)),
            peak_rss_bytes: ran
                .iter()
                .filter_map(|sample| sample.timing.as_ref().map(|timing| timing.peak_rss_bytes))
                .max(),
            costs: ran.iter().filter_map(|sample| cost(sample)).collect(),
            short_prompts: samples
                .iter()
                .filter(|sample| sample.record.short_prompt)
                .count(),
            with_warnings: samples
                .iter()
                .filter(|sample| !sample.record.warnings.is_empty())
                .count(),
            points,
            answer_kls,
        }
    }
}

/// Mean over layers of the kept entries per KV head.
pub(crate) fn kept_entries(sample: &Sample) -> Option<f64> {
    let layers = &sample.record.kept_per_layer;
    let total: u64 = layers.iter().map(|kept| u64::from(*kept)).sum();
    (!layers.is_empty()).then(|| total as f64 / layers.len() as f64)
}

fn kept_per_layer(samples: &[&Sample]) -> Vec<f64> {
    let layers = samples
        .first()
        .map_or(0, |sample| sample.record.kept_per_layer.len());
    if samples
        .iter()
        .any(|sample| sample.record.kept_per_layer.len() != layers)
    {
        return Vec::new();
    }
    (0..layers)
        .map(|layer| {
            let kept = samples
                .iter()
                .map(|sample| f64::from(sample.record.kept_per_layer[layer]));
            kept.sum::<f64>() / samples.len() as f64
        })
        .collect()
}

fn kept_percent(sample: &Sample) -> Option<f64> {
    kept_percent_of(&sample.record)
}

/// Share of the prompt's entries that was kept, in percent.
pub(crate) fn kept_percent_of(record: &Record) -> Option<f64> {
    let (layers, tokens) = (&record.kept_per_layer, record.prompt_tokens);
    let total: u64 = layers.iter().map(|kept| u64::from(*kept)).sum();
    let everything = layers.len() as f64 * tokens as f64;
    (everything > 0.0).then(|| 100.0 * total as f64 / everything)
}

/// Plain mean in the order given; `None` of nothing.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut total, mut count) = (0.0, 0_usize);
    for value in values {
        total += value;
        count += 1;
    }
    (count > 0).then(|| total / count as f64)
}
