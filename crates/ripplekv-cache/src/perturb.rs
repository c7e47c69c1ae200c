//! Norm-adaptive noise on a layer's values, the probe of the sensitivity profile (arXiv 2608.08684, design.md 5):
//! V'_j = V_j + sigma * norm_j / sqrt(d) * g_j with g_j ~ N(0, I_d), per KV head and position.
//! Every number depends on its key alone (seed, sample, layer, pair, head, position, channel): any thread count and order
//! give the same bits.

use candle_core::{DType, Tensor};
use rayon::prelude::*;

use crate::CacheError;
use crate::philox::philox;

/// Positions at the start and at the end of a prompt that no method evicts: the sinks and SnapKV's window.
const FIRST_EVICTABLE: usize = 4;
const LAST_KEPT: usize = 64;

/// Rows that one thread takes at a time at least.
const ROWS_A_TASK: usize = 64;

/// Length that the noise of a value vector is proportional to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NoiseNorm {
    /// The vector's own Euclidean norm.
    #[default]
    Token,
    /// Root mean square of the norms of all prompt tokens of the KV head.
    Head,
    /// Root mean square of the norms of all prompt tokens of all KV heads of the layer.
    Layer,
}

/// Which prompt positions get noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NoisePositions {
    /// Every one.
    #[default]
    All,
    /// Neither the first 4 nor the last 64; none in a prompt of at most 68 tokens.
    Evictable,
}

/// Which noise: equal keys give equal noise on equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoiseKey<'a> {
    /// Seed of the profile.
    pub seed: u64,
    /// Name of the calibration sample.
    pub sample: &'a str,
    /// Layer.
    pub layer: usize,
    /// k of the antithetic pair: draw 2k adds the noise, draw 2k + 1 subtracts it.
    pub pair: usize,
}

impl NoiseKey<'_> {
    /// The generator's key; head, position and channel are its counter.
    fn generator_key(&self) -> [u32; 2] {
        let mut hasher = blake3::Hasher::new();
        for number in [self.seed, self.layer as u64, self.pair as u64] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(self.sample.as_bytes());
        let hash = hasher.finalize();
        let word = |at: usize| {
            let bytes = hash.as_bytes();
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        [word(0), word(4)]
    }
}

/// Noise of sigma 1 for the values of one layer, to be used at several sigmas and with both signs.
#[derive(Debug, Clone)]
pub struct Noise {
    /// norm_j / sqrt(d) * g_j in f32, `[kv_heads, touched, head_dim]`.
    unit: Tensor,
    /// First position that is touched.
    first: usize,
}

impl Noise {
    /// Draws the noise for `values`, `[kv_heads, n, head_dim]`.
    ///
    /// # Errors
    /// When `values` does not have three dimensions, or a tensor operation fails.
    pub fn draw(
        key: &NoiseKey<'_>,
        values: &Tensor,
        norm: NoiseNorm,
        positions: NoisePositions,
    ) -> Result<Self, CacheError> {
        let (kv_heads, prompt_tokens, head_dim) = values.dims3()?;
        let first = match positions {
            NoisePositions::All => 0,
            NoisePositions::Evictable => FIRST_EVICTABLE,
        };
        let touched = match positions {
            NoisePositions::All => prompt_tokens,
            NoisePositions::Evictable => prompt_tokens.saturating_sub(FIRST_EVICTABLE + LAST_KEPT),
        };
        let norms = lengths(values, norm)?;
        let generator_key = key.generator_key();
        let mut unit = vec![0.0f32; kv_heads * touched * head_dim];
        if !unit.is_empty() {
            unit.par_chunks_mut(head_dim)
                .with_min_len(ROWS_A_TASK)
                .enumerate()
                .for_each(|(row, channels)| {
                    let (head, position) = (row / touched, first + row % touched);
                    let length = norms[head * prompt_tokens + position];
                    let scale = (length / (head_dim as f64).sqrt()) as f32;
                    fill_normal(
                        channels,
                        scale,
                        [position as u32, head as u32],
                        generator_key,
                    );
                });
        }
        let shape = (kv_heads, touched, head_dim);
        Ok(Self {
            unit: Tensor::from_vec(unit, shape, values.device())?,
            first,
        })
    }

    /// Number of positions that get noise.
    #[must_use]
    pub fn touched_positions(&self) -> usize {
        self.unit.dims().get(1).copied().unwrap_or(0)
    }

    /// `values` with this noise times `signed_sigma`, in the values' own number format; the values it was drawn for,
    /// `[kv_heads, n, head_dim]`. Sigma 0 and positions without noise keep every bit.
    ///
    /// # Errors
    /// When the shapes differ, or a tensor operation fails.
    pub fn perturbed(&self, values: &Tensor, signed_sigma: f64) -> Result<Tensor, CacheError> {
        let (_, prompt_tokens, _) = values.dims3()?;
        let touched = self.touched_positions();
        if signed_sigma == 0.0 || touched == 0 {
            return Ok(values.clone());
        }
        let noisy = values
            .narrow(1, self.first, touched)?
            .to_dtype(DType::F32)?
            .add(&self.unit.affine(signed_sigma, 0.0)?)?
            .to_dtype(values.dtype())?;
        if touched == prompt_tokens {
            return Ok(noisy);
        }
        let end = self.first + touched;
        let before = values.narrow(1, 0, self.first)?;
        let after = values.narrow(1, end, prompt_tokens - end)?;
        Ok(Tensor::cat(&[&before, &noisy, &after], 1)?)
    }
}

/// Length that the noise of each vector is proportional to, `[kv_heads, n]` row-major.
fn lengths(values: &Tensor, norm: NoiseNorm) -> Result<Vec<f64>, CacheError> {
    let (_, prompt_tokens, head_dim) = values.dims3()?;
    let flat = values
        .to_dtype(DType::F32)?
        .flatten_all()?
        .to_vec1::<f32>()?;
    let squares: Vec<f64> = flat
        .par_chunks(head_dim)
        .with_min_len(ROWS_A_TASK)
        .map(|vector| vector.iter().map(|&v| f64::from(v) * f64::from(v)).sum())
        .collect();
    let group = match norm {
        NoiseNorm::Token => 1,
        NoiseNorm::Head => prompt_tokens,
        NoiseNorm::Layer => squares.len(),
    };
    Ok(squares
        .chunks(group.max(1))
        .flat_map(|group| {
            let mean = group.iter().sum::<f64>() / group.len() as f64;
            std::iter::repeat_n(mean.sqrt(), group.len())
        })
        .collect())
}

/// Fills one vector with normal numbers times `scale`, four channels a block of the generator.
fn fill_normal(channels: &mut [f32], scale: f32, place: [u32; 2], key: [u32; 2]) {
    for (block, four) in channels.chunks_mut(4).enumerate() {
        let words = philox([block as u32, place[0], place[1], 0], key);
        let (first, second) = (
            box_muller(words[0], words[1]),
            box_muller(words[2], words[3]),
        );
        let normals = [first.0, first.1, second.0, second.1];
        for (channel, normal) in four.iter_mut().zip(normals) {
            *channel = scale * normal;
        }
    }
}

/// Two independent standard normal numbers from two random words (Box and Muller, 1958).
fn box_muller(radius_word: u32, angle_word: u32) -> (f32, f32) {
    const STEP: f32 = 1.0 / 4_294_967_296.0;
    // above 0, so that the logarithm is finite
    let share = (radius_word as f32 + 0.5) * STEP;
    let radius = libm::sqrtf(-2.0 * libm::logf(share));
    let (sine, cosine) = libm::sincosf(std::f32::consts::TAU * (angle_word as f32 * STEP));
    (radius * cosine, radius * sine)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

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
        flat(
            &Noise::draw(key, values, norm, NoisePositions::All)
                .unwrap()
                .unit,
        )
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
                let noise =
                    Noise::draw(&KEY, &values, NoiseNorm::Layer, NoisePositions::All).unwrap();
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
            .zip(flat(&all.unit))
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
}
