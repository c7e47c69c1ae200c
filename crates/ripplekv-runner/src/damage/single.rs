//! First pass: one sample, one layer compressed at a time.

use std::collections::BTreeMap;

use crate::damage::ask::Asked;
use crate::damage::document::{DAMAGE_SCHEMA, DamageSample, LayerDamage};
use crate::engine::{BudgetDamage, DamageOutput, DamageRequest, Engine};
use crate::error::RunnerError;

/// What the first pass measured of one sample.
#[derive(Default)]
struct Measured {
    positions: u64,
    full_score: Option<f64>,
    budgets: BTreeMap<String, LayerDamage>,
    warnings: Vec<String>,
}

/// Measures one sample.
///
/// # Errors
/// What stops the whole stage; a failure of this sample stands in its line.
pub(super) fn measure_layers(
    asked: &Asked<'_>,
    engine: &mut dyn Engine,
    on_layer: &mut dyn FnMut(usize),
) -> Result<DamageSample, RunnerError> {
    let settings = asked.setup.job.recipe;
    let (measured, dropped) = match asked.reference_ids() {
        Ok(mut reference_ids) => {
            if !settings.reference_nll {
                reference_ids.clear();
            }
            let request = DamageRequest {
                max_new_tokens: if settings.task_score {
                    asked.place.task.max_new_tokens
                } else {
                    settings.answer_tokens
                },
                single_layers: true,
                leave_in: settings.leave_in,
                reference_ids: &reference_ids,
                outputs: settings.task_score,
                ..asked.request()
            };
            let output = asked.ask(engine, &request, on_layer)?;
            match output.and_then(|output| read_output(asked, &request, output)) {
                Ok(measured) => (measured, None),
                Err(reason) => (Measured::default(), Some(reason)),
            }
        }
        Err(reason) => (Measured::default(), Some(reason)),
    };
    Ok(DamageSample {
        schema: DAMAGE_SCHEMA,
        recipe: asked.setup.head.recipe_hash.clone(),
        task: asked.place.task.info.name.to_owned(),
        sample: asked.place.prompt.sample.clone(),
        prompt_tokens: asked.prompt.ids.len() as u64,
        positions: measured.positions,
        full_score: measured.full_score,
        budgets: measured.budgets,
        dropped,
        warnings: measured.warnings,
    })
}

fn read_output(
    asked: &Asked<'_>,
    request: &DamageRequest<'_>,
    output: DamageOutput,
) -> Result<Measured, String> {
    let full_score = if request.outputs {
        Some(asked.points(&output.output_ids)?)
    } else {
        None
    };
    let mut warnings = output.warnings;
    if asked.setup.job.recipe.reference_nll && request.reference_ids.is_empty() {
        warnings.push("the reference answer is empty: its likelihood was not measured".to_owned());
    }
    let mut budgets = BTreeMap::new();
    for (budget, damage) in asked.setup.budgets.iter().zip(output.budgets) {
        let damage = layers(asked, request, damage, full_score)
            .map_err(|message| format!("budget {budget}: {message}"))?;
        budgets.insert((*budget).to_owned(), damage);
    }
    Ok(Measured {
        positions: output.positions as u64,
        full_score,
        budgets,
        warnings,
    })
}

/// One budget's damage, checked.
fn layers(
    asked: &Asked<'_>,
    request: &DamageRequest<'_>,
    damage: BudgetDamage,
    full_score: Option<f64>,
) -> Result<LayerDamage, String> {
    let layers = asked.setup.head.layers;
    let checked = |name: &str, values: Vec<f64>, is_asked: bool| {
        let expected = if is_asked { layers } else { 0 };
        if values.len() == expected && values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(format!(
                "the engine did not give {expected} finite numbers as {name}"
            ))
        }
    };
    let score_drop = match full_score {
        None => Vec::new(),
        Some(full) => damage
            .outputs
            .iter()
            .map(|output| match output {
                None => Ok(0.0),
                Some(ids) => Ok(full - asked.points(ids)?),
            })
            .collect::<Result<_, String>>()?,
    };
    let has_reference = !request.reference_ids.is_empty();
    if damage.layer_tokens.len() != layers {
        return Err(format!("the engine did not give {layers} layers' entries"));
    }
    Ok(LayerDamage {
        layer_tokens: damage.layer_tokens,
        kl: checked("kl", damage.kl, true)?,
        leave_in_kl: checked("leave_in_kl", damage.leave_in_kl, request.leave_in)?,
        reference_nll_change: checked(
            "reference_nll_change",
            damage.reference_nll_change,
            has_reference,
        )?,
        score_drop: checked("score_drop", score_drop, request.outputs)?,
    })
}
