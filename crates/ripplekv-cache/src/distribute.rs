//! Turns layer weights into whole budgets: b_l = clamp(c * w_l, min, n) with c such that the sum is exactly T.
//! Whole numbers by largest remainder among the layers that are not clamped, ties to the lower layer.

use crate::CacheError;

/// Weights are taken relative to the heaviest and not below this, so that no sum overflows and no share is 0 / 0.
const LIGHTEST: f64 = 1e-12;

/// Splits `total` entries (T) over the layers in proportion to `weights`, each layer within `minimum..=prompt_tokens`.
///
/// # Errors
/// [`CacheError::BelowMustKeep`] when T < minimum * L, [`CacheError::Weight`] for a weight that is not positive and finite.
pub fn distribute(
    weights: &[f64],
    total: u64,
    minimum: usize,
    prompt_tokens: usize,
) -> Result<Vec<usize>, CacheError> {
    let layers = weights.len();
    if let Some((layer, &weight)) = weights
        .iter()
        .enumerate()
        .find(|(_, weight)| !(weight.is_finite() && **weight > 0.0))
    {
        return Err(CacheError::Weight { layer, weight });
    }
    if total >= prompt_tokens as u64 * layers as u64 {
        return Ok(vec![prompt_tokens; layers]);
    }
    if total < minimum as u64 * layers as u64 || minimum > prompt_tokens {
        return Err(CacheError::BelowMustKeep {
            total,
            layers,
            must_keep: minimum,
        });
    }
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    let weights: Vec<f64> = weights
        .iter()
        .map(|weight| (weight / heaviest).max(LIGHTEST))
        .collect();
    let free = free_layers(&weights, total, minimum, prompt_tokens);
    let mut budgets: Vec<usize> = free.iter().map(|state| state.fixed.unwrap_or(0)).collect();
    let taken: u64 = budgets.iter().map(|&budget| budget as u64).sum();
    let rest = total - taken;
    let weight_sum: f64 = (0..layers)
        .filter(|&layer| free[layer].fixed.is_none())
        .map(|layer| weights[layer])
        .sum();
    let mut remainders: Vec<(f64, usize)> = Vec::new();
    let mut given = 0u64;
    for layer in (0..layers).filter(|&layer| free[layer].fixed.is_none()) {
        let share = (rest as f64 * (weights[layer] / weight_sum))
            .clamp(minimum as f64, prompt_tokens as f64);
        budgets[layer] = share.floor() as usize;
        given += budgets[layer] as u64;
        remainders.push((share - share.floor(), layer));
    }
    settle(
        &mut budgets,
        &mut remainders,
        given,
        rest,
        minimum,
        prompt_tokens,
    );
    debug_assert_eq!(budgets.iter().map(|&b| b as u64).sum::<u64>(), total);
    Ok(budgets)
}

/// Hands out what flooring left over, largest remainder first, ties to the lower layer; takes back what rounding of
/// the shares gave too much (possible only within float error), smallest remainder first.
fn settle(
    budgets: &mut [usize],
    remainders: &mut [(f64, usize)],
    mut given: u64,
    rest: u64,
    minimum: usize,
    maximum: usize,
) {
    remainders.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let (mut before, mut progress) = (given, true);
    while given < rest && progress {
        for &(_, layer) in remainders.iter() {
            if given < rest && budgets[layer] < maximum {
                budgets[layer] += 1;
                given += 1;
            }
        }
        progress = given > before;
        before = given;
    }
    progress = true;
    while given > rest && progress {
        for &(_, layer) in remainders.iter().rev() {
            if given > rest && budgets[layer] > minimum {
                budgets[layer] -= 1;
                given -= 1;
            }
        }
        progress = given < before;
        before = given;
    }
}

#[derive(Debug, Clone, Copy)]
struct LayerClamp {
    fixed: Option<usize>,
}

/// Finds which layers sit on a bound at the right c. Each round fixes the side whose clamping moves more entries, the
/// usual active-set rule for this one-dimensional problem; at most L rounds.
fn free_layers(weights: &[f64], total: u64, minimum: usize, maximum: usize) -> Vec<LayerClamp> {
    let mut state = vec![LayerClamp { fixed: None }; weights.len()];
    loop {
        let taken: f64 = state.iter().filter_map(|s| s.fixed).map(|b| b as f64).sum();
        let rest = total as f64 - taken;
        let free: Vec<usize> = (0..weights.len())
            .filter(|&l| state[l].fixed.is_none())
            .collect();
        if free.is_empty() {
            return state;
        }
        let weight_sum: f64 = free.iter().map(|&layer| weights[layer]).sum();
        let share = |layer: usize| rest * (weights[layer] / weight_sum);
        let (mut below, mut above) = (0.0, 0.0);
        for &layer in &free {
            below += (minimum as f64 - share(layer)).max(0.0);
            above += (share(layer) - maximum as f64).max(0.0);
        }
        if below == 0.0 && above == 0.0 {
            return state;
        }
        let mut changed = false;
        for &layer in &free {
            let target = if above >= below && share(layer) > maximum as f64 {
                Some(maximum)
            } else if below >= above && share(layer) < minimum as f64 {
                Some(minimum)
            } else {
                None
            };
            if target.is_some() {
                state[layer].fixed = target;
                changed = true;
            }
        }
        if !changed {
            return state;
        }
        // never leave the last entries without a layer to hold them
        if state.iter().all(|s| s.fixed.is_some()) {
            let sum: u64 = state.iter().filter_map(|s| s.fixed).map(|b| b as u64).sum();
            if sum != total {
                for &layer in &free {
                    state[layer].fixed = None;
                }
                return state;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_weights_tie_to_the_lower_layers() {
        assert_eq!(distribute(&[1.0; 4], 10, 1, 10).unwrap(), [3, 3, 2, 2]);
    }

    #[test]
    fn clamps_are_respected_and_the_rest_is_shared() {
        let budgets = distribute(&[100.0, 1.0, 1.0, 1.0], 40, 4, 16).unwrap();
        assert_eq!(budgets, [16, 8, 8, 8]);
        assert!(distribute(&[1.0; 4], 15, 4, 16).is_err());
        assert!(distribute(&[1.0, f64::NAN], 15, 4, 16).is_err());
    }

    proptest! {
        #[test]
        fn sum_is_exact_and_bounds_hold(
            exponents in prop::collection::vec(-300f64..300.0, 1..80),
            spread in 0.0f64..=1.0,
            prompt in 1usize..40_000,
            minimum_share in 0.0f64..1.0,
            total_share in 0.0f64..=1.0,
        ) {
            // from equal weights to ratios beyond what f64 can hold
            let weights: Vec<f64> = exponents.iter().map(|e| 10f64.powf(e * spread.powi(6))).collect();
            let layers = weights.len();
            let minimum = (prompt as f64 * minimum_share * minimum_share) as usize;
            let low = (minimum * layers) as u64;
            let high = (prompt * layers) as u64;
            let total = low + ((high - low) as f64 * total_share) as u64;
            let budgets = distribute(&weights, total, minimum, prompt).unwrap();
            prop_assert_eq!(budgets.iter().map(|&b| b as u64).sum::<u64>(), total);
            for (layer, &budget) in budgets.iter().enumerate() {
                prop_assert!(budget >= minimum && budget <= prompt);
                for other in 0..layers {
                    // a heavier layer never gets less, but for one entry of rounding
                    if weights[layer] > weights[other] {
                        prop_assert!(budgets[layer] + 1 >= budgets[other]);
                    }
                }
            }
            let doubled: Vec<f64> = weights.iter().map(|w| w * 4.0).collect();
            prop_assert_eq!(distribute(&doubled, total, minimum, prompt).unwrap(), budgets.clone());
            let more = distribute(&weights, (total + 1).min(high), minimum, prompt).unwrap();
            let grown: i64 = more.iter().zip(&budgets).map(|(&a, &b)| (a as i64 - b as i64).abs()).sum();
            prop_assert!(grown <= layers as i64);
        }
    }
}
