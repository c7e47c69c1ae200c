//! Per-layer numbers of every signal that is ranked against damage, and the names of the joint allocations.
//! A larger number always asks for more of the budget.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::damage::document::{SIGNALS, SignalSource};
use crate::error::RunnerError;
use crate::profile::{ProfileDocument, ProfileSample};

/// Sets the orders of the permuted signal apart from the numbers of the random one.
const PERMUTED_SEED: u64 = 0x7065_726d_7574_6564;

/// Random and permuted signals whose allocations are measured jointly: `random-0`, `random-1`, ...
pub const JOINT_RANDOM_DRAWS: u64 = 5;

/// The numbers of a signal of the profile or of the layer's place, `[layer]`.
///
/// # Errors
/// A signal that has no single list of numbers (`random`, `oracle`) or is unknown; a profile without usable samples.
pub fn signal_values(name: &str, profile: &ProfileDocument) -> Result<Vec<f64>, RunnerError> {
    let layers = profile.model.layers;
    let last = layers.saturating_sub(1) as f64;
    let places = (0..layers).map(|layer| layer as f64);
    match name {
        "sensitivity" => column_means(name, profile, |sample| &sample.kl),
        "local-response" => Ok(profile.mean_local_power()),
        "window-entropy" => column_means(name, profile, |sample| &sample.window_entropy),
        "hidden-change" => column_means(name, profile, |sample| &sample.hidden_change),
        "layer-index" => Ok(places.collect()),
        "reversed-index" => Ok(places.map(|layer| last - layer).collect()),
        "middle-peaked" => Ok(places.map(|layer| -(layer - last / 2.0).abs()).collect()),
        _ => Err(RunnerError::Data {
            message: format!("signal '{name}' has no numbers in a profile"),
            hint: "profile and place signals have, see `damage::SIGNALS`".to_owned(),
        }),
    }
}

/// Means over the samples of one of the profile's matrices.
fn column_means(
    name: &str,
    profile: &ProfileDocument,
    column: impl Fn(&ProfileSample) -> &[f64],
) -> Result<Vec<f64>, RunnerError> {
    let wrong = |message: String| RunnerError::Data {
        message: format!(
            "profile of model '{}', signal '{name}': {message}",
            profile.model.name
        ),
        hint: "measure the profile again with `ripplekv profile`".to_owned(),
    };
    let layers = profile.model.layers;
    if profile.samples.is_empty() {
        return Err(wrong("it has no samples".to_owned()));
    }
    let mut sums = vec![0.0; layers];
    for sample in &profile.samples {
        let values = column(sample);
        if values.len() != layers || values.iter().any(|value| !value.is_finite()) {
            return Err(wrong(format!(
                "sample '{}/{}' does not have {layers} finite numbers",
                sample.task, sample.sample
            )));
        }
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    let count = profile.samples.len() as f64;
    Ok(sums.into_iter().map(|sum| sum / count).collect())
}

/// One draw of the random signal: `layers` numbers uniform in [0, 1), the same on every platform.
#[must_use]
pub fn random_signal(seed: u64, draw: u64, layers: usize) -> Vec<f64> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(draw);
    let unit = 1.0 / (1u64 << 53) as f64;
    (0..layers)
        .map(|_| (generator.next_u64() >> 11) as f64 * unit)
        .collect()
}

/// One draw of shuffled numbers, the same on every platform.
#[must_use]
pub fn permuted_signal(seed: u64, draw: u64, values: &[f64]) -> Vec<f64> {
    let keys = random_signal(seed ^ PERMUTED_SEED, draw, values.len());
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]).then(a.cmp(b)));
    order.into_iter().map(|layer| values[layer]).collect()
}

/// Names of the allocations in `joint.jsonl`: `uniform`, every signal with its draws numbered, `oracle`.
#[must_use]
pub fn joint_names() -> Vec<String> {
    let mut names = vec!["uniform".to_owned()];
    for signal in SIGNALS {
        if matches!(signal.source, SignalSource::Random | SignalSource::Permuted) {
            names.extend((0..JOINT_RANDOM_DRAWS).map(|draw| format!("{}-{draw}", signal.name)));
        } else {
            names.push(signal.name.to_owned());
        }
    }
    names
}
