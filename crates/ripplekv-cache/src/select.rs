//! Which entries of a layer stay: per KV head the must-keep set and then the best scores.
//! Order by (score descending, index ascending); kept indices are stored ascending.

use crate::{CacheError, Scores};

/// Kept prompt positions of one layer, one ascending list a KV head.
pub type KeptLayer = Vec<Vec<u32>>;

/// Keeps `budget` entries of every KV head of one layer.
///
/// `must_keep` holds positions that stay whatever their score, ascending, at most `budget` of them.
///
/// # Errors
/// [`CacheError::NotANumber`] when a score is NaN.
pub fn select(
    scores: &Scores,
    must_keep: &[u32],
    budget: usize,
    prompt_tokens: usize,
) -> Result<KeptLayer, CacheError> {
    if budget >= prompt_tokens {
        let everything: Vec<u32> = (0..prompt_tokens as u32).collect();
        return Ok(vec![everything; scores.kv_heads()]);
    }
    let mut forced = vec![false; prompt_tokens];
    for &position in must_keep {
        forced[position as usize] = true;
    }
    (0..scores.kv_heads())
        .map(|head| {
            let row = scores.head(head);
            if let Some(entry) = row.iter().position(|score| score.is_nan()) {
                return Err(CacheError::NotANumber { head, entry });
            }
            let mut candidates: Vec<u32> = (0..prompt_tokens as u32)
                .filter(|&position| !forced[position as usize])
                .collect();
            let wanted = budget.saturating_sub(must_keep.len());
            let order =
                |a: &u32, b: &u32| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b));
            if wanted == 0 {
                candidates.clear();
            } else if wanted < candidates.len() {
                candidates.select_nth_unstable_by(wanted - 1, order);
                candidates.truncate(wanted);
            }
            let mut kept: Vec<u32> = must_keep.iter().copied().chain(candidates).collect();
            kept.sort_unstable();
            Ok(kept)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_go_to_the_lower_index_and_the_window_stays() {
        let scores = Scores::new(1, vec![0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        assert_eq!(select(&scores, &[4, 5], 4, 6).unwrap(), [[0, 1, 4, 5]]);
        assert_eq!(select(&scores, &[4, 5], 2, 6).unwrap(), [[4, 5]]);
        assert_eq!(
            select(&scores, &[4, 5], 6, 6).unwrap(),
            [[0, 1, 2, 3, 4, 5]]
        );
    }

    #[test]
    fn a_nan_is_an_error() {
        let scores = Scores::new(1, vec![0.5, f32::NAN, 0.1]);
        assert!(matches!(
            select(&scores, &[], 1, 3),
            Err(CacheError::NotANumber { head: 0, entry: 1 })
        ));
    }

    proptest! {
        #[test]
        fn equals_a_full_sort(values in prop::collection::vec(0u8..6, 1..60), window in 0usize..8, budget in 0usize..60) {
            let n = values.len();
            let window = window.min(n);
            let budget = budget.max(window).min(n);
            let scores = Scores::new(1, values.iter().map(|&v| f32::from(v)).collect());
            let must_keep: Vec<u32> = ((n - window) as u32..n as u32).collect();
            let kept = select(&scores, &must_keep, budget, n).unwrap().remove(0);
            let mut order: Vec<usize> = (0..n - window).collect();
            order.sort_by_key(|&i| (std::cmp::Reverse(values[i]), i));
            let mut expected: Vec<u32> = order[..budget - window].iter().map(|&i| i as u32).collect();
            expected.extend(&must_keep);
            expected.sort_unstable();
            prop_assert_eq!(kept, expected);
        }
    }
}
