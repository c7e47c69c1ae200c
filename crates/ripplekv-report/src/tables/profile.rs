//! The profile of one model, layer by layer.

use crate::evidence::{Evidence, decimals};
use crate::tables::{Block, Column, Table, Value};
use ripplekv_runner::profile::ProfileSample;

pub(super) fn build(evidence: &Evidence) -> Option<Table> {
    let profile = evidence.profile.as_ref()?;
    let signals = profile.recipe.signals;
    let mut columns = vec![
        Column::label("model").spare(),
        Column::number("layer"),
        Column::number("sensitivity"),
        Column::interval("95% interval"),
        Column::number("rank"),
        Column::number("median"),
        Column::number("90th percentile"),
        Column::number("local response"),
    ];
    if signals {
        columns.extend(["window entropy", "hidden change"].map(Column::number));
    }
    let mean = |values: fn(&ProfileSample) -> &Vec<f64>, layer: usize| {
        let total: f64 = profile
            .samples
            .iter()
            .map(|sample| values(sample)[layer])
            .sum();
        total / profile.samples.len() as f64
    };
    let digits = |values: &[f64]| decimals(values);
    let all: Vec<f64> = profile.sensitivity.iter().map(|layer| layer.mean).collect();
    let kl = digits(&all);
    let rows = profile
        .sensitivity
        .iter()
        .enumerate()
        .map(|(layer, sensitivity)| {
            let rank = all
                .iter()
                .filter(|other| **other > sensitivity.mean)
                .count()
                + 1;
            let mut row = vec![
                Value::text(evidence.model.clone()),
                Value::count(layer),
                Value::number(Some(sensitivity.mean), kl),
                Value::Interval {
                    low: sensitivity.low,
                    high: sensitivity.high,
                    decimals: kl,
                    signed: false,
                },
                Value::count(rank),
                Value::number(Some(sensitivity.median), kl),
                Value::number(Some(sensitivity.p90), kl),
                Value::number(Some(mean(|sample| &sample.local_response, layer)), 4),
            ];
            if signals {
                row.extend([
                    Value::number(Some(mean(|sample| &sample.window_entropy, layer)), 3),
                    Value::number(Some(mean(|sample| &sample.hidden_change, layer)), 4),
                ]);
            }
            row
        })
        .collect();
    let controls: Vec<f64> = profile
        .samples
        .iter()
        .filter_map(|sample| sample.all_layers_kl)
        .collect();
    let control = match controls.as_slice() {
        [] => "Neither window entropy, hidden change nor the control were measured (profile.signals: false).".to_owned(),
        controls => format!(
            "Control, every layer perturbed at once: {:.3} nats.",
            controls.iter().sum::<f64>() / controls.len() as f64
        ),
    };
    let of_signals = match signals {
        true => {
            " Window entropy in nats. Hidden change: 1 - cosine of the layer's input and output states."
        }
        false => "",
    };
    let reliability = profile.reliability.map_or(
        "Reliability: none below 4 samples.".to_owned(),
        |known| {
            format!(
                "Reliability of the profile: {:.3} (mean Spearman of two halves {:.3} over {} splits, corrected to all samples by Spearman-Brown).",
                known.spearman_brown, known.split_half, known.splits
            )
        },
    );
    Some(Table {
        title: format!("Sensitivity of every layer: {}", evidence.model),
        columns,
        blocks: vec![Block {
            name: String::new(),
            rows,
        }],
        notes: vec![
            format!(
                "KL of the final distribution in nats under value noise of one layer, sigma {}; {} samples of {}, {} dropped. Interval: bootstrap over samples. {control}",
                profile.sigma.chosen,
                profile.samples.len(),
                profile.recipe.calibration,
                profile.dropped.len(),
            ),
            reliability,
            format!(
                "Local response: the layer's own relative attention-output error under the same noise.{of_signals}"
            ),
        ],
    })
}
