//! Per-layer numbers of every signal of [`SIGNALS`], as far as they can be resampled.

use ripplekv_runner::damage::{SIGNALS, SignalSource, random_signal, signal_values};
use ripplekv_runner::profile::{ProfileDocument, ProfileSample};

use super::measure::Matrix;

/// Random profiles ranked against damage.
pub(super) const RANDOM_DRAWS: u64 = 100;

/// Numbers of one signal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    /// The mean of these samples.
    Samples(Matrix),
    /// A formula of the layer's place, without noise.
    Place(Vec<f64>),
    /// Many draws.
    Random(Vec<Vec<f64>>),
    /// Damage itself.
    Oracle,
}

impl Values {
    /// One value a layer, where the signal has that.
    pub(super) fn mean(&self) -> Option<Vec<f64>> {
        match self {
            Values::Samples(matrix) => Some(matrix.mean()),
            Values::Place(values) => Some(values.clone()),
            Values::Random(_) | Values::Oracle => None,
        }
    }
}

/// Every signal with its numbers, in the order of [`SIGNALS`]; one that this program cannot compute is left out.
pub(super) fn all(profile: &ProfileDocument, seed: u64) -> Vec<(&'static str, Values)> {
    let layers = profile.model.layers;
    SIGNALS
        .iter()
        .filter_map(|info| {
            let values = match info.source {
                SignalSource::Profile => Values::Samples(matrix(info.name, profile)?),
                SignalSource::Place => Values::Place(signal_values(info.name, profile).ok()?),
                SignalSource::Random => Values::Random(
                    (0..RANDOM_DRAWS)
                        .map(|draw| random_signal(seed, draw, layers))
                        .collect(),
                ),
                // its order is random too: as a ranking it says what `random` says
                SignalSource::Permuted => return None,
                SignalSource::Oracle => Values::Oracle,
            };
            Some((info.name, values))
        })
        .collect()
}

fn matrix(signal: &str, profile: &ProfileDocument) -> Option<Matrix> {
    let values: fn(&ProfileSample) -> &Vec<f64> = match signal {
        "sensitivity" => |sample| &sample.kl,
        "local-response" => |sample| &sample.local_response,
        _ if !profile.recipe.signals => return None,
        "window-entropy" => |sample| &sample.window_entropy,
        "hidden-change" => |sample| &sample.hidden_change,
        _ => return None,
    };
    Some(Matrix {
        rows: profile
            .samples
            .iter()
            .map(|sample| values(sample).clone())
            .collect(),
    })
}
