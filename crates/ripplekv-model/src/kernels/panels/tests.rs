//! Products in every form of weights against f64 and against each other, to the bit.

use super::*;
use crate::weights::Codes;
use candle_core::Device;
use candle_core::quantized::GgmlDType;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn random(rows: usize, columns: usize) -> Tensor {
    Tensor::randn(0f32, 1.0, (rows, columns), &Device::Cpu).unwrap()
}

fn product(panels: &Panels, states: &[f32], width: usize) -> Vec<f32> {
    let mut rows = Rows::default();
    rows.set(states, width);
    let mut here = vec![0.0; rows.len() * panels.outputs];
    panels.multiply_here(&rows, &mut here);
    let (mut blocks, mut out) = (Vec::new(), Vec::new());
    panels.multiply(&rows, &mut blocks, &mut out);
    assert_eq!(here, out);
    out
}

#[test]
fn rows_are_the_same_alone_and_in_company_and_right() {
    for (inputs, outputs) in [(64, 48), (72, 320), (5, 1), (576, 33), (1540, 20)] {
        let weight = random(outputs, inputs);
        let split = outputs / 3;
        let parts = [
            weight.narrow(0, 0, split).unwrap(),
            weight.narrow(0, split, outputs - split).unwrap(),
        ];
        let panels = Panels::of_numbers(&parts).unwrap();
        let states = random(11, inputs);
        let wide = |tensor: &Tensor| tensor.to_dtype(DType::F64).unwrap();
        let exact = wide(&states).matmul(&wide(&weight).t().unwrap()).unwrap();
        let exact = exact.flatten_all().unwrap().to_vec1::<f64>().unwrap();
        let states = states.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let together = product(&panels, &states, inputs);
        let worst = together.iter().zip(&exact);
        let worst = worst.map(|(got, exact)| (f64::from(*got) - exact).abs());
        let worst = worst.fold(0.0, f64::max);
        assert!(worst < 2e-4, "{inputs} x {outputs}: {worst}");
        for count in 1..=11 {
            let part = product(&panels, &states[..count * inputs], inputs);
            assert_eq!(part, together[..count * outputs]);
        }
    }
}

#[test]
fn half_precision_weights_give_the_bits_of_their_f32_values() {
    let states = random(7, 530).flatten_all().unwrap();
    let states = states.to_vec1::<f32>().unwrap();
    for dtype in [DType::F16, DType::BF16] {
        let weight = random(35, 530).to_dtype(dtype).unwrap();
        let narrow = Panels::of_numbers(std::slice::from_ref(&weight)).unwrap();
        let wide = Panels::of_numbers(&[weight.to_dtype(DType::F32).unwrap()]).unwrap();
        same(&narrow, &wide, &states, 530);
    }
}

/// One form of a weight does what another does, to the bit.
fn same(narrow: &Panels, wide: &Panels, states: &[f32], inputs: usize) {
    let mut room = Panels::default();
    let made = narrow.in_f32(&mut room);
    assert!(matches!(made.store, Store::F32(_)));
    for rows in 1..=states.len() / inputs {
        let states = &states[..rows * inputs];
        let wanted = product(wide, states, inputs);
        for other in [narrow, made] {
            assert!(bits(&product(other, states, inputs)).eq(bits(&wanted)));
        }
    }
    for output in 0..wide.outputs {
        let (mut a, mut b) = (vec![0.0; inputs], vec![0.0; inputs]);
        narrow.read_output(output, &mut a);
        wide.read_output(output, &mut b);
        assert!(bits(&a).eq(bits(&b)));
    }
}

fn bits(values: &[f32]) -> impl Iterator<Item = u32> {
    values.iter().map(|value| value.to_bits())
}

#[test]
fn codes_give_the_bits_of_their_numbers() {
    // one run, a whole number of blocks of inputs, and some of one left over
    for (inputs, outputs) in [(32, 16), (416, 33), (576, 48)] {
        for dtype in [
            GgmlDType::Q4_0,
            GgmlDType::Q4_1,
            GgmlDType::Q5_0,
            GgmlDType::Q5_1,
            GgmlDType::Q8_0,
        ] {
            codes_of(dtype, inputs, outputs);
        }
    }
}

fn codes_of(dtype: GgmlDType, inputs: usize, outputs: usize) {
    let states = random(7, inputs).flatten_all().unwrap();
    let states = states.to_vec1::<f32>().unwrap();
    let codes = [
        made_up(dtype, outputs, inputs, 1),
        made_up(dtype, 20, inputs, 2),
    ];
    let numbers = codes.each_ref().map(|codes| codes.numbers().unwrap());
    let wide = Panels::of_numbers(&numbers).unwrap();
    let coded = codes.each_ref().map(|codes| Matrix::Codes(codes.clone()));
    let narrow = Panels::new(&coded).unwrap();
    assert!(matches!(narrow.store, Store::Coded(_)));
    let bytes = Panels::bytes_in(Form::Codes, outputs + 20, inputs);
    assert_eq!(narrow.bytes(), bytes);
    same(&narrow, &wide, &states, inputs);
    // beside another form they are numbers
    let [first, second] = coded;
    let half = second_half(&second);
    let mixed = Panels::new(&[first, Matrix::Numbers(half.clone())]).unwrap();
    assert!(matches!(mixed.store, Store::F32(_)));
    let both = [numbers[0].clone(), half.to_dtype(DType::F32).unwrap()];
    same(&mixed, &Panels::of_numbers(&both).unwrap(), &states, inputs);
}

fn second_half(weight: &Matrix) -> Tensor {
    match weight {
        Matrix::Codes(codes) => codes.numbers().unwrap().to_dtype(DType::F16).unwrap(),
        Matrix::Numbers(tensor) => tensor.clone(),
    }
}

/// Codes as a file could have them: any codes, factors and offsets of both signs.
fn made_up(dtype: GgmlDType, outputs: usize, inputs: usize, seed: u64) -> Codes {
    let has_offset = matches!(dtype, GgmlDType::Q4_1 | GgmlDType::Q5_1);
    let mut bytes = vec![0; outputs * inputs / RUN * dtype.type_size()];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    for block in bytes.chunks_exact_mut(dtype.type_size()) {
        // the upper half of a number of 16 bits: its sign, an exponent of 2^-7, and the first of its other bits
        for place in [1, 3].into_iter().take(1 + usize::from(has_offset)) {
            block[place] = block[place] & 0x83 | 0x20;
        }
    }
    Codes::read(dtype, inputs, &bytes).unwrap()
}
