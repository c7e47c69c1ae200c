//! Weights kept as the file has them give the bits of the same weights in f32, in every pass, from a fraction of the bytes.

use std::fs::File;
use std::path::Path;

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ripplekv_model::{ModelConfig, ModelError, Weights, kept_bytes, load_decoder, open_weights};

use crate::shapes::everything;
use crate::tiny;

const HIDDEN: usize = 64;
const INNER: usize = 96;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const VOCABULARY: usize = 97;
const LAYERS: usize = 2;
const CONTEXT: usize = 512;

/// Weights that are always kept in the number format asked for.
struct Plain(Box<dyn Weights>);

impl Weights for Plain {
    fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor, ModelError> {
        self.0.tensor(name, shape, dtype, device)
    }

    fn config(&self) -> &ModelConfig {
        self.0.config()
    }

    fn hash(&self) -> Result<String, ModelError> {
        self.0.hash()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A llama of random weights whose tensors take the types in turn.
fn write_gguf(path: &Path, types: &[GgmlDType], tied: bool) {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut tensors: Vec<(String, QTensor)> = Vec::new();
    let mut add = |name: String, shape: &[usize], dtype: GgmlDType| {
        let numbers: Vec<f32> = (0..shape.iter().product())
            .map(|_| random.random_range(-0.2f32..0.2))
            .collect();
        let tensor = Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap();
        tensors.push((name, QTensor::quantize(&tensor, dtype).unwrap()));
    };
    let mut turn = types.iter().cycle();
    let mut next = || *turn.next().unwrap();
    add("token_embd.weight".into(), &[VOCABULARY, HIDDEN], next());
    if !tied {
        add("output.weight".into(), &[VOCABULARY, HIDDEN], next());
    }
    add("output_norm.weight".into(), &[HIDDEN], GgmlDType::F32);
    let key_value = HIDDEN / HEADS * KV_HEADS;
    for layer in 0..LAYERS {
        for (part, shape) in [
            ("attn_norm", &[HIDDEN][..]),
            ("ffn_norm", &[HIDDEN]),
            ("attn_q", &[HIDDEN, HIDDEN]),
            ("attn_k", &[key_value, HIDDEN]),
            ("attn_v", &[key_value, HIDDEN]),
            ("attn_output", &[HIDDEN, HIDDEN]),
            ("ffn_gate", &[INNER, HIDDEN]),
            ("ffn_up", &[INNER, HIDDEN]),
            ("ffn_down", &[HIDDEN, INNER]),
        ] {
            let dtype = if shape.len() == 1 {
                GgmlDType::F32
            } else {
                next()
            };
            add(format!("blk.{layer}.{part}.weight"), shape, dtype);
        }
    }
    let number = |value: usize| Value::U32(value as u32);
    let metadata = [
        ("general.architecture", Value::String("llama".to_owned())),
        ("llama.attention.head_count", number(HEADS)),
        ("llama.attention.head_count_kv", number(KV_HEADS)),
        ("llama.embedding_length", number(HIDDEN)),
        ("llama.feed_forward_length", number(INNER)),
        ("llama.block_count", number(LAYERS)),
        ("llama.context_length", number(CONTEXT)),
        ("llama.vocab_size", number(VOCABULARY)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

/// Everything as with the numbers in f32; gives the bytes that the weights took, which were told before.
fn compare(path: &Path) -> u64 {
    let kept = open_weights(path).unwrap();
    let plain = Plain(open_weights(path).unwrap());
    let ids = tiny::ids(11, 310, kept.config().vocab_size);
    let run = |weights: &dyn Weights| {
        let decoder = load_decoder(weights, DType::F32, &Device::Cpu).unwrap();
        let told = kept_bytes(weights, DType::F32).unwrap();
        assert_eq!(decoder.weight_bytes(), told, "{}", path.display());
        // prompts on both sides of where a pass makes f32 of a whole layer
        let bits = [50, 300].map(|n| everything(decoder.as_ref(), &ids[..n + 10], n));
        (bits, told)
    };
    let (bits, bytes) = run(kept.as_ref());
    assert!(bits == run(&plain).0, "{}", path.display());
    bytes
}

#[test]
fn quantised_weights_give_the_bits_of_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let simple = [
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
    ];
    let parameters = |path: &Path| open_weights(path).unwrap().config().parameters();
    for dtype in simple {
        write_gguf(&path, &[dtype], true);
        let kept = compare(&path);
        // 10 bits a number, and outputs filled up to whole panels
        assert!(kept < parameters(&path) * 14 / 10, "{dtype:?}: {kept}");
    }
    // parts of one product in forms that differ, an own head, f16 and bf16 among them
    let mixed = [
        &simple[..],
        &[GgmlDType::F16, GgmlDType::BF16, GgmlDType::F32],
    ]
    .concat();
    for types in [&mixed[..], &[GgmlDType::F16], &[GgmlDType::BF16]] {
        for tied in [true, false] {
            write_gguf(&path, types, tied);
            compare(&path);
        }
    }
    // asked for 16 bits, that is what they are rounded to
    write_gguf(&path, &mixed, false);
    let weights = open_weights(&path).unwrap();
    for dtype in [DType::F16, DType::BF16] {
        let decoder = load_decoder(weights.as_ref(), dtype, &Device::Cpu).unwrap();
        let told = kept_bytes(weights.as_ref(), dtype).unwrap();
        assert_eq!(decoder.weight_bytes(), told);
        assert!(told < parameters(&path) * 24 / 10, "{told}");
    }
}

#[test]
fn folders_of_16_bits_give_the_bits_of_their_numbers() {
    for (name, size) in [
        ("tiny-plain-f32", 4),
        ("tiny-wide-head-f16", 2),
        ("tiny-llama3-rope-bf16-sharded", 2),
    ] {
        let folder = tiny::folder(name);
        let kept = compare(&folder);
        let weights = open_weights(&folder).unwrap();
        let all = weights.config().weight_bytes(DType::F32);
        // norms are few, outputs fill their panels
        assert!(
            kept.abs_diff(all * size / 4) < all / 40,
            "{name}: {kept} of {all}"
        );
    }
}
