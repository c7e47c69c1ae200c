//! From the N x L matrix to the profile: means, quantiles, intervals, reliability, and what an allocation could gain.

use ripplekv_metrics::statistics::{
    Bootstrap, column_means, predicted_allocation_ratio, quantile, split_half_reliability,
};

use crate::profile::{LayerSensitivity, ProfileDocument, ProfileSample, Reliability};

/// Resamples of the intervals.
const RESAMPLES: usize = 2000;

/// Random splits into halves.
const SPLITS: usize = 200;

/// Samples below which halves say nothing.
pub(crate) const LEAST_FOR_RELIABILITY: usize = 4;

/// Exponents of the law damage ~ budget^-exponent under which the gain of an allocation is predicted.
pub const PREDICTED_EXPONENTS: [f64; 3] = [0.5, 1.0, 2.0];

fn matrix(samples: &[ProfileSample]) -> Vec<&[f64]> {
    samples.iter().map(|sample| sample.kl.as_slice()).collect()
}

fn means(rows: &[&[f64]]) -> Vec<f64> {
    let everyone: Vec<usize> = (0..rows.len()).collect();
    column_means(rows, &everyone)
}

/// One entry a layer. Every layer is resampled with the same seed, hence over the same samples.
pub(crate) fn sensitivity(samples: &[ProfileSample], seed: u64) -> Vec<LayerSensitivity> {
    let rows = matrix(samples);
    let bootstrap = Bootstrap {
        resamples: RESAMPLES,
        confidence: 0.95,
        seed,
    };
    means(&rows)
        .into_iter()
        .enumerate()
        .map(|(layer, mean)| {
            let column: Vec<f64> = rows.iter().map(|row| row[layer]).collect();
            let interval = bootstrap.mean(&[&column]).ok();
            LayerSensitivity {
                mean,
                median: quantile(&column, 0.5).unwrap_or(mean),
                p90: quantile(&column, 0.9).unwrap_or(mean),
                low: interval.map_or(mean, |interval| interval.low),
                high: interval.map_or(mean, |interval| interval.high),
            }
        })
        .collect()
}

/// Agreement of two halves of the samples; `None` below four samples, and where all layers are equal.
pub(crate) fn reliability(samples: &[ProfileSample], seed: u64) -> Option<Reliability> {
    if samples.len() < LEAST_FOR_RELIABILITY {
        return None;
    }
    let halves = split_half_reliability(&matrix(samples), SPLITS, seed).ok()?;
    Some(Reliability {
        split_half: halves.split_half,
        spearman_brown: halves.spearman_brown,
        splits: halves.splits,
    })
}

impl ProfileDocument {
    /// s_l: mean KL of every layer.
    #[must_use]
    pub fn mean_sensitivity(&self) -> Vec<f64> {
        self.sensitivity.iter().map(|layer| layer.mean).collect()
    }

    /// Mean over samples of the squared relative attention-output error of every layer under the same noise: a power, as
    /// the KL is, so that both signals spread alike where they order alike.
    #[must_use]
    pub fn mean_local_power(&self) -> Vec<f64> {
        let squares: Vec<Vec<f64>> = self
            .samples
            .iter()
            .map(|sample| {
                sample
                    .local_response
                    .iter()
                    .map(|error| error * error)
                    .collect()
            })
            .collect();
        let rows: Vec<&[f64]> = squares.iter().map(Vec::as_slice).collect();
        means(&rows)
    }

    /// For each of [`PREDICTED_EXPONENTS`]: the total damage under the best allocation over that under a uniform one,
    /// if the sensitivities were the damages; `None` where that is undefined.
    #[must_use]
    pub fn predicted_ratios(&self) -> [(f64, Option<f64>); 3] {
        let damage = self.mean_sensitivity();
        PREDICTED_EXPONENTS
            .map(|exponent| (exponent, predicted_allocation_ratio(&damage, exponent)))
    }
}
