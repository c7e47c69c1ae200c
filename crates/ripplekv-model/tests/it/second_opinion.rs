//! A second opinion besides transformers: candle-transformers' own llama on the same files.

use candle_core::{DType, Device, Tensor};
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use ripplekv_cache::Needs;
use ripplekv_model::{load_decoder, open_weights};

use crate::support::fixture;

#[test]
fn candle_transformers_agrees() {
    // the third tiny model has heads wider than hidden / heads, which candle-transformers does not load
    for (name, files) in [
        ("tiny-plain-f32", vec!["model.safetensors"]),
        (
            "tiny-llama3-rope-bf16-sharded",
            vec![
                "model-00001-of-00003.safetensors",
                "model-00002-of-00003.safetensors",
                "model-00003-of-00003.safetensors",
            ],
        ),
    ] {
        let folder = fixture(name);
        let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
        let config: LlamaConfig = serde_json::from_str(&text).unwrap();
        let config = config.into_config(false);
        let mut tensors = std::collections::HashMap::new();
        for file in files {
            tensors
                .extend(candle_core::safetensors::load(folder.join(file), &Device::Cpu).unwrap());
        }
        let builder = candle_nn::VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        let theirs = Llama::load(builder, &config).unwrap();
        let weights = open_weights(&folder).unwrap();
        let ours = load_decoder(weights.as_ref(), DType::F32, &Device::Cpu).unwrap();
        for length in [1usize, 40, 300] {
            let ids: Vec<u32> = (0..length as u32).map(|i| (i * 37 + 11) % 320).collect();
            let mut cache = Cache::new(true, DType::F32, &config, &Device::Cpu).unwrap();
            let input = Tensor::new(ids.as_slice(), &Device::Cpu)
                .unwrap()
                .unsqueeze(0)
                .unwrap();
            let expected = theirs
                .forward(&input, 0, &mut cache)
                .unwrap()
                .squeeze(0)
                .unwrap();
            let got = ours
                .prefill(&ids, Needs::default(), &mut |_, _| ())
                .unwrap()
                .logits;
            let difference = (got - expected).unwrap().abs().unwrap();
            let worst = difference.max_all().unwrap().to_scalar::<f32>().unwrap();
            assert!(worst < 1e-4, "{name}, {length} tokens: {worst}");
        }
    }
}
