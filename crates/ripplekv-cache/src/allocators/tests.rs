//! Properties of the ripple mapping with the distribution of budgets (design.md 4 and 5), and what bad input says.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Method, SCORERS, distribute, needed_signal, needs_all_layers, parse_method};

const CENTERS: [Center; 3] = [Center::None, Center::Mean, Center::Geometric];

/// One allocation problem: a profile, the mapping's parameters, and a budget that fits.
#[derive(Debug, Clone)]
struct Case {
    signal: Vec<f64>,
    r: f64,
    gamma: f64,
    center: Center,
    prompt_tokens: usize,
    minimum: usize,
    total: u64,
}

impl Case {
    fn weights_by(&self, r: f64, signal: &[f64]) -> Vec<f64> {
        let mapping = RippleMapping::new(r, self.gamma, self.center).unwrap();
        mapping.weights(signal).unwrap()
    }

    fn weights(&self, signal: &[f64]) -> Vec<f64> {
        self.weights_by(self.r, signal)
    }

    fn spread(&self, weights: &[f64]) -> Vec<usize> {
        distribute(weights, self.total, self.minimum, self.prompt_tokens).unwrap()
    }

    fn budgets(&self, signal: &[f64]) -> Vec<usize> {
        self.spread(&self.weights(signal))
    }

    fn uniform(&self) -> Vec<usize> {
        self.spread(&vec![1.0; self.signal.len()])
    }

    /// The real-valued budgets clamp(c * w, minimum, n) that sum to T, with c found by bisection.
    fn exact_shares(&self, weights: &[f64]) -> Vec<f64> {
        let clamped = |c: f64| -> Vec<f64> {
            let bounds = (self.minimum as f64, self.prompt_tokens as f64);
            weights
                .iter()
                .map(|w| (c * w).clamp(bounds.0, bounds.1))
                .collect()
        };
        let (mut low, mut high) = (0.0, 2.0 * self.prompt_tokens as f64 * self.gamma);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if clamped(middle).iter().sum::<f64>() < self.total as f64 {
                low = middle;
            } else {
                high = middle;
            }
        }
        clamped(high)
    }
}

prop_compose! {
    fn cases()(
        parts in prop::collection::vec((0.0f64..1.0, 0u8..5, any::<bool>()), 1..81),
        exponent in 0.2f64..8.0,
        unit in -6i32..4,
        log_r in -3.0f64..3.0,
        gamma in prop_oneof![Just(1.0), Just(1.5), Just(2.0), Just(4.0), 1.0f64..40.0],
        center in 0usize..3,
        prompt_tokens in 1usize..20_000,
        minimum_share in 0.0f64..1.0,
        total_share in 0.0f64..=1.0,
    ) -> Case {
        // heavy-tailed numbers, some of them equal
        let signal: Vec<f64> = parts
            .iter()
            .map(|&(number, step, tied)| if tied { f64::from(step) / 4.0 } else { number.powf(exponent) })
            .map(|number| number * 10f64.powi(unit))
            .collect();
        let minimum = (prompt_tokens as f64 * minimum_share.powi(3)) as usize;
        let (low, high) = (minimum * signal.len(), prompt_tokens * signal.len());
        let total = low as u64 + ((high - low) as f64 * total_share) as u64;
        Case { signal, r: 10f64.powf(log_r), gamma, center: CENTERS[center], prompt_tokens, minimum, total }
    }
}

fn within_one(a: &[usize], b: &[usize]) -> bool {
    a.iter().zip(b).all(|(&a, &b)| a.abs_diff(b) <= 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sum_bounds_and_order(case in cases()) {
        let weights = case.weights(&case.signal);
        let budgets = case.spread(&weights);
        prop_assert_eq!(budgets.iter().map(|&b| b as u64).sum::<u64>(), case.total);
        for &weight in &weights {
            prop_assert!(weight >= 1.0 / case.gamma && weight <= case.gamma, "{weight}");
        }
        for (&budget, share) in budgets.iter().zip(case.exact_shares(&weights)) {
            prop_assert!(budget >= case.minimum && budget <= case.prompt_tokens);
            prop_assert!((budget as f64 - share).abs() < 1.0 + 1e-6, "{budget} {share}");
        }
        // more sensitive means at least as many entries for r > 1 and at most as many for r < 1, but for one entry
        // between layers of equal weight
        for a in 0..weights.len() {
            for b in 0..weights.len() {
                let (first, second) = if case.r > 1.0 { (a, b) } else { (b, a) };
                if case.signal[a] > case.signal[b] {
                    prop_assert!(weights[first] >= weights[second]);
                    let tie = usize::from(weights[first] <= weights[second] * (1.0 + 1e-9));
                    prop_assert!(budgets[first] + tie >= budgets[second]);
                }
            }
        }
    }

    #[test]
    fn a_layer_that_becomes_more_sensitive_loses_nothing(case in cases(), place in any::<prop::sample::Index>(), raise in 0.0f64..2.0) {
        let case = Case { r: case.r.max(1.0 / case.r), ..case };
        let layer = place.index(case.signal.len());
        let mut raised = case.signal.clone();
        let highest = case.signal.iter().copied().fold(0.0, f64::max);
        // up to the top of the profile: beyond it every other layer's normalised number would move too
        raised[layer] += (highest - raised[layer]) * raise.min(1.0);
        let lowest = |signal: &[f64]| signal.iter().copied().fold(f64::INFINITY, f64::min);
        prop_assume!(lowest(&raised) == lowest(&case.signal));
        let (before, after) = (case.budgets(&case.signal), case.budgets(&raised));
        prop_assert!(after[layer] + 1 >= before[layer], "{} {}", before[layer], after[layer]);
    }

    #[test]
    fn scale_and_shift_do_not_matter(case in cases(), power in -40i32..40, factor in 0.001f64..1000.0, shift in 0.0f64..3.0) {
        let base = case.budgets(&case.signal);
        let map = |f: &dyn Fn(f64) -> f64| case.signal.iter().map(|&s| f(s)).collect::<Vec<_>>();
        let by_power = map(&|s| s * 2f64.powi(power));
        prop_assert_eq!(case.weights(&by_power), case.weights(&case.signal));
        prop_assert_eq!(case.budgets(&by_power), base.clone());
        prop_assert!(within_one(&case.budgets(&map(&|s| s * factor)), &base));
        let highest = case.signal.iter().copied().fold(0.0, f64::max);
        prop_assert!(within_one(&case.budgets(&map(&|s| s * factor + shift * factor * highest)), &base));
    }

    #[test]
    fn layers_may_be_permuted(case in cases(), keys in prop::collection::vec(any::<u32>(), 81)) {
        let mut order: Vec<usize> = (0..case.signal.len()).collect();
        order.sort_by_key(|&layer| keys[layer]);
        let permuted: Vec<f64> = order.iter().map(|&layer| case.signal[layer]).collect();
        let weights = case.weights(&case.signal);
        let (base, moved) = (case.spread(&weights), case.budgets(&permuted));
        let shares = case.exact_shares(&weights);
        let differing: Vec<usize> = (0..order.len()).filter(|&place| moved[place] != base[order[place]]).collect();
        for &place in &differing {
            prop_assert!(moved[place].abs_diff(base[order[place]]) == 1);
        }
        // they differ only where remainders tie (a whole share may fall on either side of its floor)
        let remainders: Vec<f64> = differing.iter().map(|&place| shares[order[place]].fract()).collect();
        for pair in remainders.windows(2) {
            let gap = (pair[0] - pair[1]).abs();
            prop_assert!(gap.min(1.0 - gap) < 1e-6, "{remainders:?}");
        }
    }

    #[test]
    fn nothing_to_rank_is_uniform(case in cases()) {
        let ones = vec![1.0; case.signal.len()];
        prop_assert_eq!(case.weights_by(1.0, &case.signal), ones.clone());
        prop_assert_eq!(case.spread(&case.weights_by(1.0, &case.signal)), case.uniform());
        let flat = vec![case.signal[0]; case.signal.len()];
        prop_assert_eq!(case.weights(&flat), ones.clone());
        prop_assert_eq!(case.budgets(&flat), case.uniform());
        let unclipped = Case { gamma: 1.0, ..case.clone() };
        prop_assert_eq!(unclipped.weights(&case.signal), ones);
    }
}

/// Worked by hand: s~ = 0, 1/2, 1 and r = 4 give 1, 2, 4; mean 7/3, geometric mean 2.
#[test]
fn the_mapping_by_hand() {
    let weights = |gamma, center| {
        RippleMapping::new(4.0, gamma, center)
            .unwrap()
            .weights(&[3.0, 5.0, 7.0])
            .unwrap()
    };
    assert_eq!(weights(100.0, Center::None), [1.0, 2.0, 4.0]);
    assert_eq!(weights(2.0, Center::None), [1.0, 2.0, 2.0]);
    assert_eq!(weights(100.0, Center::Geometric), [0.5, 1.0, 2.0]);
    assert_eq!(weights(1.5, Center::Geometric), [1.0 / 1.5, 1.0, 1.5]);
    let by_mean = weights(100.0, Center::Mean);
    for (weight, expected) in by_mean.iter().zip([3.0 / 7.0, 6.0 / 7.0, 12.0 / 7.0]) {
        assert!((weight - expected).abs() < 1e-15, "{by_mean:?}");
    }
    assert_eq!(weights(2.0, Center::Mean)[0], 0.5);
}

fn weights_of(
    method: &str,
    params: &Value,
    layers: usize,
    signals: &BTreeMap<String, Vec<f64>>,
) -> Result<Vec<f64>, String> {
    let Method::Compress { allocator, .. } = Method::build(method, params).unwrap() else {
        panic!("{method} compresses nothing")
    };
    let context = AllocationContext {
        layers,
        prompt_tokens: 1000,
        total_entries: 100 * layers as u64,
        signals,
    };
    allocator
        .weights(&context)
        .map_err(|error| error.to_string())
}

fn signals(sensitivity: &[f64]) -> BTreeMap<String, Vec<f64>> {
    BTreeMap::from([
        ("sensitivity".to_owned(), sensitivity.to_vec()),
        (
            "local-response".to_owned(),
            sensitivity.iter().rev().copied().collect(),
        ),
    ])
}

#[test]
fn each_allocator_reads_its_own_signal() {
    let signals = signals(&[0.0, 1.0, 3.0, 2.0]);
    let rising =
        |method_params: Value| weights_of("ripplekv", &method_params, 4, &signals).unwrap();
    let order = |weights: &[f64]| {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[a].total_cmp(&weights[b]));
        order
    };
    let wide = |allocator: &str| json!({"allocator": allocator, "gamma": 100.0});
    assert_eq!(order(&rising(wide("ripple"))), [0, 1, 3, 2]);
    assert_eq!(order(&rising(wide("local-response"))), [3, 2, 0, 1]);
    assert_eq!(order(&rising(wide("layer-index"))), [0, 1, 2, 3]);
    let numbers = json!({"allocator": "from-file", "signal": [3, 0.5, 1, 2], "gamma": 100.0});
    assert_eq!(order(&rising(numbers)), [1, 2, 3, 0]);
    let random = |seed: u64| rising(json!({"allocator": "random", "seed": seed, "gamma": 100.0}));
    assert_eq!(random(7), random(7));
    assert!((1..20).any(|seed| order(&random(seed)) != order(&random(0))));
    assert_ne!(random(1), random(1 + (1 << 32)));
    // the same weights on other layers
    let permuted =
        |seed: u64| rising(json!({"allocator": "permuted", "seed": seed, "gamma": 100.0}));
    let sorted = |weights: &[f64]| {
        order(weights)
            .iter()
            .map(|&l| weights[l])
            .collect::<Vec<_>>()
    };
    assert_eq!(sorted(&permuted(3)), sorted(&rising(wide("ripple"))));
    assert!((1..20).any(|seed| permuted(seed) != permuted(0)));
}

#[test]
fn any_scorer_takes_any_allocator() {
    let signals = signals(&[0.5, 1.0, 3.0]);
    for scorer in SCORERS {
        for allocator in ALLOCATORS {
            let keys: Vec<&str> = (scorer.params)().iter().map(|param| param.name).collect();
            let mut given = json!({"scorer": scorer.name, "allocator": allocator.name});
            for param in (allocator.params)() {
                assert!(!param.help.is_empty(), "{}", param.name);
                assert!(
                    !keys.contains(&param.name),
                    "{} {}",
                    scorer.name,
                    param.name
                );
                // only the numbers of a file have no default
                let required =
                    allocator.name == "from-file" && ["file", "signal"].contains(&param.name);
                assert_eq!(param.default.is_null(), required, "{}", param.name);
            }
            if allocator.name == "from-file" {
                let message = parse_method("ripplekv", &given).unwrap_err().to_string();
                assert!(message.starts_with("file: is missing"), "{message}");
                given["signal"] = json!([1, 2, 3]);
            }
            let canonical = parse_method("ripplekv", &given).unwrap();
            assert_eq!(parse_method("ripplekv", &canonical).unwrap(), canonical);
            let weights = weights_of("ripplekv", &canonical, 3, &signals).unwrap();
            assert_eq!(
                weights,
                weights_of("snapkv", &canonical, 3, &signals).unwrap()
            );
            assert_eq!(weights.len(), 3);
            assert_eq!(needed_signal("ripplekv", &canonical), allocator.signal);
            assert_eq!(needed_signal("snapkv", &canonical), allocator.signal);
            assert_eq!(
                needs_all_layers("snapkv", &canonical),
                allocator.needs_all_layers
            );
        }
    }
    assert_eq!(needed_signal("ripplekv", &json!({})), Some("sensitivity"));
    assert_eq!(
        needed_signal("ripplekv", &json!({"scorer": "streaming-llm"})),
        Some("sensitivity")
    );
    assert_eq!(needed_signal("snapkv", &json!({})), None);
    assert_eq!(needed_signal("full", &Value::Null), None);
    let crossed = parse_method("ripplekv", &json!({"scorer": "streaming-llm"})).unwrap();
    assert_eq!(
        crossed,
        json!({"scorer": "streaming-llm", "allocator": "ripple", "sinks": 4, "r": 4.0, "gamma": 2.0, "center": "mean"})
    );
}

#[test]
fn bad_parameters_and_profiles_name_the_field() {
    let message = |params: Value| parse_method("ripplekv", &params).unwrap_err().to_string();
    for (params, part) in [
        (
            json!({"r": 0}),
            "r: is 0; must be a number above 0, or `calibrate`",
        ),
        (json!({"r": -2.0}), "r: is -2"),
        (
            json!({"r": "auto"}),
            "r: is \"auto\"; must be a number above 0, or `calibrate`",
        ),
        (
            json!({"gamma": 0.5}),
            "gamma: is 0.5; must be a number of at least 1",
        ),
        (json!({"gamma": "wide"}), "gamma: invalid type"),
        (
            json!({"center": "median"}),
            "center: unknown variant `median`",
        ),
        (json!({"seed": 1}), "unknown parameter `seed`"),
        (json!({"allocator": "random", "seed": -1}), "seed:"),
        (json!({"r": "calibrate", "gamma": 0}), "gamma: is 0"),
    ] {
        let text = message(params.clone());
        assert!(text.starts_with(part), "{params}: {text}");
    }
    assert!(RippleMapping::new(f64::NAN, 2.0, Center::Mean).is_err());
    assert!(RippleMapping::new(2.0, f64::INFINITY, Center::Mean).is_err());
    let of = |signal: &[f64]| weights_of("ripplekv", &json!({}), 30, &signals(signal)).unwrap_err();
    assert_eq!(
        of(&[1.0; 28]),
        "profile has 28 layers, the model 30 (`sensitivity`)"
    );
    let mut one_wrong = vec![1.0; 30];
    for wrong in [f64::NAN, -0.25, f64::INFINITY] {
        one_wrong[7] = wrong;
        assert_eq!(
            of(&one_wrong),
            format!("`sensitivity` of layer 7 is {wrong}; must be a finite number of at least 0")
        );
    }
    let absent = weights_of("ripplekv", &json!({}), 30, &BTreeMap::new()).unwrap_err();
    assert!(
        absent.contains("`sensitivity`")
            && absent.contains("hint:")
            && absent.contains("ripplekv profile")
    );
}

#[test]
fn calibrate_stays_until_it_is_replaced() {
    let canonical = parse_method("ripplekv", &json!({"r": "calibrate"})).unwrap();
    assert_eq!(canonical["r"], "calibrate");
    assert_eq!(parse_method("ripplekv", &canonical).unwrap(), canonical);
    let signals = signals(&[1.0, 2.0]);
    let message = weights_of("ripplekv", &canonical, 2, &signals).unwrap_err();
    assert!(message.starts_with("r: is still `calibrate`"), "{message}");
    let message = RippleMapping::from_params(&json!({"r": "calibrate"}))
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("r: is still `calibrate`"), "{message}");
    let mut replaced = canonical;
    replaced["r"] = json!(8);
    assert_eq!(
        weights_of("ripplekv", &replaced, 2, &signals).unwrap(),
        RippleMapping::from_params(&json!({"r": 8}))
            .unwrap()
            .weights(&[1.0, 2.0])
            .unwrap()
    );
    assert!(RippleMapping::from_params(&json!({"rr": 8})).is_err());
}

#[test]
fn a_file_becomes_its_numbers() {
    let path = std::env::temp_dir().join(format!("ripplekv-signal-{}.json", std::process::id()));
    let file = path.display().to_string();
    let parse = |text: &str| {
        std::fs::write(&path, text).unwrap();
        parse_method("ripplekv", &json!({"allocator": "from-file", "file": file}))
    };
    let from_list = parse("[1, 2.5, 0]").unwrap();
    assert_eq!(from_list["signal"], json!([1.0, 2.5, 0.0]));
    assert!(from_list.get("file").is_none());
    // the key of a cell stands for contents: another form of the same numbers, or the numbers themselves, are the same
    assert_eq!(
        parse("{\"signal\": [1, 2.5, 0], \"made_by\": \"hand\"}").unwrap(),
        from_list
    );
    assert_eq!(parse_method("ripplekv", &from_list).unwrap(), from_list);
    for (text, part) in [
        ("[]", "`signal` is empty"),
        ("[1, NaN]", "is not JSON"),
        (
            "[1, -2]",
            "`signal[1]` is -2; must be a finite number of at least 0",
        ),
        ("[null]", "`signal[0]` is null"),
        ("[1, \"a\"]", "`signal[1]` is \"a\""),
        ("{\"numbers\": [1]}", "the key `signal` is missing"),
        ("{\"signal\": 3}", "`signal` must be a list of numbers"),
        ("7", "`signal` must be a list of numbers"),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("file: {file}: ")) && message.contains(part),
            "{message}"
        );
    }
    std::fs::remove_file(&path).unwrap();
    let given = json!({"allocator": "from-file", "file": file});
    let message = parse_method("ripplekv", &given).unwrap_err().to_string();
    assert!(
        message.contains(&file) && message.contains("cannot be read"),
        "{message}"
    );
    let both = json!({"allocator": "from-file", "file": file, "signal": [1]});
    assert!(
        parse_method("ripplekv", &both)
            .unwrap_err()
            .to_string()
            .contains("give one of them")
    );
    let message = weights_of("ripplekv", &from_list, 4, &BTreeMap::new()).unwrap_err();
    assert_eq!(message, "profile has 3 layers, the model 4 (`signal`)");
}
