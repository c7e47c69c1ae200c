//! Attention with an online softmax over blocks of keys (Milakov and Gimelshein 2018; Dao et al. 2022): the query heads of
//! a KV head and a tile of positions are the rows of one product, so that products are large and the scores of a block
//! stay in the second-level cache. Tiles run in parallel, each on one thread: any number of threads gives the same bits.

use candle_core::{CpuStorage, DType, Layout, Result, Storage, Tensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::exponential::exp2;
use super::product::{Matrix, multiply};

/// Rows of a tile's products, about: query heads of one KV head times positions.
const TILE_ROWS: usize = 256;
/// Keys of one block.
const KEY_BLOCK: usize = 256;

/// Positions of one tile where tensor operations do the work.
const TENSOR_TILE: usize = 128;

/// Keys and values that queries look at, `[kv_heads, length, head_dim]` each.
pub(crate) struct Seen {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
    /// Entries that the first query sees, where each later query sees one more; `None` where all see everything.
    /// Only the last piece may be causal.
    pub(crate) causal_from: Option<usize>,
}

/// Attention of `[heads, tokens, head_dim]` over pieces of which each query sees at least one entry of the first;
/// returns `[tokens, heads * head_dim]`.
pub(crate) fn attend(queries: &Tensor, pieces: &[Seen], scale: f32) -> Result<Tensor> {
    let Some(first) = pieces.first() else {
        candle_core::bail!("attention over nothing")
    };
    let kv_heads = first.keys.dims3()?.0;
    let (heads, tokens, head_dim) = queries.dims3()?;
    if !queries.device().is_cpu() || queries.dtype() != DType::F32 {
        return by_tensor_operations(queries, pieces, scale);
    }
    let queries = queries.contiguous()?;
    let tensors: Vec<&Tensor> = std::iter::once(&queries)
        .chain(pieces.iter().flat_map(|piece| [&piece.keys, &piece.values]))
        .collect();
    let guards: Vec<_> = tensors
        .iter()
        .map(|tensor| tensor.storage_and_layout())
        .collect();
    let slices = guards
        .iter()
        .map(|(storage, layout)| rows_of(storage, layout))
        .collect::<Result<Vec<_>>>()?;
    let pieces: Vec<Piece<'_>> = pieces
        .iter()
        .zip(slices[1..].chunks_exact(2))
        .map(|(piece, pair)| Piece {
            keys: pair[0].0,
            values: pair[1].0,
            length: piece.keys.dims()[1],
            head_strides: [pair[0].1, pair[1].1],
            causal_from: piece.causal_from,
        })
        .collect();
    let attention = Attention {
        heads,
        kv_heads,
        head_dim,
        scale,
        queries: slices[0].0,
        tokens,
        pieces: &pieces,
    };
    Tensor::from_vec(
        attention.run(),
        (tokens, heads * head_dim),
        queries.device(),
    )
}

/// The elements of `[heads, rows, head_dim]` whose rows lie one after another, and the distance between heads.
fn rows_of<'a>(storage: &'a Storage, layout: &Layout) -> Result<(&'a [f32], usize)> {
    let (_, rows, dim) = layout.shape().dims3()?;
    match (storage, layout.stride()) {
        (Storage::Cpu(CpuStorage::F32(values)), &[head, row, 1]) if row == dim || rows < 2 => {
            Ok((&values[layout.start_offset()..], head))
        }
        _ => candle_core::bail!(
            "attention needs f32 rows that lie one after another, got {layout:?}"
        ),
    }
}

/// The same on other devices and in other number formats.
fn by_tensor_operations(queries: &Tensor, pieces: &[Seen], scale: f32) -> Result<Tensor> {
    let (heads, tokens, head_dim) = queries.dims3()?;
    let cat =
        |part: fn(&Seen) -> &Tensor| Tensor::cat(&pieces.iter().map(part).collect::<Vec<_>>(), 1);
    let (keys, values) = (cat(|piece| &piece.keys)?, cat(|piece| &piece.values)?);
    let (kv_heads, length, _) = keys.dims3()?;
    let hidden_from = |token: usize| match pieces.last().map(|piece| (piece, piece.causal_from)) {
        Some((piece, Some(first))) => length - piece.keys.dims()[1] + first + token,
        _ => length,
    };
    let mut tiles = Vec::new();
    for start in (0..tokens).step_by(TENSOR_TILE) {
        let tile = TENSOR_TILE.min(tokens - start);
        let shape = (kv_heads, heads / kv_heads * tile, head_dim);
        let stacked = queries
            .narrow(1, start, tile)?
            .contiguous()?
            .reshape(shape)?;
        let mask: Vec<f32> = (0..tile)
            .flat_map(|row| {
                let seen = hidden_from(start + row);
                (0..length).map(move |entry| if entry < seen { 0.0 } else { f32::NEG_INFINITY })
            })
            .collect();
        let mask = Tensor::from_vec(mask, (1, 1, tile, length), queries.device())?;
        let logits = (stacked.matmul(&keys.t()?)?.to_dtype(DType::F32)? * f64::from(scale))?;
        let logits = logits
            .reshape((kv_heads, heads / kv_heads, tile, length))?
            .broadcast_add(&mask)?;
        let mixed = candle_nn::ops::softmax_last_dim(&logits)?
            .reshape((kv_heads, heads / kv_heads * tile, length))?
            .to_dtype(values.dtype())?
            .matmul(&values)?
            .reshape((heads, tile, head_dim))?;
        let rows = mixed.transpose(0, 1)?.contiguous()?;
        tiles.push(rows.reshape((tile, heads * head_dim))?);
    }
    Tensor::cat(&tiles, 0)
}

/// [`Seen`] as slices, heads `head_strides` elements apart (keys, values).
struct Piece<'a> {
    keys: &'a [f32],
    values: &'a [f32],
    length: usize,
    head_strides: [usize; 2],
    causal_from: Option<usize>,
}

impl Piece<'_> {
    /// Entries that query `token` sees.
    fn visible(&self, token: usize) -> usize {
        self.causal_from
            .map_or(self.length, |first| (first + token).min(self.length))
    }
}

/// One attention call.
struct Attention<'a> {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Factor of the logits.
    scale: f32,
    /// `[heads, tokens, head_dim]`.
    queries: &'a [f32],
    tokens: usize,
    pieces: &'a [Piece<'a>],
}

/// Working memory of one thread.
#[derive(Default)]
struct Buffers {
    queries: Vec<f32>,
    scores: Vec<f32>,
    maxima: Vec<f32>,
    sums: Vec<f32>,
}

impl Attention<'_> {
    /// `[tokens, heads * head_dim]`.
    fn run(&self) -> Vec<f32> {
        let group = self.heads / self.kv_heads;
        let tile = (TILE_ROWS / group).clamp(1, self.tokens.max(1));
        let tiles = self.tokens.div_ceil(tile);
        let blocks: Vec<Vec<f32>> = (0..tiles * self.kv_heads)
            .into_par_iter()
            .with_max_len(1)
            .map_init(Buffers::default, |buffers, task| {
                // late tiles see the most: first
                let start = (tiles - 1 - task / self.kv_heads) * tile;
                let count = tile.min(self.tokens - start);
                self.tile(task % self.kv_heads, start, count, buffers)
            })
            .collect();
        let width = self.heads * self.head_dim;
        let mut out = vec![0.0f32; self.tokens * width];
        for (task, block) in blocks.iter().enumerate() {
            let start = (tiles - 1 - task / self.kv_heads) * tile;
            let count = tile.min(self.tokens - start);
            for (row, values) in block.chunks_exact(self.head_dim).enumerate() {
                let head = task % self.kv_heads * group + row / count;
                let place = (start + row % count) * width + head * self.head_dim;
                out[place..place + self.head_dim].copy_from_slice(values);
            }
        }
        out
    }

    /// `[group * count, head_dim]` of the positions `start..start + count`.
    fn tile(&self, kv_head: usize, start: usize, count: usize, buffers: &mut Buffers) -> Vec<f32> {
        let (group, dim) = (self.heads / self.kv_heads, self.head_dim);
        let rows = group * count;
        buffers.queries.clear();
        for head in kv_head * group..(kv_head + 1) * group {
            let first = (head * self.tokens + start) * dim;
            let queries = &self.queries[first..first + count * dim];
            buffers.queries.extend_from_slice(queries);
        }
        buffers.scores.resize(rows * KEY_BLOCK, 0.0);
        buffers.maxima.clear();
        buffers.maxima.resize(rows, f32::NEG_INFINITY);
        buffers.sums.clear();
        buffers.sums.resize(rows, 0.0);
        let mut out = vec![0.0f32; rows * dim];
        for piece in self.pieces {
            let seen = piece.visible(start + count - 1);
            for first in (0..seen).step_by(KEY_BLOCK) {
                let block = KEY_BLOCK.min(seen - first);
                let [keys, values] = piece.head_strides.map(|stride| {
                    let place = kv_head * stride + first * dim;
                    place..place + block * dim
                });
                let keys = Matrix::new(&piece.keys[keys], block, dim);
                let queries = Matrix::new(&buffers.queries, rows, dim);
                multiply(
                    &mut buffers.scores,
                    KEY_BLOCK,
                    false,
                    queries,
                    keys.transposed(),
                );
                pulp::Arch::new().dispatch(OnlineSoftmax {
                    scores: &mut buffers.scores,
                    maxima: &mut buffers.maxima,
                    sums: &mut buffers.sums,
                    out: &mut out,
                    dim,
                    block,
                    scale: self.scale * std::f32::consts::LOG2_E,
                    visible: |row| {
                        piece
                            .visible(start + row % count)
                            .saturating_sub(first)
                            .min(block)
                    },
                });
                let weights = Matrix {
                    values: &buffers.scores,
                    rows,
                    columns: block,
                    row_stride: KEY_BLOCK,
                    column_stride: 1,
                };
                let values = Matrix::new(&piece.values[values], block, dim);
                multiply(&mut out, dim, true, weights, values);
            }
        }
        for (row, sum) in out.chunks_exact_mut(dim).zip(&buffers.sums) {
            let factor = 1.0 / sum;
            for value in row {
                *value *= factor;
            }
        }
        out
    }
}

/// Turns the scores of one block into weights relative to each row's maximum so far, and rescales what the row has.
struct OnlineSoftmax<'a, V> {
    /// `[rows, KEY_BLOCK]`, of which `block` columns are in use.
    scores: &'a mut [f32],
    maxima: &'a mut [f32],
    sums: &'a mut [f32],
    /// `[rows, dim]`.
    out: &'a mut [f32],
    dim: usize,
    block: usize,
    /// Factor of the scores, times log2(e).
    scale: f32,
    /// Columns of the block that a row sees.
    visible: V,
}

impl<V: Fn(usize) -> usize> WithSimd for OnlineSoftmax<'_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self
            .scores
            .chunks_mut(KEY_BLOCK)
            .zip(self.out.chunks_exact_mut(self.dim))
            .zip(self.maxima.iter_mut().zip(self.sums.iter_mut()));
        for (row, ((scores, out), (maximum, sum))) in rows.enumerate() {
            let visible = (self.visible)(row);
            let (seen, hidden) = scores[..self.block].split_at_mut(visible);
            hidden.fill(0.0);
            if seen.is_empty() {
                continue;
            }
            let largest = largest(simd, seen) * self.scale;
            if largest > *maximum {
                let factor = if *maximum == f32::NEG_INFINITY {
                    0.0
                } else {
                    one(simd, *maximum - largest)
                };
                *sum *= factor;
                for value in out.iter_mut() {
                    *value *= factor;
                }
                *maximum = largest;
            }
            *sum += weights(simd, seen, self.scale, *maximum);
        }
    }
}

/// 2^x of one number.
#[inline(always)]
fn one<S: Simd>(simd: S, x: f32) -> f32 {
    simd.reduce_max_f32s(exp2(simd, simd.splat_f32s(x)))
}

#[inline(always)]
fn largest<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let (body, tail) = S::as_simd_f32s(row);
    let mut maxima = simd.splat_f32s(f32::NEG_INFINITY);
    for values in body {
        maxima = simd.max_f32s(maxima, *values);
    }
    tail.iter()
        .fold(simd.reduce_max_f32s(maxima), |most, value| most.max(*value))
}

/// Replaces a row by 2^(scale * x - maximum) and gives the sum.
#[inline(always)]
fn weights<S: Simd>(simd: S, row: &mut [f32], scale: f32, maximum: f32) -> f32 {
    let (body, tail) = S::as_mut_simd_f32s(row);
    let (factor, shift) = (simd.splat_f32s(scale), simd.splat_f32s(-maximum));
    let mut sums = simd.splat_f32s(0.0);
    for values in body {
        *values = exp2(simd, simd.mul_add_f32s(*values, factor, shift));
        sums = simd.add_f32s(sums, *values);
    }
    let mut sum = simd.reduce_sum_f32s(sums);
    if !tail.is_empty() {
        let values = simd.mul_add_f32s(simd.partial_load_f32s(tail), factor, shift);
        simd.partial_store_f32s(tail, exp2(simd, values));
        for value in tail {
            sum += *value;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    fn random(shape: (usize, usize, usize)) -> Tensor {
        Tensor::randn(0f32, 1.5, shape, &Device::Cpu).unwrap()
    }

    /// By definition, in f64.
    fn exact(queries: &Tensor, pieces: &[Seen], scale: f32) -> Vec<f64> {
        let wide = |tensor: &Tensor| {
            tensor
                .to_dtype(DType::F64)
                .unwrap()
                .to_vec3::<f64>()
                .unwrap()
        };
        let queries = wide(queries);
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| (wide(&piece.keys), wide(&piece.values), piece.causal_from))
            .collect();
        let (heads, tokens, dim) = (queries.len(), queries[0].len(), queries[0][0].len());
        let group = heads / pieces[0].0.len();
        let mut out = vec![0.0; tokens * heads * dim];
        for head in 0..heads {
            for (token, query) in queries[head].iter().enumerate() {
                let mut seen: Vec<(f64, &Vec<f64>)> = Vec::new();
                for (keys, values, causal_from) in &pieces {
                    let (keys, values) = (&keys[head / group], &values[head / group]);
                    let visible =
                        causal_from.map_or(keys.len(), |first| (first + token).min(keys.len()));
                    for (key, value) in keys.iter().zip(values).take(visible) {
                        let dot: f64 = key.iter().zip(query).map(|(k, q)| k * q).sum();
                        seen.push((dot * f64::from(scale), value));
                    }
                }
                let most = seen
                    .iter()
                    .fold(f64::NEG_INFINITY, |most, (logit, _)| most.max(*logit));
                let sum: f64 = seen.iter().map(|(logit, _)| (logit - most).exp()).sum();
                let place = (token * heads + head) * dim;
                for (logit, value) in seen {
                    let weight = (logit - most).exp() / sum;
                    for (target, value) in out[place..place + dim].iter_mut().zip(value) {
                        *target += weight * value;
                    }
                }
            }
        }
        out
    }

    fn worst(got: &Tensor, exact: &[f64]) -> f64 {
        let got = got.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(got.len(), exact.len());
        got.iter()
            .zip(exact)
            .map(|(got, exact)| (f64::from(*got) - exact).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn attention_is_right_for_odd_shapes_and_block_borders() {
        // heads, kv_heads, head_dim, tokens, entries before the first query
        for (heads, kv_heads, dim, tokens, before) in [
            (3, 1, 16, 1, 0),
            (9, 3, 64, 129, 0),
            (8, 2, 24, 77, 300),
            (4, 4, 64, 300, 212),
            (6, 3, 80, 2, 511),
            (7, 1, 32, 257, 255),
        ] {
            let queries = random((heads, tokens, dim));
            let length = before + tokens;
            let pieces = [Seen {
                keys: random((kv_heads, length, dim)),
                values: random((kv_heads, length, dim)),
                causal_from: Some(before + 1),
            }];
            let scale = 1.0 / (dim as f32).sqrt();
            let exact = exact(&queries, &pieces, scale);
            let got = attend(&queries, &pieces, scale).unwrap();
            assert!(
                worst(&got, &exact) < 1e-5,
                "{heads} {tokens}: {}",
                worst(&got, &exact)
            );
            let other = by_tensor_operations(&queries, &pieces, scale).unwrap();
            assert!(worst(&other, &exact) < 1e-5, "{}", worst(&other, &exact));
        }
    }

    #[test]
    fn pieces_and_narrowed_storage_are_right() {
        let queries = random((6, 9, 32));
        let room = random((2, 40, 32));
        for causal_from in [0, 1] {
            let pieces = [
                Seen {
                    keys: random((2, 270, 32)),
                    values: random((2, 270, 32)),
                    causal_from: None,
                },
                Seen {
                    keys: room.narrow(1, 3, 9).unwrap(),
                    values: room.narrow(1, 20, 9).unwrap(),
                    causal_from: Some(causal_from),
                },
            ];
            let exact = exact(&queries, &pieces, 0.2);
            let got = attend(&queries, &pieces, 0.2).unwrap();
            assert!(worst(&got, &exact) < 1e-5, "{}", worst(&got, &exact));
            let other = by_tensor_operations(&queries, &pieces, 0.2).unwrap();
            assert!(worst(&other, &exact) < 1e-5, "{}", worst(&other, &exact));
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let queries = (random((3, 5, 16)) * 60.0).unwrap();
        let pieces = [Seen {
            keys: random((1, 600, 16)),
            values: random((1, 600, 16)),
            causal_from: None,
        }];
        let exact = exact(&queries, &pieces, 1.0);
        let got = attend(&queries, &pieces, 1.0).unwrap();
        assert!(worst(&got, &exact) < 1e-3, "{}", worst(&got, &exact));
    }
}
