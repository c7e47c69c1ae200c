//! The noise scale: the largest at which the KL still grows with the square of the noise, as a divergence does near its
//! minimum. Never chosen by looking at damage (design.md 5).

use ripplekv_metrics::statistics::{column_means, quantile, spearman};

use crate::profile::{SigmaChoice, SigmaStep};

/// The scales that are tried.
pub const SIGMA_LADDER: [f64; 5] = [0.01, 0.03, 0.1, 0.3, 1.0];

/// Least slope of log KL over log sigma; 2 is exactly quadratic.
pub const LEAST_SLOPE: f64 = 1.8;

/// The rungs from the KL of each sample, `[sample][sigma][layer]`.
pub(crate) fn ladder(samples: &[&[Vec<f64>]]) -> Vec<SigmaStep> {
    if samples.is_empty() {
        return Vec::new();
    }
    let everyone: Vec<usize> = (0..samples.len()).collect();
    let mut steps: Vec<SigmaStep> = Vec::with_capacity(SIGMA_LADDER.len());
    for (rung, sigma) in SIGMA_LADDER.iter().enumerate() {
        let rows: Vec<&[f64]> = samples.iter().map(|kl| kl[rung].as_slice()).collect();
        let kl = column_means(&rows, &everyone);
        let (median_slope, spearman_with_previous) = match steps.last() {
            Some(below) => (
                median_slope(below, *sigma, &kl),
                spearman(&below.kl, &kl).ok(),
            ),
            None => (None, None),
        };
        steps.push(SigmaStep {
            sigma: *sigma,
            kl,
            median_slope,
            spearman_with_previous,
        });
    }
    steps
}

/// Median over the layers whose KL is above zero on both rungs.
fn median_slope(below: &SigmaStep, sigma: f64, kl: &[f64]) -> Option<f64> {
    let width = libm::log(sigma) - libm::log(below.sigma);
    let slopes: Vec<f64> = below
        .kl
        .iter()
        .zip(kl)
        .filter(|(low, high)| **low > 0.0 && **high > 0.0)
        .map(|(low, high)| (libm::log(*high) - libm::log(*low)) / width)
        .collect();
    quantile(&slopes, 0.5)
}

/// The largest scale of the ladder that passes; the smallest where none does.
fn largest_quadratic(ladder: &[SigmaStep]) -> Option<f64> {
    ladder
        .iter()
        .rev()
        .find(|step| step.median_slope.is_some_and(|slope| slope >= LEAST_SLOPE))
        .map(|step| step.sigma)
}

/// Picks the scale, or checks the given one; the warning says what a reader should doubt.
pub(crate) fn choose(given: Option<f64>, ladder: Vec<SigmaStep>) -> (SigmaChoice, Option<String>) {
    let largest = largest_quadratic(&ladder);
    let smallest = SIGMA_LADDER[0];
    let chosen = given.or(largest).unwrap_or(smallest);
    let limit = largest.unwrap_or(smallest);
    let warning = if ladder.is_empty() {
        None
    } else if largest.is_none() {
        Some(format!(
            "no noise scale of the ladder gives a KL that grows quadratically (median slope of at least {LEAST_SLOPE}); {chosen} is used"
        ))
    } else if chosen > limit {
        Some(format!(
            "the given noise scale {chosen} is above {limit}, the largest at which the KL grows quadratically"
        ))
    } else {
        None
    };
    let choice = SigmaChoice {
        chosen,
        given: given.is_some(),
        ladder,
    };
    (choice, warning)
}

#[cfg(test)]
mod tests {
    use super::{SIGMA_LADDER, choose, ladder};

    /// KL of two samples and three layers, quadratic up to `bend` and flat above it.
    fn saturating(bend: f64) -> Vec<Vec<Vec<f64>>> {
        let layer = |sample: f64, layer: f64, sigma: f64| {
            let sigma = sigma.min(bend);
            sample * layer * sigma * sigma
        };
        [1.0, 3.0]
            .iter()
            .map(|sample| {
                let row = |sigma: &f64| [1.0, 2.0, 5.0].map(|l| layer(*sample, l, *sigma)).to_vec();
                SIGMA_LADDER.iter().map(row).collect()
            })
            .collect()
    }

    fn rungs(bend: f64) -> Vec<crate::profile::SigmaStep> {
        let samples = saturating(bend);
        ladder(&samples.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn the_largest_quadratic_scale_is_taken() {
        for (bend, sigma) in [(10.0, 1.0), (0.3, 0.3), (0.1, 0.1), (0.03, 0.03)] {
            let (choice, warning) = choose(None, rungs(bend));
            assert_eq!((choice.chosen, warning), (sigma, None), "bend at {bend}");
            assert!(!choice.given);
        }
        let steps = rungs(0.3);
        assert!((steps[1].median_slope.unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(steps[0].median_slope, None);
        assert_eq!(
            steps[2].kl,
            [0.02, 0.04, 0.1]
                .map(|kl: f64| kl)
                .to_vec()
                .iter()
                .map(|kl| kl * 1.0)
                .collect::<Vec<_>>()
        );
        assert_eq!(steps[1].spearman_with_previous, Some(1.0));
    }

    #[test]
    fn without_a_quadratic_scale_the_smallest_is_taken_and_said() {
        let (choice, warning) = choose(None, rungs(0.01));
        assert_eq!(choice.chosen, 0.01);
        assert!(warning.unwrap().contains("no noise scale of the ladder"));
    }

    #[test]
    fn a_given_scale_is_kept_and_doubted() {
        let (choice, warning) = choose(Some(0.5), rungs(0.1));
        assert_eq!((choice.chosen, choice.given), (0.5, true));
        assert!(warning.unwrap().contains("above 0.1"));
        assert_eq!(choose(Some(0.05), rungs(0.1)).1, None);
        assert_eq!(choose(Some(5.0), Vec::new()).1, None, "no check asked for");
    }

    #[test]
    fn layers_without_an_effect_do_not_count() {
        let dead = vec![
            vec![0.0, 1e-4],
            vec![0.0, 9e-4],
            vec![0.0, 1e-2],
            vec![0.0, 9e-2],
            vec![0.0, 1.0],
        ];
        let (choice, _) = choose(None, ladder(&[&dead]));
        assert_eq!(choice.chosen, 1.0);
    }
}
