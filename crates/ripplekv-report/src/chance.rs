//! What a task can show at all: a score that one fixed answer reaches as well says nothing about a cache.

use ripplekv_metrics::{Asked, Context, best_fixed_answer, find_metric};

use crate::group::Group;
use crate::read::CellSamples;

/// What chance scores on a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chance {
    /// Points of the best fixed answer.
    pub(crate) score: f64,
    /// Whether the full cache's interval does not clear it; `None` where the full cache was not run or has no interval.
    pub(crate) is_reached: Option<bool>,
}

/// Fills in the chance level of every task whose metric can be computed here: the Chinese ones need a dictionary.
pub(crate) fn fill(group: &mut Group, cells: &[&CellSamples]) {
    let full = group.full_label().map(str::to_owned);
    let levels: Vec<Option<Chance>> = group
        .tasks
        .iter()
        .map(|task| {
            let metric = find_metric(task.metric.as_deref()?)?;
            let score = fixed_score(metric, cells, &task.name)?;
            let full = full.as_deref();
            let interval = full.and_then(|label| group.cell(label, None, &task.name)?.interval);
            Some(Chance {
                score,
                is_reached: interval.map(|ends| ends.low <= score),
            })
        })
        .collect();
    for (task, level) in group.tasks.iter_mut().zip(levels) {
        task.chance = level;
    }
}

/// Points of the best fixed answer over the task's samples; the references are the same in every cell.
fn fixed_score(
    metric: &ripplekv_metrics::MetricInfo,
    cells: &[&CellSamples],
    task: &str,
) -> Option<f64> {
    let cells = cells.iter().filter(|data| data.cell.task == task);
    let data = cells.max_by_key(|data| data.samples.len())?;
    let asked: Vec<Asked<'_>> = data
        .samples
        .iter()
        .map(|sample| Asked {
            answers: &sample.record.answers,
            all_classes: sample.record.all_classes.as_deref().unwrap_or_default(),
        })
        .collect();
    let found = best_fixed_answer(metric, &asked, &Context::default()).ok()?;
    found.map(|fixed| 100.0 * fixed.score)
}

/// Names of the tasks on which the full cache does not clear chance, with both numbers.
pub(crate) fn reached(group: &Group) -> Vec<String> {
    let tasks = group.tasks.iter().filter_map(|task| {
        let chance = task.chance.as_ref()?;
        let cell = group.cell(group.full_label()?, None, &task.name)?;
        let (score, ends) = (cell.score?, cell.interval?);
        (chance.is_reached == Some(true)).then(|| {
            format!(
                "{} ({score:.2}, 95% {:.2} to {:.2}, n = {}; one fixed answer {:.2})",
                task.name, ends.low, ends.high, cell.scored, chance.score
            )
        })
    });
    tasks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;
    use crate::options::{ReportOptions, TaskLabel};

    /// A task `a` with this metric: the full cache's and snapkv's scores, and the references.
    fn group(metric: &str, full: Option<f64>, answers: [&str; 8]) -> Group {
        let options = ReportOptions {
            tasks: vec![TaskLabel {
                name: "a".to_owned(),
                category: "few_shot".to_owned(),
                in_average: false,
                metric: metric.to_owned(),
            }],
            bootstrap_resamples: 2_000,
            ..ReportOptions::default()
        };
        let classes = ["cat", "dog", "bird"].map(str::to_owned).to_vec();
        let cells = [("full", None, full), ("snapkv", Some("10%"), Some(0.5))];
        let cells = cells.into_iter().filter_map(|(label, budget, score)| {
            // All right but for the last sample, so that there is an interval.
            let mut values = [(score?, None); 8];
            values[7].0 = 0.0;
            let mut data = made_up::with_samples(made_up::cell("m", "a", label, budget), &values);
            for (sample, answer) in data.samples.iter_mut().zip(answers) {
                sample.record.answers = vec![answer.to_owned()];
                sample.record.all_classes = Some(classes.clone());
            }
            Some(data)
        });
        made_up::group(cells.collect(), &options)
    }

    #[test]
    fn a_majority_answer_as_good_as_the_full_cache_is_chance() {
        let mostly_cats = ["cat", "cat", "dog", "cat", "cat", "cat", "cat", "bird"];
        let all_kinds = ["cat", "dog", "bird", "cat", "dog", "bird", "cat", "dog"];
        for (answers, score, is_reached) in [
            (mostly_cats, 500.0 / 7.0, true),
            (all_kinds, 200.0 / 7.0, false),
        ] {
            let group = group("classification", Some(1.0), answers);
            let chance = group.tasks[0].chance.as_ref().unwrap();
            assert!((chance.score - score).abs() < 1e-9, "{chance:?}");
            assert_eq!(chance.is_reached, Some(is_reached));
            assert_eq!(reached(&group).len(), usize::from(is_reached));
            let is_said = group
                .warnings
                .iter()
                .any(|warning| warning.starts_with("at chance level: a (87.50, "));
            assert_eq!(is_said, is_reached, "{:?}", group.warnings);
        }
    }

    #[test]
    fn without_the_full_cache_or_a_metric_nothing_is_claimed() {
        let answers = ["cat"; 8];
        let alone = group("classification", None, answers);
        assert_eq!(alone.tasks[0].chance.as_ref().unwrap().is_reached, None);
        assert!(reached(&alone).is_empty());
        for metric in ["qa-f1-zh", "a-metric-of-tomorrow"] {
            assert_eq!(group(metric, Some(1.0), answers).tasks[0].chance, None);
        }
    }
}
