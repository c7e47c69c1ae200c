//! Findings in sentences: what the intervals establish and what they do not, with the n of both sides.

use super::allocation::{AllocationBlock, ORACLE, Regret, UNIFORM};
use super::correlation::{CorrelationBlock, CorrelationRow, Outcome, SENSITIVITY};
use super::depth::DepthRow;
use super::measure::Measure;
use super::prediction::{HOPELESS_ABOVE, Prediction};
use super::{Estimate, Evidence};
use crate::stats::Interval;

/// Greatest circular-shift p of an established correlation; not corrected over signals, as 30 layers allow no smaller one.
const SIGNIFICANCE: f64 = 0.05;

/// Signals that the headline compares sensitivity with.
const HEADLINE_AGAINST: [&str; 2] = ["layer-index", "local-response"];

/// All findings of a model, the primary measure first.
pub(super) fn findings(evidence: &Evidence) -> Vec<String> {
    let mut lines = Vec::new();
    for block in &evidence.correlations {
        if block.measure == Measure::SingleLayer {
            lines.push(headline(block));
        }
    }
    lines.extend(evidence.depth.iter().map(depth_sentence));
    lines.extend(evidence.allocations.iter().map(allocation_sentence));
    lines.extend(evidence.predictions.iter().map(prediction_sentence));
    lines
}

/// Sensitivity against one damage, in a sentence.
pub(super) fn headline(block: &CorrelationBlock) -> String {
    let start = format!("{} at {}", block.measure.name(), block.budget);
    let Some(row) = block.row(SENSITIVITY) else {
        return format!("{start}: no sensitivity");
    };
    let Outcome::Ranked { rho, .. } = &row.outcome else {
        return format!("{start}: {}", verdict(row));
    };
    let samples = format!(
        "{} x {} samples, {} layers",
        block.profile_samples, block.damage_samples, block.layers
    );
    let mut parts = vec![format!(
        "sensitivity ranks {start} with rho {:.2} ({}{samples}): {}",
        rho.value,
        rho.interval
            .map_or(String::new(), |ends| format!("95% {}; ", range(ends, 2))),
        verdict(row)
    )];
    for name in HEADLINE_AGAINST {
        if let Some(row) = block.row(name)
            && let Outcome::Ranked {
                sensitivity_above: Some(above),
                ..
            } = &row.outcome
        {
            parts.push(format!("against {name}: {}", above_in_words(above)));
        }
    }
    parts.join("; ")
}

/// What a row of the correlation table establishes.
pub(crate) fn verdict(row: &CorrelationRow) -> String {
    match &row.outcome {
        Outcome::Undefined(reason) => reason.clone(),
        Outcome::Random {
            below_sensitivity, ..
        } => format!("sensitivity is above {below_sensitivity} of 100 draws"),
        Outcome::Oracle { half, rho } => format!(
            "halves agree with rho {half:.2}, so a signal without noise could reach {:.2} on all samples",
            rho.value
        ),
        Outcome::Ranked {
            sensitivity_above: Some(above),
            ..
        } => above_in_words(above),
        Outcome::Ranked {
            rho,
            p,
            undefined_share,
            ..
        } => {
            let mut text = ranks_in_words(rho, *p);
            if *undefined_share > 0.05 {
                text.push_str(&format!(
                    "; undefined on {:.0}% of the resamples",
                    100.0 * undefined_share
                ));
            }
            text
        }
    }
}

/// Whether one rho is established: its interval over samples leaves out 0, and the signal shifted over depth seldom does as
/// well. The interval alone would only say that the order of these layers is stable, which holds for many random signals.
fn ranks_in_words(rho: &Estimate, p: Option<f64>) -> String {
    let shift = p.map_or_else(|| "undefined".to_owned(), |p| format!("{p:.3}"));
    if rho.interval.is_none() {
        "not established: too few samples for an interval".to_owned()
    } else if !rho.is_above_zero() && !rho.is_below_zero() {
        "not established: the interval holds 0".to_owned()
    } else if p.is_none_or(|p| p > SIGNIFICANCE) {
        format!(
            "not established: stable over samples, but shifted over depth it does as well (p {shift})"
        )
    } else if rho.is_above_zero() {
        format!("established (interval over samples, circular-shift p {shift})")
    } else {
        format!("established the wrong way round (interval over samples, circular-shift p {shift})")
    }
}

fn above_in_words(above: &Estimate) -> String {
    let Some(ends) = above.interval else {
        return "not established: too few samples for an interval".to_owned();
    };
    let size = format!("{:.2} ({})", above.value.abs(), range_of_size(above, ends));
    if above.is_above_zero() {
        format!("sensitivity above by {size}: established over samples")
    } else if above.is_below_zero() {
        // the resampling doubles the noise of the measured signal and not that of a formula
        format!("sensitivity below by {size}; not established, as resampling leans against it")
    } else {
        "not established: the interval of the difference holds 0".to_owned()
    }
}

/// The interval of the difference's size, ends in the order of reading.
fn range_of_size(above: &Estimate, ends: Interval) -> String {
    if above.is_below_zero() {
        format!("{:.2} to {:.2}", -ends.high, -ends.low)
    } else {
        range(ends, 2)
    }
}

fn range(ends: Interval, decimals: usize) -> String {
    format!("{:.decimals$} to {:.decimals$}", ends.low, ends.high)
}

/// Whether damage is monotone in depth, in a sentence.
fn depth_sentence(row: &DepthRow) -> String {
    let rho = row.rho.map_or(String::new(), |rho| {
        let ends = rho
            .interval
            .map_or(String::new(), |ends| format!(" (95% {})", range(ends, 2)));
        format!("rho with depth {:.2}{ends}, ", rho.value)
    });
    let verdict = match row.steps {
        None => "too few samples to test whether it is monotone".to_owned(),
        Some((rise, fall)) if row.is_not_monotone() => format!(
            "monotone is rejected: the rise from layer {} to {} and the fall from {} to {}, found on one half of the samples, both hold on the other",
            rise.from, rise.to, fall.from, fall.to
        ),
        Some(_) => {
            "monotone is not rejected: no rise and fall found on one half of the samples both hold on the other".to_owned()
        }
    };
    format!(
        "damage over depth at {}: {rho}{} sign changes in {} steps (n = {}): {verdict}",
        row.budget, row.sign_changes, row.differences, row.samples
    )
}

/// What the allocations did to joint damage, in a sentence.
fn allocation_sentence(block: &AllocationBlock) -> String {
    let start = format!("joint KL at {} (n = {})", block.budget, block.samples);
    let sensitivity = block.rows.iter().find(|row| row.name == SENSITIVITY);
    let mut parts = Vec::new();
    if let Some(change) = sensitivity.and_then(|row| row.from_uniform) {
        parts.push(format!(
            "sensitivity against {UNIFORM}: {}",
            change_in_words(&change)
        ));
    }
    match (block.room, sensitivity.map(|row| &row.regret)) {
        (_, Some(Regret::Known(regret))) => {
            let ends = regret
                .interval
                .map_or(String::new(), |ends| format!(" (95% {})", range(ends, 2)));
            parts.push(format!(
                "regret {:.2}{ends}, where 0 is the {ORACLE} and 1 is {UNIFORM}",
                regret.value
            ));
        }
        (_, Some(Regret::Unknown(reason))) => parts.push(format!("no regret: {reason}")),
        (Some(room), None) => parts.push(format!(
            "{UNIFORM} less {ORACLE}: {}",
            change_in_words(&room)
        )),
        (None, None) => {}
    }
    if parts.is_empty() {
        parts.push("neither sensitivity nor the oracle was measured".to_owned());
    }
    format!(
        "{start}: {} (intervals over samples, given this profile and the oracle of these halves)",
        parts.join("; ")
    )
}

fn change_in_words(change: &Estimate) -> String {
    let Some(ends) = change.interval else {
        return "not established: too few samples for an interval".to_owned();
    };
    let decimals = decimals(&[ends.low, ends.high]);
    // Of a fall the size is said, ends in the order of reading.
    let size =
        |value: f64, ends: Interval| format!("{value:.decimals$} nats ({})", range(ends, decimals));
    if change.is_above_zero() {
        format!("more damage by {}: established", size(change.value, ends))
    } else if change.is_below_zero() {
        let turned = Interval {
            low: -ends.high,
            high: -ends.low,
        };
        format!(
            "less damage by {}: established",
            size(-change.value, turned)
        )
    } else {
        format!(
            "{}: not established, the interval holds 0",
            size(change.value, ends)
        )
    }
}

/// What allocation can gain at most, in a sentence.
pub(crate) fn prediction_sentence(row: &Prediction) -> String {
    let ratios: Vec<String> = row
        .ratios
        .iter()
        .map(|(p, ratio)| format!("{ratio:.3} for p = {p:.2}"))
        .collect();
    let exponent = match row.exponent.map(|exponent| exponent.interval) {
        Some(Some(ends)) => format!(" (p measured over the budgets, 95% {})", range(ends, 2)),
        Some(None) => " (p measured over the budgets)".to_owned(),
        None => " (p cannot be measured from these budgets)".to_owned(),
    };
    let mut text = if ratios.is_empty() {
        format!(
            "best total damage over uniform's at {}: no prediction, no layer has damage",
            row.budget
        )
    } else {
        format!(
            "predicted best total damage over uniform's at {}: {}{exponent}; it leans low, because noise in the layers' means of {} samples looks like room to gain",
            row.budget,
            ratios.join(", "),
            row.samples
        )
    };
    if let Some(measured) = row.measured {
        let ends = measured
            .interval
            .map_or(String::new(), |ends| format!(" (95% {})", range(ends, 3)));
        text.push_str(&format!(
            "; measured {ORACLE} over {UNIFORM}: {:.3}{ends}",
            measured.value
        ));
    }
    if row.is_hopeless() {
        text.push_str(&format!(
            ". WARNING: above {HOPELESS_ABOVE}, so no allocation can help much here"
        ));
    }
    text
}

/// Decimals that leave three digits of the greatest number.
pub(crate) fn decimals(values: &[f64]) -> usize {
    let greatest = values
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    if greatest > 0.0 && greatest.is_finite() {
        (2.0 - greatest.log10().floor()).clamp(2.0, 9.0) as usize
    } else {
        2
    }
}
