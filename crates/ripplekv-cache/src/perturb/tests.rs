//! The noise: its distribution, its keys, its lengths, and what stays untouched.

use super::*;

const KEY: NoiseKey<'static> = NoiseKey {
    seed: 1,
    sample: "dialogue/3",
    layer: 5,
    pair: 0,
};

/// `[kv_heads, n, head_dim]`, every token of another length.
fn values(kv_heads: usize, prompt_tokens: usize, head_dim: usize) -> Tensor {
    let numbers: Vec<f32> = (0..kv_heads * prompt_tokens * head_dim)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) * (1.0 + (i / head_dim % 17) as f32))
        .collect();
    Tensor::from_vec(numbers, (kv_heads, prompt_tokens, head_dim), &Device::Cpu).unwrap()
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    flat(tensor).iter().map(|number| number.to_bits()).collect()
}

fn unit(key: &NoiseKey<'_>, values: &Tensor, norm: NoiseNorm) -> Vec<f32> {
    Noise::draw(key, values, norm, NoisePositions::All)
        .unwrap()
        .unit
}

/// Standard normal numbers: values of norm sqrt(d).
fn normals(key: &NoiseKey<'_>, n: usize, head_dim: usize) -> Vec<f32> {
    let ones = Tensor::ones((1, n, head_dim), DType::F32, &Device::Cpu).unwrap();
    unit(key, &ones, NoiseNorm::Token)
}

#[test]
fn numbers_are_standard_normal_and_independent() {
    let (n, head_dim) = (16_384, 24);
    let g: Vec<f64> = normals(&KEY, n, head_dim)
        .into_iter()
        .map(f64::from)
        .collect();
    let count = g.len() as f64;
    let moment = |power: i32| g.iter().map(|x| x.powi(power)).sum::<f64>() / count;
    // five standard errors of each moment of N(0, 1): variances 1, 2, 15, 96
    for (power, expected, variance) in [
        (1, 0.0, 1.0),
        (2, 1.0, 2.0),
        (3, 0.0, 15.0),
        (4, 3.0, 96.0f64),
    ] {
        let error = (moment(power) - expected).abs();
        assert!(
            error < 5.0 * (variance / count).sqrt(),
            "moment {power}: {error}"
        );
    }
    let beyond = g.iter().filter(|x| x.abs() > 3.0).count() as f64 / count;
    assert!(
        (beyond - 0.0027).abs() < 5.0 * (0.0027 / count).sqrt(),
        "{beyond}"
    );
    // channels of one vector, and squares of them, are uncorrelated; so are neighbouring positions
    let bound = 5.0 / (n as f64).sqrt();
    for a in 0..head_dim {
        for b in 0..a {
            let products = |f: &dyn Fn(f64) -> f64| {
                g.chunks(head_dim).map(|v| f(v[a]) * f(v[b])).sum::<f64>() / n as f64
            };
            assert!(products(&|x| x).abs() < bound, "{a} {b}");
            assert!(
                products(&|x| (x * x - 1.0) / 2f64.sqrt()).abs() < 2.0 * bound,
                "{a} {b}"
            );
        }
    }
    let lagged = g
        .iter()
        .zip(&g[head_dim..])
        .map(|(a, b)| a * b)
        .sum::<f64>()
        / count;
    assert!(lagged.abs() < 5.0 / count.sqrt(), "{lagged}");
}

#[test]
fn every_part_of_the_key_matters() {
    let base = normals(&KEY, 32, 8);
    assert_eq!(base, normals(&KEY, 32, 8));
    for other in [
        NoiseKey { seed: 2, ..KEY },
        NoiseKey {
            sample: "dialogue/4",
            ..KEY
        },
        NoiseKey { layer: 6, ..KEY },
        NoiseKey { pair: 1, ..KEY },
    ] {
        let equal = base
            .iter()
            .zip(normals(&other, 32, 8))
            .filter(|(a, b)| **a == *b)
            .count();
        assert_eq!(equal, 0, "{other:?}");
    }
    // heads differ, and a prompt's noise does not depend on its length or width
    let two = Tensor::ones((2, 32, 8), DType::F32, &Device::Cpu).unwrap();
    let heads = unit(&KEY, &two, NoiseNorm::Token);
    assert_eq!(heads[..256], base);
    assert!(heads[256..].iter().zip(&base).all(|(a, b)| a != b));
    assert_eq!(normals(&KEY, 16, 8), base[..128]);
}

#[test]
fn threads_do_not_matter() {
    let values = values(3, 700, 20);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let noise = Noise::draw(&KEY, &values, NoiseNorm::Layer, NoisePositions::All).unwrap();
            bits(&noise.perturbed(&values, 0.3).unwrap())
        })
    };
    let one = with(1);
    assert_eq!(one, with(2));
    assert_eq!(one, with(5));
}

#[test]
fn lengths_follow_the_formulas() {
    let (kv_heads, n, head_dim) = (2, 90, 6);
    let values = values(kv_heads, n, head_dim);
    let numbers: Vec<f64> = flat(&values).into_iter().map(f64::from).collect();
    let norm = |token: usize| {
        let vector = &numbers[token * head_dim..(token + 1) * head_dim];
        vector.iter().map(|v| v * v).sum::<f64>().sqrt()
    };
    let rms = |tokens: std::ops::Range<usize>| {
        let count = tokens.len() as f64;
        (tokens.map(|token| norm(token).powi(2)).sum::<f64>() / count).sqrt()
    };
    let g = unit(
        &KEY,
        &Tensor::ones((kv_heads, n, head_dim), DType::F32, &Device::Cpu).unwrap(),
        NoiseNorm::Token,
    );
    for kind in [NoiseNorm::Token, NoiseNorm::Head, NoiseNorm::Layer] {
        for (at, noise) in unit(&KEY, &values, kind).into_iter().enumerate() {
            let token = at / head_dim;
            let length = match kind {
                NoiseNorm::Token => norm(token),
                NoiseNorm::Head => rms(token / n * n..(token / n + 1) * n),
                NoiseNorm::Layer => rms(0..kv_heads * n),
            };
            let expected = length / (head_dim as f64).sqrt() * f64::from(g[at]);
            let error = (f64::from(noise) - expected).abs();
            assert!(
                error <= 1e-6 * expected.abs(),
                "{kind:?} {at}: {noise} {expected}"
            );
        }
    }
}

#[test]
fn sigma_signs_and_masked_positions() {
    let (n, head_dim) = (100, 6);
    let mut numbers = flat(&values(2, n, head_dim));
    // a negative zero, which adding zero would turn into a positive one
    numbers[0] = -0.0;
    let values = Tensor::from_vec(numbers, (2, n, head_dim), &Device::Cpu).unwrap();
    let all = Noise::draw(&KEY, &values, NoiseNorm::Token, NoisePositions::All).unwrap();
    assert_eq!(bits(&all.perturbed(&values, 0.0).unwrap()), bits(&values));
    let (plus, minus) = (
        all.perturbed(&values, 0.25).unwrap(),
        all.perturbed(&values, -0.25).unwrap(),
    );
    for (((value, plus), minus), noise) in flat(&values)
        .iter()
        .zip(flat(&plus))
        .zip(flat(&minus))
        .zip(&all.unit)
    {
        assert_eq!((plus, minus), (value + 0.25 * noise, value - 0.25 * noise));
        assert!(*value == 0.0 || plus != minus);
    }
    let some = Noise::draw(&KEY, &values, NoiseNorm::Token, NoisePositions::Evictable).unwrap();
    assert_eq!(some.touched_positions(), n - 68);
    let (masked, whole, before) = (
        bits(&some.perturbed(&values, 0.25).unwrap()),
        bits(&plus),
        bits(&values),
    );
    for at in 0..masked.len() {
        let position = at / head_dim % n;
        let touched = (4..n - 64).contains(&position);
        assert_eq!(
            masked[at],
            if touched { whole[at] } else { before[at] },
            "{position}"
        );
    }
    let short = values.narrow(1, 0, 68).unwrap();
    let none = Noise::draw(&KEY, &short, NoiseNorm::Token, NoisePositions::Evictable).unwrap();
    assert_eq!(none.touched_positions(), 0);
    assert_eq!(bits(&none.perturbed(&short, 1.0).unwrap()), bits(&short));
    // other number formats keep theirs
    let half = values.to_dtype(DType::BF16).unwrap();
    let noise = Noise::draw(&KEY, &half, NoiseNorm::Head, NoisePositions::All).unwrap();
    assert_eq!(noise.perturbed(&half, 0.1).unwrap().dtype(), DType::BF16);
}

#[test]
fn a_direction_is_the_noise_in_its_place() {
    let values = values(2, 100, 6);
    for positions in [NoisePositions::All, NoisePositions::Evictable] {
        let noise = Noise::draw(&KEY, &values, NoiseNorm::Token, positions).unwrap();
        let moved = noise.perturbed(&values, 0.25).unwrap();
        let direction = noise.direction(&Device::Cpu).unwrap();
        let along = (&values + (direction * 0.25).unwrap()).unwrap();
        assert_eq!(flat(&moved), flat(&along));
    }
    let short = values.narrow(1, 0, 3).unwrap();
    let none = Noise::draw(&KEY, &short, NoiseNorm::Token, NoisePositions::Evictable).unwrap();
    assert!(
        flat(&none.direction(&Device::Cpu).unwrap())
            .iter()
            .all(|number| *number == 0.0)
    );
}
