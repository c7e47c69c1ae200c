//! Matrix products on slices, on the calling thread. The `gemm` crate takes raw pointers; this module is the only place
//! that hands it any, after checking that every element lies in its slice.
#![expect(
    unsafe_code,
    reason = "the gemm crate's interface is raw pointers; bounds are checked before the call"
)]

/// A matrix in a slice, element (r, c) at `r * row_stride + c * column_stride`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `[rows, columns]`, row after row.
    pub(crate) fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self {
            values,
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
        }
    }

    /// The same with rows and columns exchanged.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    fn fits(&self) -> bool {
        fits(
            self.values.len(),
            [self.rows, self.columns],
            [self.row_stride, self.column_stride],
        )
    }
}

fn fits(length: usize, [rows, columns]: [usize; 2], [row, column]: [usize; 2]) -> bool {
    rows == 0 || columns == 0 || (rows - 1) * row + (columns - 1) * column < length
}

/// `out = left * right`, or `out += left * right` with `add`; `out` is `[left.rows, right.columns]` with `out_stride`
/// elements from row to row.
///
/// # Panics
/// When shapes do not fit together or into their slices: a bug of the caller.
pub(crate) fn multiply(
    out: &mut [f32],
    out_stride: usize,
    add: bool,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    let shape = [left.rows, right.columns];
    assert!(left.columns == right.rows && left.fits() && right.fits());
    assert!(out_stride >= right.columns && fits(out.len(), shape, [out_stride, 1]));
    // SAFETY: the assertions above keep every element that gemm touches inside its slice, `out` is borrowed mutably and
    // so overlaps neither input, and strides are far below isize::MAX because they lie in slices.
    unsafe {
        gemm::gemm(
            left.rows,
            right.columns,
            left.columns,
            out.as_mut_ptr(),
            1,
            out_stride as isize,
            add,
            left.values.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.values.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_sums_are_right() {
        let left: Vec<f32> = (0..12u8).map(f32::from).collect();
        let right: Vec<f32> = (0..20u8).map(f32::from).collect();
        let mut out = vec![1.0f32; 3 * 7];
        let [a, b] = [Matrix::new(&left, 3, 4), Matrix::new(&right, 4, 5)];
        multiply(&mut out, 7, true, a, b);
        for row in 0..3 {
            for column in 0..5 {
                let exact: f32 = (0..4)
                    .map(|k| left[row * 4 + k] * right[k * 5 + column])
                    .sum();
                assert_eq!(out[row * 7 + column], exact + 1.0);
            }
            assert_eq!(out[row * 7 + 5..row * 7 + 7], [1.0, 1.0]);
        }
        let mut turned = vec![0.0f32; 5 * 3];
        multiply(&mut turned, 3, false, b.transposed(), a.transposed());
        assert_eq!(turned[4 * 3 + 2], out[2 * 7 + 4] - 1.0);
    }
}
