//! Weights kept as the file has them give the bits of the same weights in f32, in every pass, from a fraction of the bytes.

use std::fs::File;
use std::path::Path;

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ripplekv_model::{Matrix, ModelConfig, ModelError, Weights, load_decoder, open_weights};

use crate::shapes::everything;
use crate::tiny;

const HIDDEN: usize = 64;
const INNER: usize = 96;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const VOCABULARY: usize = 97;
const LAYERS: usize = 2;
const CONTEXT: usize = 256;

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

/// Bytes of a matrix as it is kept, a factor and an offset for every 32 codes.
fn bytes(matrix: &Matrix, shape: [usize; 2]) -> u64 {
    let numbers = (shape[0] * shape[1]) as u64;
    match matrix {
        Matrix::Codes(_) => numbers + numbers / 32 * 8,
        Matrix::Numbers(tensor) => numbers * tensor.dtype().size_in_bytes() as u64,
    }
}

/// Bytes of all matrices of a model, as [`Weights::matrix`] gives them, and of the norms in f32.
fn all_bytes(weights: &dyn Weights) -> u64 {
    let config = weights.config();
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let (query, key_value) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let mut matrices = vec![(
        "model.embed_tokens.weight".to_owned(),
        [config.vocab_size, hidden],
    )];
    if !config.tied_head {
        matrices.push(("lm_head.weight".to_owned(), [config.vocab_size, hidden]));
    }
    for layer in 0..config.layers {
        for (part, shape) in [
            ("self_attn.q_proj", [query, hidden]),
            ("self_attn.k_proj", [key_value, hidden]),
            ("self_attn.v_proj", [key_value, hidden]),
            ("self_attn.o_proj", [hidden, query]),
            ("mlp.gate_proj", [inner, hidden]),
            ("mlp.up_proj", [inner, hidden]),
            ("mlp.down_proj", [hidden, inner]),
        ] {
            matrices.push((format!("model.layers.{layer}.{part}.weight"), shape));
        }
    }
    let of_matrices: u64 = matrices
        .iter()
        .map(|(name, shape)| {
            let matrix = weights.matrix(name, *shape, DType::F32, &Device::Cpu);
            bytes(&matrix.unwrap(), *shape)
        })
        .sum();
    of_matrices + ((2 * config.layers + 1) * hidden * size_of::<f32>()) as u64
}

fn compare(path: &Path) -> u64 {
    let kept = open_weights(path).unwrap();
    let plain = Plain(open_weights(path).unwrap());
    let ids = tiny::ids(11, 60, kept.config().vocab_size);
    let bits = |weights: &dyn Weights| {
        let decoder = load_decoder(weights, DType::F32, &Device::Cpu).unwrap();
        everything(decoder.as_ref(), &ids, 50)
    };
    assert!(bits(kept.as_ref()) == bits(&plain), "{}", path.display());
    all_bytes(kept.as_ref())
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
        assert_eq!(open_weights(&path).unwrap().kept_bytes(DType::F32), kept);
        assert!(kept < parameters(&path) * 13 / 10, "{dtype:?}: {kept}");
    }
    // queries, keys and values in forms that differ, an own head, f16 and bf16 among them
    let mixed = [
        &simple[..],
        &[GgmlDType::F16, GgmlDType::BF16, GgmlDType::F32],
    ]
    .concat();
    for types in [&mixed[..], &[GgmlDType::F16], &[GgmlDType::BF16]] {
        for tied in [true, false] {
            write_gguf(&path, types, tied);
            let kept = compare(&path);
            assert_eq!(open_weights(&path).unwrap().kept_bytes(DType::F32), kept);
        }
    }
    // asked for 16 bits, that is what they are rounded to
    let weights = open_weights(&path).unwrap();
    assert_eq!(weights.kept_bytes(DType::F16), {
        let norms = (2 * LAYERS as u64 + 1) * HIDDEN as u64;
        2 * parameters(&path) + 2 * norms
    });
}

#[test]
fn folders_of_16_bits_give_the_bits_of_their_numbers() {
    for (name, size) in [
        ("tiny-plain-f32", 4),
        ("tiny-wide-head-f16", 2),
        ("tiny-llama3-rope-bf16-sharded", 2),
    ] {
        let folder = tiny::folder(name);
        compare(&folder);
        let weights = open_weights(&folder).unwrap();
        let all = weights.config().parameters();
        assert_eq!(weights.kept_bytes(DType::F32), all * size, "{name}");
        assert_eq!(weights.kept_bytes(DType::F16), all * 2, "{name}");
    }
}
