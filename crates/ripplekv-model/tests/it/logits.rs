//! Logits against transformers: three tiny random llamas in three number formats, and SmolLM2-135M from its GGUF file.
//! Fixtures by tools/make_model_fixtures.py.

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use ripplekv_cache::{CompressedCache, Needs};
use ripplekv_model::catalog::{self, ModelFiles, ModelReference};
use ripplekv_model::home::Home;
use ripplekv_model::{DecodeRow, Decoder, load_decoder, open_weights};

use crate::support::fixture;

const TINY: [&str; 3] = [
    "tiny-plain-f32",
    "tiny-llama3-rope-bf16-sharded",
    "tiny-wide-head-f16",
];

fn tensors(name: &str) -> HashMap<String, Tensor> {
    let path = fixture("logits").join(format!("{name}.safetensors"));
    candle_core::safetensors::load(path, &Device::Cpu).unwrap()
}

fn ids(tensor: &Tensor) -> Vec<u32> {
    let wide = tensor.to_vec1::<i64>().unwrap();
    wide.into_iter().map(|id| id as u32).collect()
}

fn worst(left: &Tensor, right: &Tensor) -> f32 {
    let difference = (left - right).unwrap().abs().unwrap();
    difference.max_all().unwrap().to_scalar().unwrap()
}

fn best(logits: &Tensor) -> u32 {
    logits.argmax(0).unwrap().to_scalar::<u32>().unwrap()
}

/// Logits of every position from one prefill of one token and steps from there.
fn stepwise(decoder: &dyn Decoder, ids: &[u32]) -> Vec<Tensor> {
    let prefill = decoder
        .prefill(&ids[..1], Needs::default(), &mut |_, _| ())
        .unwrap();
    let cache = Arc::new(CompressedCache::full(&prefill.snapshot));
    let mut row = DecodeRow::new(cache);
    let mut all = vec![prefill.logits];
    for &id in &ids[1..] {
        all.extend(decoder.step(&mut [&mut row], &[id]).unwrap());
    }
    all
}

fn greedy(decoder: &dyn Decoder, prompt: &[u32], count: usize) -> Vec<u32> {
    let prefill = decoder
        .prefill(prompt, Needs::default(), &mut |_, _| ())
        .unwrap();
    let cache = Arc::new(CompressedCache::full(&prefill.snapshot));
    let mut row = DecodeRow::new(cache);
    let mut generated = vec![best(&prefill.logits)];
    while generated.len() < count {
        let last = generated[generated.len() - 1];
        let logits = decoder.step(&mut [&mut row], &[last]).unwrap();
        generated.push(best(&logits[0]));
    }
    generated
}

#[test]
fn tiny_models_equal_transformers() {
    for name in TINY {
        let weights = open_weights(&fixture(name)).unwrap();
        let decoder = load_decoder(weights.as_ref(), DType::F32, &Device::Cpu).unwrap();
        let expected = tensors(name);
        let input = ids(&expected["input_ids"]);
        for length in [1, 7, input.len()] {
            let got = decoder
                .prefill(&input[..length], Needs::default(), &mut |_, _| ())
                .unwrap();
            let wanted = expected["logits"].get(length - 1).unwrap();
            assert!(worst(&got.logits, &wanted) < 1e-4, "{name} at {length}");
        }
        for (position, logits) in stepwise(decoder.as_ref(), &input).iter().enumerate() {
            let difference = worst(logits, &expected["logits"].get(position).unwrap());
            assert!(difference < 1e-4, "{name} at {position}: {difference}");
        }
        let wanted = ids(&expected["greedy_ids"]);
        assert_eq!(
            greedy(decoder.as_ref(), &input, wanted.len()),
            wanted,
            "{name}"
        );
    }
}

fn smollm2() -> Box<dyn Decoder> {
    let home = Home::from_environment().unwrap();
    let reference = ModelReference::Named("smollm2-135m-instruct-q4".to_owned());
    let ModelFiles::Gguf(path) = catalog::resolve(&reference, &home).unwrap() else {
        panic!("not a GGUF file");
    };
    let weights = open_weights(&path).unwrap();
    load_decoder(weights.as_ref(), DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn smollm2_equals_transformers_on_the_same_file() {
    let decoder = smollm2();
    let expected = tensors("smollm2-q4");
    let prompt = ids(&expected["prompt_ids"]);
    assert_eq!(prompt.len(), 1000);
    let prefill = decoder
        .prefill(&prompt, Needs::default(), &mut |_, _| ())
        .unwrap();
    let difference = worst(&prefill.logits, &expected["last_logits"]);
    println!("worst difference of the last logits: {difference}");
    assert!(difference < 2e-3, "{difference}");
    let vocabulary = Tensor::new(ids(&expected["vocab_ids"]), &Device::Cpu).unwrap();
    for (index, position) in ids(&expected["positions"]).into_iter().enumerate() {
        let part = &prompt[..=position as usize];
        let got = decoder
            .prefill(part, Needs::default(), &mut |_, _| ())
            .unwrap()
            .logits;
        let got = got.index_select(&vocabulary, 0).unwrap();
        let difference = worst(&got, &expected["logits"].get(index).unwrap());
        assert!(difference < 2e-3, "position {position}: {difference}");
    }
    let wanted = ids(&expected["continuation_ids"]);
    assert_eq!(greedy(decoder.as_ref(), &prompt, wanted.len()), wanted);
}
