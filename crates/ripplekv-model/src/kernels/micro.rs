//! The inner loop of every product: some rows times one panel of outputs, summed over the inputs in order. The order does
//! not depend on how many rows there are, so a row's result is the same alone and in company, in prefill and in decoding.

use pulp::Simd;

/// Outputs of a panel, and inputs of a chunk of a row: two 256-bit registers.
pub(crate) const LANES: usize = 16;
/// Rows whose sums stay in registers at a time: with [`LANES`] outputs they fill 12 of 16.
pub(crate) const ROWS: usize = 6;

/// Neighbouring numbers of one row: inputs of packed rows, outputs of panels.
pub(crate) type Chunk = [f32; LANES];

/// `sums[r] += rows[.., r] . panel` for `R` rows.
///
/// `rows`: `[chunks, R]`; `panel`: `[chunks * LANES]`, each entry one input's weights for [`LANES`] outputs.
#[inline(always)]
pub(crate) fn accumulate<S: Simd, const R: usize>(
    simd: S,
    rows: &[Chunk],
    panel: &[Chunk],
    sums: &mut [Chunk; R],
) {
    // registers of a chunk
    match LANES / S::F32_LANES {
        1 => registers::<S, 1, R>(simd, rows, panel, sums),
        2 => registers::<S, 2, R>(simd, rows, panel, sums),
        4 => registers::<S, 4, R>(simd, rows, panel, sums),
        _ => registers::<S, LANES, R>(simd, rows, panel, sums),
    }
}

#[inline(always)]
fn registers<S: Simd, const V: usize, const R: usize>(
    simd: S,
    rows: &[Chunk],
    panel: &[Chunk],
    sums: &mut [Chunk; R],
) {
    let (weights, _) = S::as_simd_f32s(panel.as_flattened());
    let mut kept = [[simd.splat_f32s(0.0); V]; R];
    for (kept, sums) in kept.iter_mut().zip(sums.iter()) {
        kept.copy_from_slice(&S::as_simd_f32s(sums).0[..V]);
    }
    for (rows, weights) in rows.chunks_exact(R).zip(weights.chunks_exact(V * LANES)) {
        for lane in 0..LANES {
            for row in 0..R {
                let state = simd.splat_f32s(rows[row][lane]);
                for word in 0..V {
                    let weight = weights[lane * V + word];
                    kept[row][word] = simd.mul_add_f32s(state, weight, kept[row][word]);
                }
            }
        }
    }
    for (kept, sums) in kept.iter().zip(sums.iter_mut()) {
        S::as_mut_simd_f32s(sums).0[..V].copy_from_slice(kept);
    }
}

/// [`accumulate`] for `sums.len()` rows, at most [`ROWS`].
#[inline(always)]
pub(crate) fn accumulate_some<S: Simd>(
    simd: S,
    rows: &[Chunk],
    panel: &[Chunk],
    sums: &mut [Chunk],
) {
    #[inline(always)]
    fn exactly<S: Simd, const R: usize>(
        simd: S,
        rows: &[Chunk],
        panel: &[Chunk],
        sums: &mut [Chunk],
    ) {
        if let Some(sums) = sums.as_chunks_mut::<R>().0.first_mut() {
            accumulate(simd, rows, panel, sums);
        }
    }
    match sums.len() {
        1 => exactly::<S, 1>(simd, rows, panel, sums),
        2 => exactly::<S, 2>(simd, rows, panel, sums),
        3 => exactly::<S, 3>(simd, rows, panel, sums),
        4 => exactly::<S, 4>(simd, rows, panel, sums),
        5 => exactly::<S, 5>(simd, rows, panel, sums),
        _ => exactly::<S, ROWS>(simd, rows, panel, sums),
    }
}
