//! Matrices of block-quantised files as the whole numbers that the files have, a byte each, with a factor and an offset for
//! every run of inputs. Dequantising multiplies and adds once a number, so the f32 numbers can be made again wherever they
//! are needed, bit for bit, from 10 bits instead of 32.

use candle_core::quantized::GgmlDType;
use candle_core::{Device, Tensor};
use half::f16;

/// Inputs that share a factor and an offset.
pub(crate) const RUN: usize = 32;

/// Added to products that have no offset: leaves every bit of them as it is, the sign of a zero too.
const NO_OFFSET: f32 = -0.0;

/// What makes numbers of a run's codes: `code * factor + offset`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Scale {
    pub(crate) factor: f32,
    pub(crate) offset: f32,
}

/// A matrix `[outputs, inputs]` of codes.
#[derive(Debug, Clone, PartialEq)]
pub struct Codes {
    inputs: usize,
    /// `[outputs, inputs]`.
    codes: Vec<i8>,
    /// `[outputs, inputs / RUN]`.
    scales: Vec<Scale>,
}

/// How a type of ggml stores a run.
struct Format {
    dtype: GgmlDType,
    /// Of a run in the file.
    bytes: usize,
    read: fn(&[u8], &mut [i8; RUN]) -> Scale,
}

/// Types whose numbers are one code, one factor and one offset a run; the others are dequantised at load.
const FORMATS: [Format; 5] = [
    Format {
        dtype: GgmlDType::Q4_0,
        bytes: 18,
        read: |block, codes| {
            halves(&block[2..], |_| 0, -8, codes);
            factor(block)
        },
    },
    Format {
        dtype: GgmlDType::Q4_1,
        bytes: 20,
        read: |block, codes| {
            halves(&block[4..], |_| 0, 0, codes);
            factor_and_offset(block)
        },
    },
    Format {
        dtype: GgmlDType::Q5_0,
        bytes: 22,
        read: |block, codes| {
            halves(&block[6..], fifth_bits(&block[2..6]), -16, codes);
            factor(block)
        },
    },
    Format {
        dtype: GgmlDType::Q5_1,
        bytes: 24,
        read: |block, codes| {
            halves(&block[8..], fifth_bits(&block[4..8]), 0, codes);
            factor_and_offset(block)
        },
    },
    Format {
        dtype: GgmlDType::Q8_0,
        bytes: 34,
        read: |block, codes| {
            for (code, byte) in codes.iter_mut().zip(&block[2..]) {
                *code = byte.cast_signed();
            }
            factor(block)
        },
    },
];

fn half_at(block: &[u8], place: usize) -> f32 {
    f16::from_le_bytes([block[place], block[place + 1]]).to_f32()
}

fn factor(block: &[u8]) -> Scale {
    Scale {
        factor: half_at(block, 0),
        offset: NO_OFFSET,
    }
}

fn factor_and_offset(block: &[u8]) -> Scale {
    Scale {
        factor: half_at(block, 0),
        offset: half_at(block, 2),
    }
}

/// Codes of four bits, the first half of a run in the lower halves of bytes, and their fifth bits.
fn halves(bytes: &[u8], fifth: impl Fn(usize) -> u8, shift: i8, codes: &mut [i8; RUN]) {
    let (low, high) = codes.split_at_mut(RUN / 2);
    for (place, (byte, (low, high))) in bytes.iter().zip(low.iter_mut().zip(high)).enumerate() {
        *low = (byte & 15 | fifth(place) << 4).cast_signed() + shift;
        *high = (byte >> 4 | fifth(place + RUN / 2) << 4).cast_signed() + shift;
    }
}

fn fifth_bits(bytes: &[u8]) -> impl Fn(usize) -> u8 + '_ {
    |place| bytes[place / 8] >> (place % 8) & 1
}

impl Codes {
    /// Whether matrices of `inputs` inputs in this type are kept as codes.
    pub(super) fn are_kept(dtype: GgmlDType, inputs: usize) -> bool {
        inputs.is_multiple_of(RUN) && FORMATS.iter().any(|format| format.dtype == dtype)
    }

    /// From a tensor's bytes in the file; `None` where it is not kept as codes.
    pub(crate) fn read(dtype: GgmlDType, inputs: usize, data: &[u8]) -> Option<Self> {
        let format = FORMATS.iter().find(|format| format.dtype == dtype)?;
        if !Self::are_kept(dtype, inputs) || !data.len().is_multiple_of(format.bytes) {
            return None;
        }
        let blocks = data.chunks_exact(format.bytes);
        let mut codes = vec![0; blocks.len() * RUN];
        let scales = blocks
            .zip(codes.as_chunks_mut().0)
            .map(|(block, codes)| (format.read)(block, codes))
            .collect();
        Some(Self {
            inputs,
            codes,
            scales,
        })
    }

    /// The same matrix with output `source(o)` at every place `o`.
    pub(super) fn with_outputs(&self, source: impl Fn(usize) -> usize) -> Self {
        let order = 0..self.outputs();
        Self {
            inputs: self.inputs,
            codes: order
                .clone()
                .flat_map(|output| self.codes_of(source(output)))
                .copied()
                .collect(),
            scales: order
                .flat_map(|output| self.scales_of(source(output)))
                .copied()
                .collect(),
        }
    }

    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(crate) fn outputs(&self) -> usize {
        self.codes.len() / self.inputs
    }

    /// `[inputs]`.
    pub(crate) fn codes_of(&self, output: usize) -> &[i8] {
        &self.codes[output * self.inputs..][..self.inputs]
    }

    /// `[inputs / RUN]`.
    pub(crate) fn scales_of(&self, output: usize) -> &[Scale] {
        let runs = self.inputs / RUN;
        &self.scales[output * runs..][..runs]
    }

    /// `[outputs, inputs]` in f32.
    pub(crate) fn numbers(&self) -> candle_core::Result<Tensor> {
        let runs = self.codes.chunks_exact(RUN).zip(&self.scales);
        let numbers = runs.flat_map(|(codes, scale)| {
            let number = |code: &i8| f32::from(*code) * scale.factor + scale.offset;
            codes.iter().map(number)
        });
        let shape = (self.outputs(), self.inputs);
        Tensor::from_vec(numbers.collect(), shape, &Device::Cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::quantized::{QStorage, QTensor};
    use rand::{RngCore, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::borrow::Cow;

    /// Blocks of any bytes: infinite, subnormal and negative factors are among them.
    #[test]
    fn codes_stand_for_the_numbers_that_candle_dequantises() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for format in &FORMATS {
            let (outputs, inputs) = (600, 64);
            let mut data = vec![0; outputs * inputs / RUN * format.bytes];
            random.fill_bytes(&mut data);
            let storage =
                QStorage::from_data(Cow::Borrowed(&data), &Device::Cpu, format.dtype).unwrap();
            let tensor = QTensor::new(storage, (outputs, inputs)).unwrap();
            let flat = |tensor: Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let wanted = flat(tensor.dequantize(&Device::Cpu).unwrap());
            let codes = Codes::read(format.dtype, inputs, &tensor.data().unwrap()).unwrap();
            assert_eq!((codes.inputs(), codes.outputs()), (inputs, outputs));
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let got = flat(codes.numbers().unwrap());
            assert!(got.iter().zip(&wanted).all(same), "{:?}", format.dtype);
            let turned = codes.with_outputs(|output| outputs - 1 - output);
            let turned = flat(turned.numbers().unwrap());
            let turned = turned.chunks_exact(inputs).rev().flatten();
            assert!(turned.zip(&wanted).all(same), "{:?}", format.dtype);
        }
    }
}
