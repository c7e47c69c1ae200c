//! The ripple mapping: per-layer numbers to layer weights, shared by every allocator that reads a signal.
//! Follows arXiv 2608.08684: min-max normalise to s in 0..=1, w = r^s, clip to [1/gamma, gamma]. How the weights are
//! centred before clipping is not public, so it is a parameter; r^s goes through `libm`, the same on every platform.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::AllocationContext;
use crate::CacheError;
use crate::params::{self, ParamDoc, ParamInfo, out_of_range};

const DOCS: &[ParamDoc] = &[
    (
        "r",
        "weight of the layer with the largest signal over that of the smallest, before clipping: above 0, or \
         `calibrate`; the paper's is not public, the default is the middle of the sweep 1, 2, 4, 8, 16",
    ),
    (
        "gamma",
        "weights are clipped to [1/gamma, gamma], at least 1; the paper's is not public, the default is the middle of \
         the sweep 1.5, 2, 4",
    ),
    (
        "center",
        "what weights are divided by before clipping: none (1), mean, geometric (their geometric mean)",
    ),
];

/// The word that leaves r and gamma to the runner, which measures them on the calibration pack.
const CALIBRATE: &str = "calibrate";

/// Largest size of a signal's number: no difference of two overflows.
const LARGEST: f64 = 1e300;

/// What weights are divided by before they are clipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Center {
    /// 1: the literal reading; the lower clip never binds for r >= 1.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their geometric mean.
    Geometric,
}

/// The mapping with checked numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RippleMapping {
    r: f64,
    gamma: f64,
    center: Center,
}

impl RippleMapping {
    /// From its three parameters.
    ///
    /// # Errors
    /// [`CacheError::Param`] unless r > 0 and gamma >= 1, both finite.
    pub fn new(r: f64, gamma: f64, center: Center) -> Result<Self, CacheError> {
        if !(r.is_finite() && r > 0.0) {
            return Err(out_of_range("r", &format!("is {r}; {}", Ratio::FORMS)));
        }
        if !(gamma.is_finite() && gamma >= 1.0) {
            let reason = format!("is {gamma}; must be a number of at least 1");
            return Err(out_of_range("gamma", &reason));
        }
        Ok(Self { r, gamma, center })
    }

    /// From a JSON object with `r`, `gamma` and `center`, each with its default.
    ///
    /// # Errors
    /// An unknown key, a value out of range, or `calibrate`, which must have been replaced by numbers.
    pub fn from_params(given: &Value) -> Result<Self, CacheError> {
        let Value::Object(given) = given else {
            return Err(out_of_range(
                "params",
                &format!("must be a mapping, not {given}"),
            ));
        };
        let is_known = |key: &str| DOCS.iter().any(|&(name, _)| name == key);
        if let Some(key) = given.keys().find(|key| !is_known(key)) {
            let known: Vec<&str> = DOCS.iter().map(|&(name, _)| name).collect();
            return Err(CacheError::UnknownParam {
                key: key.clone(),
                known: known.join(", "),
            });
        }
        MappingParams::read(given)?.resolved()
    }

    /// One weight a layer, each within `[1/gamma, gamma]`; all exactly 1 where all numbers are equal.
    ///
    /// # Errors
    /// [`CacheError::SignalNumber`] for a number that is not finite.
    pub fn weights(&self, signal: &[f64]) -> Result<Vec<f64>, CacheError> {
        let is_wrong = |number: &f64| !(number.is_finite() && number.abs() <= LARGEST);
        if let Some(layer) = signal.iter().position(is_wrong) {
            return Err(CacheError::SignalNumber {
                name: "signal".to_owned(),
                layer,
                number: signal[layer],
                must: "a finite number",
            });
        }
        let lowest = signal.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = signal.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if lowest >= highest {
            return Ok(vec![1.0; signal.len()]);
        }
        let normalised: Vec<f64> = signal
            .iter()
            .map(|number| (number - lowest) / (highest - lowest))
            .collect();
        let raw: Vec<f64> = normalised.iter().map(|&s| libm::pow(self.r, s)).collect();
        let layers = signal.len() as f64;
        let center = match self.center {
            Center::None => 1.0,
            Center::Mean => {
                // relative to the largest, so that no sum overflows
                let largest = self.r.max(1.0);
                largest * (raw.iter().map(|weight| weight / largest).sum::<f64>() / layers)
            }
            Center::Geometric => libm::pow(self.r, normalised.iter().sum::<f64>() / layers),
        };
        Ok(raw
            .iter()
            .map(|weight| (weight / center).clamp(1.0 / self.gamma, self.gamma))
            .collect())
    }
}

/// r as written: a number, or the word that asks for calibration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
enum Ratio {
    Number(f64),
    Calibrate,
}

impl Ratio {
    const FORMS: &str = "must be a number above 0, or `calibrate`";
}

impl TryFrom<Value> for Ratio {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match (value.as_f64(), value.as_str()) {
            (Some(number), _) => Ok(Self::Number(number)),
            (_, Some(CALIBRATE)) => Ok(Self::Calibrate),
            _ => Err(format!("is {value}; {}", Self::FORMS)),
        }
    }
}

impl From<Ratio> for Value {
    fn from(ratio: Ratio) -> Self {
        match ratio {
            Ratio::Number(number) => number.into(),
            Ratio::Calibrate => CALIBRATE.into(),
        }
    }
}

/// The mapping's parameters as a spec gives them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct MappingParams {
    r: Ratio,
    gamma: f64,
    center: Center,
}

impl Default for MappingParams {
    fn default() -> Self {
        Self {
            r: Ratio::Number(4.0),
            gamma: 2.0,
            center: Center::default(),
        }
    }
}

impl MappingParams {
    /// Keys with their defaults.
    pub(super) fn describe() -> Vec<ParamInfo> {
        params::describe::<Self>(DOCS)
    }

    /// An allocator's own keys `P`, then the mapping's.
    pub(super) fn describe_after<P: Default + Serialize>(docs: &[ParamDoc]) -> Vec<ParamInfo> {
        let mut all = params::describe::<P>(docs);
        all.extend(Self::describe());
        all
    }

    /// Reads and checks the mapping's keys of `given`.
    pub(super) fn read(given: &Map<String, Value>) -> Result<Self, CacheError> {
        let parsed: Self = params::read(given, DOCS)?;
        let r = match parsed.r {
            Ratio::Number(number) => number,
            // an open r does not keep gamma from being checked
            Ratio::Calibrate => 1.0,
        };
        RippleMapping::new(r, parsed.gamma, parsed.center)?;
        Ok(parsed)
    }

    /// All keys written out.
    pub(super) fn canonical(self) -> Map<String, Value> {
        Map::from_iter([
            ("r".to_owned(), self.r.into()),
            ("gamma".to_owned(), self.gamma.into()),
            ("center".to_owned(), serde_json::json!(self.center)),
        ])
    }

    fn resolved(self) -> Result<RippleMapping, CacheError> {
        match self.r {
            Ratio::Number(r) => RippleMapping::new(r, self.gamma, self.center),
            Ratio::Calibrate => Err(out_of_range(
                "r",
                "is still `calibrate`; it must be replaced by the number measured for this model first",
            )),
        }
    }

    /// Weights of a signal.
    pub(super) fn weights(self, signal: &[f64]) -> Result<Vec<f64>, CacheError> {
        self.resolved()?.weights(signal)
    }

    /// Weights of a signal of the model's profile.
    pub(super) fn profile_weights(
        self,
        context: &AllocationContext<'_>,
        name: &str,
    ) -> Result<Vec<f64>, CacheError> {
        let mapping = self.resolved()?;
        let signal = context
            .signals
            .get(name)
            .ok_or_else(|| CacheError::MissingSignal {
                name: name.to_owned(),
            })?;
        check_signal(signal, name, context.layers)?;
        mapping.weights(signal)
    }
}

/// Whether a signal has one number a layer, each finite and at least 0.
pub(super) fn check_signal(signal: &[f64], name: &str, layers: usize) -> Result<(), CacheError> {
    if signal.len() != layers {
        return Err(CacheError::SignalLayers {
            name: name.to_owned(),
            have: signal.len(),
            want: layers,
        });
    }
    match signal.iter().position(|number| !is_usable(*number)) {
        None => Ok(()),
        Some(layer) => Err(CacheError::SignalNumber {
            name: name.to_owned(),
            layer,
            number: signal[layer],
            must: "a finite number of at least 0",
        }),
    }
}

/// Whether a number may stand in a measured signal.
pub(super) fn is_usable(number: f64) -> bool {
    (0.0..=LARGEST).contains(&number)
}
