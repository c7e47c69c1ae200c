//! What the profiles and reports compute from scores and logits; pure and seeded.
//! References stand in each file.

mod allocation;
mod bootstrap;
mod distribution;
mod exponential;
mod p_values;
mod paired;
mod rank;
mod reliability;
mod summary;
mod two_level;

pub use allocation::predicted_allocation_ratio;
pub use bootstrap::{Bootstrap, BootstrapError, Interval};
pub use distribution::{
    DistributionError, jensen_shannon_divergence, kl_divergence, kl_divergence_from, log_softmax,
    probabilities,
};
pub use p_values::{circular_shift_p_value, holm};
pub use paired::{Flips, PairedComparison, compare_paired, flips};
pub use rank::{RankError, kendall_tau_b, mid_ranks, spearman};
pub use reliability::{SplitHalf, disattenuated, spearman_brown, split_half_reliability};
pub use summary::{
    column_means, leave_one_out, quantile, smallest_detectable_difference, standard_error,
};

/// Mean of the strata's means, each stratum (a task, say) counting the same.
///
/// `None` without strata or with an empty one.
pub fn mean_of_means(strata: &[&[f64]]) -> Option<f64> {
    let mut total = 0.0;
    for values in strata {
        if values.is_empty() {
            return None;
        }
        total += values.iter().sum::<f64>() / values.len() as f64;
    }
    (!strata.is_empty()).then(|| total / strata.len() as f64)
}
