//! Means, their errors, quantiles and power of plain lists of numbers.
//! Quantiles by linear interpolation, as `numpy.quantile` does by default (numpy 2.4.6).

/// 97.5th percentile of the standard normal distribution: two-sided 5%.
const NORMAL_TWO_SIDED_5_PERCENT: f64 = 1.959964;
/// 80th percentile of the standard normal distribution: power 80%.
const NORMAL_POWER_80_PERCENT: f64 = 0.841621;

/// Column means of the rows at `indices` (repeats allowed), summed in the order of `indices`.
///
/// `samples` is `[rows][columns]` with rows of one length; the result is `[columns]`, empty
/// without indices.
///
/// # Panics
/// If an index is not below the number of samples.
pub fn column_means(samples: &[&[f64]], indices: &[usize]) -> Vec<f64> {
    let Some(first) = indices.first() else {
        return Vec::new();
    };
    let mut totals = vec![0.0; samples[*first].len()];
    for index in indices {
        for (total, value) in totals.iter_mut().zip(samples[*index]) {
            *total += value;
        }
    }
    for total in &mut totals {
        *total /= indices.len() as f64;
    }
    totals
}

/// The `q` quantile of `values` in any order, `q` in [0, 1]; 0.5 is the median.
///
/// `None` without values, with NaN among them, or with `q` outside [0, 1].
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let unusable = values.is_empty() || values.iter().any(|value| value.is_nan());
    if unusable || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(quantile_of_sorted(&sorted, q))
}

/// Linear interpolation between the two order statistics around `share`; `sorted` is not empty.
pub(super) fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    // Also keeps two equal infinities from becoming NaN.
    if sorted[below] == sorted[above] {
        return sorted[below];
    }
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Standard error of the mean: the sample's standard deviation (n - 1) over the root of n.
///
/// `None` below two values.
pub fn standard_error(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    Some((squares / (count - 1.0) / count).sqrt())
}

/// The least and the greatest mean of `values` when one of them is left out.
///
/// `None` below two values.
pub fn leave_one_out(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let total: f64 = values.iter().sum();
    let without = values
        .iter()
        .map(|value| (total - value) / (values.len() as f64 - 1.0));
    Some(
        without.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), mean| {
            (low.min(mean), high.max(mean))
        }),
    )
}

/// The smallest true mean that so many paired differences would have shown: two-sided 5%, power
/// 80%, normal approximation: (1.959964 + 0.841621) standard errors of the mean.
///
/// `None` below two values. Differences that are all equal give 0.
pub fn smallest_detectable_difference(differences: &[f64]) -> Option<f64> {
    standard_error(differences).map(detectable)
}

/// What a mean with this standard error would have shown.
pub(super) fn detectable(standard_error: f64) -> f64 {
    (NORMAL_TWO_SIDED_5_PERCENT + NORMAL_POWER_80_PERCENT) * standard_error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_means_count_repeated_rows() {
        let rows: [&[f64]; 3] = [&[1.0, 10.0], &[2.0, 20.0], &[9.0, 90.0]];
        assert_eq!(column_means(&rows, &[0, 1]), [1.5, 15.0]);
        assert_eq!(column_means(&rows, &[2, 0, 2, 0]), [5.0, 50.0]);
        assert_eq!(column_means(&rows, &[]), [0.0; 0]);
    }

    #[test]
    fn quantiles_interpolate_linearly_and_refuse_nonsense() {
        let values = [5.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 0.5), Some(2.5));
        assert_eq!(quantile(&values, 1.0), Some(5.0));
        assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[1.0, f64::NAN], 0.5), None);
        assert_eq!(quantile(&values, 1.1), None);
        assert_eq!(quantile(&values, f64::NAN), None);
    }

    #[test]
    fn the_standard_error_is_the_textbook_one() {
        // Sample variance of 2, 4, 4, 6 is 8/3.
        let error = standard_error(&[2.0, 4.0, 4.0, 6.0]).unwrap();
        assert!((error - (8.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(standard_error(&[1.0]), None);
        assert_eq!(standard_error(&[0.5; 9]), Some(0.0));
    }

    #[test]
    fn leaving_one_out_moves_the_mean_away_from_it() {
        assert_eq!(leave_one_out(&[1.0, 2.0, 6.0]), Some((1.5, 4.0)));
        assert_eq!(leave_one_out(&[3.0, 5.0]), Some((3.0, 5.0)));
        assert_eq!(leave_one_out(&[3.0]), None);
    }

    #[test]
    fn the_detectable_difference_shrinks_with_the_root_of_the_count() {
        // Sample variance of 2, 4, 4, 6 is 8/3.
        let by_hand = 2.801585 * (8.0_f64 / 3.0 / 4.0).sqrt();
        let few = smallest_detectable_difference(&[2.0, 4.0, 4.0, 6.0]).unwrap();
        assert!((few - by_hand).abs() < 1e-12, "{few} {by_hand}");
        assert_eq!(smallest_detectable_difference(&[1.0]), None);
        assert_eq!(smallest_detectable_difference(&[0.5; 9]), Some(0.0));

        let swings =
            |count: usize| -> Vec<f64> { (0..count).map(|index| [-1.0, 1.0][index % 2]).collect() };
        let ratio = smallest_detectable_difference(&swings(100)).unwrap()
            / smallest_detectable_difference(&swings(10_000)).unwrap();
        assert!((ratio - 10.0).abs() < 0.1, "{ratio}");
    }
}
