//! Samples that are measured together: which, for what, and whether what the engine found can be used.

use ripplekv_tasks::Tokenise;

use crate::engine::{EngineError, ModelShape, SensitivityOutput};
use crate::error::RunnerError;
use crate::plan::PlannedProfile;
use crate::profile::prompts::{CalibrationPrompt, prompts};
use crate::profile::sigma::SIGMA_LADDER;
use crate::profile::store::PartialLine;
use crate::profile::{DroppedSample, ProfileRecipe, ProfileSample};

/// Answer positions without which a sample says nothing.
pub(crate) const LEAST_POSITIONS: usize = 2;

/// Most prompt tokens of the samples that are measured together: their caches are held beside each other, so what they
/// take is bounded by that of one long prompt.
const TOGETHER_TOKENS: usize = 8192;

/// Most samples that are measured together: more rows hardly make the decoding of each cheaper.
const TOGETHER_SAMPLES: usize = 8;

/// How many of the next prompts are measured together: their caches are all held, and where the measurement `may_end`
/// after a round over the tasks, none of the next round is begun.
pub(crate) fn group_size(prompts: &[CalibrationPrompt], may_end: bool) -> usize {
    let mut tokens = 0;
    let fits = prompts.iter().take_while(|prompt| {
        tokens += prompt.ids.len();
        tokens <= TOGETHER_TOKENS && !(may_end && prompt.round > prompts[0].round)
    });
    fits.take(TOGETHER_SAMPLES).count().max(1)
}

/// Lengths in tokens of the prompts that a profile measures, in groups of those that are measured together.
///
/// # Errors
/// A record of the calibration pack that cannot be read or made a prompt.
pub fn groups(
    profile: &PlannedProfile,
    shape: &ModelShape,
    tokenizer: &dyn Tokenise,
) -> Result<Vec<Vec<usize>>, RunnerError> {
    let prompts = prompts(profile, shape, tokenizer)?;
    let may_end = profile.recipe.stop_at_reliability.is_some();
    let mut groups = Vec::new();
    let mut rest = prompts.as_slice();
    while !rest.is_empty() {
        let (group, behind) = rest.split_at(group_size(rest, may_end));
        let fit = group.iter().filter(|prompt| prompt.unfit.is_none());
        groups.push(fit.map(|prompt| prompt.ids.len()).collect());
        rest = behind;
    }
    Ok(groups)
}

/// What samples are measured for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pass {
    /// To choose the noise scale.
    Ladder,
    /// For the profile, at the chosen scale.
    At(f64),
}

impl Pass {
    pub(crate) fn sigmas(&self) -> &[f64] {
        match self {
            Self::Ladder => &SIGMA_LADDER,
            Self::At(sigma) => std::slice::from_ref(sigma),
        }
    }

    /// Whether more than the sensitivity is kept.
    pub(crate) fn signals(self, recipe: &ProfileRecipe) -> bool {
        matches!(self, Self::At(_)) && recipe.signals
    }

    /// How a measured sample is stored; the error of `found` says why it is left out.
    pub(crate) fn line(
        self,
        prompt: &CalibrationPrompt,
        found: Result<SensitivityOutput, String>,
    ) -> PartialLine {
        let (task, sample) = (prompt.task.to_owned(), prompt.sample.clone());
        match (self, found) {
            (Self::Ladder, found) => PartialLine::Ladder {
                task,
                sample,
                kl: found.map_or_else(|_| Vec::new(), |output| output.kl),
            },
            (Self::At(_), Ok(output)) => PartialLine::Sample(ProfileSample {
                task,
                sample,
                prompt_tokens: prompt.ids.len() as u64,
                answer_tokens: output.answer_ids.len() as u64,
                positions: output.positions as u64,
                kl: output.kl.into_iter().next().unwrap_or_default(),
                local_response: output.local_response.into_iter().next().unwrap_or_default(),
                window_entropy: output.window_entropy,
                hidden_change: output.hidden_change,
                all_layers_kl: output.all_layers_kl.first().copied(),
            }),
            (Self::At(_), Err(reason)) => PartialLine::Dropped(DroppedSample {
                task,
                sample,
                reason,
            }),
        }
    }
}

/// How many numbers the engine is to find.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) sigmas: usize,
    pub(crate) layers: usize,
    pub(crate) signals: bool,
}

/// What the engine found, checked. The inner error says why the sample cannot be used; the outer one stops the stage.
pub(crate) fn usable(
    result: Result<SensitivityOutput, EngineError>,
    model: &str,
    name: &str,
    expected: Expected,
) -> Result<Result<SensitivityOutput, String>, RunnerError> {
    let output = match result {
        Ok(output) => output,
        // not stored as a property of the sample: a profile is kept for good, and memory may have been short
        Err(EngineError::Prompt(message)) => {
            return Err(RunnerError::Data {
                message: format!("model '{model}', calibration sample '{name}': {message}"),
                hint: "run again: what was measured is kept".to_owned(),
            });
        }
        Err(source) => {
            let model = model.to_owned();
            return Err(RunnerError::Model { model, source });
        }
    };
    if output.positions < LEAST_POSITIONS {
        return Ok(Err(format!(
            "its answer has {} positions to average, {LEAST_POSITIONS} are needed",
            output.positions
        )));
    }
    check_numbers(&output, expected).map_err(|problem| RunnerError::Data {
        message: format!("model '{model}', calibration sample '{name}': {problem}"),
        hint: "the model gives no usable numbers on this prompt; check its files".to_owned(),
    })?;
    Ok(Ok(output))
}

/// Every list has its length and every number is one.
fn check_numbers(output: &SensitivityOutput, expected: Expected) -> Result<(), String> {
    let Expected {
        sigmas,
        layers,
        signals,
    } = expected;
    let per_layer = |name: &str, values: &[f64]| match values.iter().position(|v| !v.is_finite()) {
        Some(layer) => Err(format!("layer {layer}: {name} is {}", values[layer])),
        None if values.len() != layers => {
            Err(format!("{name} has {} layers of {layers}", values.len()))
        }
        None => Ok(()),
    };
    for (name, rows) in [
        ("KL", &output.kl),
        ("local response", &output.local_response),
    ] {
        if rows.len() != sigmas {
            return Err(format!(
                "{name} has {} noise scales of {sigmas}",
                rows.len()
            ));
        }
        rows.iter().try_for_each(|row| per_layer(name, row))?;
    }
    if !signals {
        let others = [
            &output.window_entropy,
            &output.hidden_change,
            &output.all_layers_kl,
        ];
        return match others.iter().all(|values| values.is_empty()) {
            true => Ok(()),
            false => Err("there are signals, which nobody asked for".to_owned()),
        };
    }
    per_layer("window entropy", &output.window_entropy)?;
    per_layer("hidden change", &output.hidden_change)?;
    match output.all_layers_kl.iter().find(|kl| !kl.is_finite()) {
        Some(kl) => Err(format!("the KL with every layer perturbed is {kl}")),
        None if output.all_layers_kl.len() != sigmas => {
            Err("the KL with every layer perturbed is missing".to_owned())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ripplekv_tasks::StopRule;

    use super::*;

    fn prompt(tokens: usize, round: usize) -> CalibrationPrompt {
        CalibrationPrompt {
            task: "a_task",
            sample: "one".to_owned(),
            ids: vec![0; tokens],
            stop: StopRule {
                end_tokens: Vec::new(),
                newline: None,
                min_new_tokens: 0,
            },
            round,
            unfit: None,
        }
    }

    #[test]
    fn groups_are_bounded_by_tokens_samples_and_rounds() {
        let sizes = |tokens: &[usize], may_end| {
            let prompts: Vec<CalibrationPrompt> = tokens
                .iter()
                .enumerate()
                .map(|(place, tokens)| prompt(*tokens, place / 3))
                .collect();
            group_size(&prompts, may_end)
        };
        assert_eq!(sizes(&[2048, 2048, 2048, 2048, 1], false), 4);
        assert_eq!(sizes(&[2048, 2048, 2048, 2048, 1], true), 3);
        assert_eq!(sizes(&[10; 20], false), TOGETHER_SAMPLES);
        // one that is longer than a group may be is measured all the same
        assert_eq!(sizes(&[30_000, 10], false), 1);
        assert_eq!(sizes(&[10], true), 1);
    }

    #[test]
    fn numbers_that_are_none_name_their_layer() {
        let good = SensitivityOutput {
            answer_ids: vec![1, 2, 3],
            positions: 2,
            kl: vec![vec![0.1, 0.2]],
            local_response: vec![vec![0.1, 0.2]],
            all_layers_kl: vec![0.5],
            window_entropy: vec![1.0, 1.0],
            hidden_change: vec![0.1, 0.1],
        };
        let expected = Expected {
            sigmas: 1,
            layers: 2,
            signals: true,
        };
        assert_eq!(check_numbers(&good, expected), Ok(()));
        let mut bad = good.clone();
        bad.kl[0][1] = f64::NAN;
        assert_eq!(
            check_numbers(&bad, expected),
            Err("layer 1: KL is NaN".to_owned())
        );
        let mut bad = good.clone();
        bad.all_layers_kl[0] = f64::INFINITY;
        assert!(check_numbers(&bad, expected).is_err());
        let more_layers = Expected {
            layers: 3,
            ..expected
        };
        assert!(check_numbers(&good, more_layers).is_err());
        let more_sigmas = Expected {
            sigmas: 2,
            ..expected
        };
        assert!(check_numbers(&good, more_sigmas).is_err());
        let bare = SensitivityOutput {
            all_layers_kl: Vec::new(),
            window_entropy: Vec::new(),
            hidden_change: Vec::new(),
            ..good
        };
        assert!(check_numbers(&bare, expected).is_err());
        let without_signals = Expected {
            signals: false,
            ..expected
        };
        assert_eq!(check_numbers(&bare, without_signals), Ok(()));
        let unasked = SensitivityOutput {
            hidden_change: vec![0.1, 0.1],
            ..bare
        };
        assert!(check_numbers(&unasked, without_signals).is_err());
    }
}
