//! What the profiles and reports compute from scores and logits; pure and seeded.
//! References stand in each file.

mod bootstrap;
mod distribution;
mod paired;
mod rank;

pub use bootstrap::{Bootstrap, BootstrapError, Interval};
pub use distribution::{DistributionError, jensen_shannon_divergence, kl_divergence, log_softmax};
pub use paired::{PairedComparison, compare_paired};
pub use rank::{RankError, kendall_tau_b, mid_ranks, spearman};

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
