//! The statistics of the reports against enumeration: every sign, every resample, every subset of hypotheses.

use proptest::prelude::*;
use ripplekv_metrics::statistics::{
    Bootstrap, compare_paired, flips, holm, leave_one_out, standard_error,
};

/// Few values, so that ties happen.
fn scores(sizes: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((0_u8..5).prop_map(|step| f64::from(step) * 25.0), sizes)
}

/// p of the sign-flip test over all 2^n signs.
fn exact_p(differences: &[f64]) -> f64 {
    let observed = differences.iter().sum::<f64>().abs();
    let patterns = 1_u32 << differences.len();
    let as_large = (0..patterns).filter(|signs| {
        let sum: f64 = differences
            .iter()
            .enumerate()
            .map(|(place, value)| {
                if signs >> place & 1 == 1 {
                    -value
                } else {
                    *value
                }
            })
            .sum();
        sum.abs() >= observed - 1e-9
    });
    as_large.count() as f64 / f64::from(patterns)
}

/// Means of all n^n resamples.
fn all_means(values: &[f64]) -> Vec<f64> {
    let size = values.len();
    (0..size.pow(size as u32))
        .map(|mut number| {
            let mut total = 0.0;
            for _ in 0..size {
                total += values[number % size];
                number /= size;
            }
            total / size as f64
        })
        .collect()
}

/// Holm's correction as the closed test it is: the greatest Bonferroni p of any set of hypotheses that holds this one.
fn closed_test(p_values: &[f64]) -> Vec<f64> {
    (0..p_values.len())
        .map(|own| {
            let sets = (1_u32..1 << p_values.len()).filter(|set| set >> own & 1 == 1);
            sets.map(|set| {
                let members = (0..p_values.len()).filter(|place| set >> place & 1 == 1);
                let least = members.map(|place| p_values[place]).fold(1.0, f64::min);
                (least * f64::from(set.count_ones())).min(1.0)
            })
            .fold(0.0, f64::max)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_sign_flip_test_is_near_the_exact_one(left in scores(1..8), seed in 0_u64..100) {
        let right: Vec<f64> = left.iter().rev().copied().collect();
        let differences: Vec<f64> = left.iter().zip(&right).map(|(a, b)| a - b + 5.0).collect();
        let raised: Vec<f64> = right.iter().zip(&differences).map(|(b, d)| b + d).collect();
        let bootstrap = Bootstrap { seed, ..Bootstrap::default() };
        let found = compare_paired(&[&raised], &[&right], &bootstrap).unwrap();
        let exact = exact_p(&differences);
        // Four standard deviations of 10,000 draws.
        prop_assert!((found.p_value - exact).abs() < 0.0205, "{} {exact}", found.p_value);
    }

    #[test]
    fn the_interval_cuts_off_the_tails_of_all_resamples(values in scores(2..6), seed in 0_u64..100) {
        let bootstrap = Bootstrap { seed, ..Bootstrap::default() };
        let found = bootstrap.mean(&[&values]).unwrap();
        let means = all_means(&values);
        let share = |holds: &dyn Fn(f64) -> bool| {
            means.iter().filter(|mean| holds(**mean)).count() as f64 / means.len() as f64
        };
        // Half a percent is three standard deviations of a 2.5% tail in 10,000 draws.
        prop_assert!(share(&|mean| mean < found.low - 1e-9) <= 0.03);
        prop_assert!(share(&|mean| mean <= found.low + 1e-9) >= 0.02);
        prop_assert!(share(&|mean| mean > found.high + 1e-9) <= 0.03);
        prop_assert!(share(&|mean| mean >= found.high - 1e-9) >= 0.02);
    }

    #[test]
    fn holm_is_the_closed_bonferroni_test(p_values in prop::collection::vec(0.0..=1.0_f64, 0..7)) {
        for (ours, expected) in holm(&p_values).iter().zip(closed_test(&p_values)) {
            prop_assert!((ours - expected).abs() < 1e-12, "{ours} {expected} {p_values:?}");
        }
    }

    #[test]
    fn leaving_one_out_is_the_extreme_of_all_means(values in scores(2..9)) {
        let means = (0..values.len()).map(|left_out| {
            let kept = values.iter().enumerate().filter(|(place, _)| *place != left_out);
            kept.map(|(_, value)| value).sum::<f64>() / (values.len() - 1) as f64
        });
        let means: Vec<f64> = means.collect();
        let (low, high) = leave_one_out(&values).unwrap();
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!((low - least).abs() < 1e-9 && (high - greatest).abs() < 1e-9);
    }

    #[test]
    fn the_standard_error_knows_spread_alone(values in scores(2..9), shift in -50.0..50.0_f64) {
        let error = standard_error(&values).unwrap();
        let moved: Vec<f64> = values.iter().map(|value| 3.0 * value + shift).collect();
        prop_assert!((standard_error(&moved).unwrap() - 3.0 * error).abs() < 1e-9);
        let repeated = [values.as_slice(), &values].concat();
        prop_assert!(standard_error(&repeated).unwrap() <= error);
    }

    #[test]
    fn the_other_way_round_everything_is_turned(left in scores(1..9), seed in 0_u64..100) {
        let right: Vec<f64> = left.iter().rev().copied().collect();
        let bootstrap = Bootstrap { seed, resamples: 500, ..Bootstrap::default() };
        let one = compare_paired(&[&left], &[&right], &bootstrap).unwrap();
        let other = compare_paired(&[&right], &[&left], &bootstrap).unwrap();
        prop_assert_eq!((one.wins, one.ties, one.losses), (other.losses, other.ties, other.wins));
        prop_assert_eq!(one.samples(), left.len());
        prop_assert_eq!(one.p_value, other.p_value);
        prop_assert!((one.difference.low + other.difference.high).abs() < 1e-9);
        let (there, back) = (flips(&left, &right, 50.0), flips(&right, &left, 50.0));
        prop_assert_eq!(there.correct_to_wrong, back.wrong_to_correct);
        prop_assert_eq!(there.wrong_to_correct, back.correct_to_wrong);
    }
}

/// A task of many samples must not drown a small one.
#[test]
fn strata_of_any_size_weigh_the_same() {
    let many = vec![1.0; 500];
    let found = compare_paired(
        &[&many, &[0.0, 0.0]],
        &[&vec![0.0; 500], &[1.0, 1.0]],
        &Bootstrap::default(),
    )
    .unwrap();
    assert_eq!(found.difference.estimate, 0.0);
    assert_eq!(found.leave_one_out, Some((-1.0, 1.0)));
    assert_eq!((found.wins, found.losses), (500, 2));
}
