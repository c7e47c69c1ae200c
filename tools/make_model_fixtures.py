"""Golden logits from transformers: the pip-packaged SmolLM2 file and three tiny random llamas.

    python -m pip install -r tools/requirements.txt
    python tools/make_model_fixtures.py

Writes crates/ripplekv-model/tests/fixtures/{tiny-*,logits}. Everything is f32 on the CPU and
follows from the seeds below; the texts are our own.
"""

import json
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from fixture_common import MODEL_FIXTURES, smollm2_folder
from own_texts import LOGBOOK, TRAINING_TEXTS

# Beside the model folders, not in them: a folder holds what a published one holds.
LOGITS = MODEL_FIXTURES / "logits"

PROMPT_TOKENS = 1000
CONTINUATION_TOKENS = 64
# Positions whose logits are stored for every VOCAB_STRIDE-th token (the last position is stored whole).
CHECKED_POSITIONS = [0, 1, 63, 255, 256, 511, 777, 998]
VOCAB_STRIDE = 24
# Below this gap between the best two tokens another summation order may choose the other one.
SMALLEST_SAFE_MARGIN = 0.01

TINY_TOKENS = 50
TINY_VOCAB = 320


def versions() -> dict:
    return {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


@torch.no_grad()
def smollm2():
    with tempfile.TemporaryDirectory() as temporary:
        folder, name = smollm2_folder(temporary)
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    ids = tokenizer(LOGBOOK, add_special_tokens=False)["input_ids"]
    if len(ids) < PROMPT_TOKENS:
        raise SystemExit(f"the text has only {len(ids)} tokens")
    ids = ids[:PROMPT_TOKENS]

    output = model(torch.tensor([ids]), use_cache=True)
    prompt_logits = output.logits[0]
    logits, cache = prompt_logits[-1], output.past_key_values
    continuation, margins = [], []
    for _ in range(CONTINUATION_TOKENS):
        best = torch.topk(logits, 2)
        margins.append((best.values[0] - best.values[1]).item())
        continuation.append(best.indices[0].item())
        output = model(torch.tensor([[continuation[-1]]]), past_key_values=cache, use_cache=True)
        logits, cache = output.logits[0, -1], output.past_key_values
    if min(margins) < SMALLEST_SAFE_MARGIN:
        raise SystemExit(f"smallest margin {min(margins)}: choose another prompt")

    vocab_ids = torch.arange(0, prompt_logits.shape[1], VOCAB_STRIDE)
    save_file(
        {
            "prompt_ids": torch.tensor(ids),
            "continuation_ids": torch.tensor(continuation),
            "last_logits": prompt_logits[-1].contiguous(),
            "positions": torch.tensor(CHECKED_POSITIONS),
            "vocab_ids": vocab_ids,
            "logits": prompt_logits[CHECKED_POSITIONS][:, vocab_ids].contiguous(),
        },
        LOGITS / "smollm2-q4.safetensors",
    )
    write_json(
        LOGITS / "smollm2-q4.json",
        {
            "made_by": versions(),
            "prompt_text": tokenizer.decode(ids, clean_up_tokenization_spaces=False),
            "continuation_text": tokenizer.decode(continuation, clean_up_tokenization_spaces=False),
            "smallest_margin": min(margins),
        },
    )
    print("smollm2-q4: margin", min(margins), repr(tokenizer.decode(continuation)))


TINY = {
    # name: (config, dtype, bytes a shard may have, write the config as it was before transformers 5)
    "tiny-plain-f32": (
        dict(num_hidden_layers=2, intermediate_size=72, tie_word_embeddings=True, rope_theta=10000.0),
        torch.float32,
        "1GB",
    ),
    "tiny-llama3-rope-bf16-sharded": (
        dict(
            num_hidden_layers=3,
            intermediate_size=112,
            tie_word_embeddings=False,
            rope_theta=10000.0,
            rope_scaling=dict(
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ),
        torch.bfloat16,
        "120KB",
    ),
    "tiny-wide-head-f16": (
        dict(
            num_hidden_layers=2, intermediate_size=128, tie_word_embeddings=False, rope_theta=500000.0, head_dim=32
        ),
        torch.float16,
        "1GB",
    ),
}


@torch.no_grad()
def tiny(name: str, seed: int):
    settings, dtype, shard = TINY[name]
    out = MODEL_FIXTURES / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    rope = {"rope_type": "default", **settings.get("rope_scaling", {}), "rope_theta": settings["rope_theta"]}
    config = LlamaConfig(
        vocab_size=TINY_VOCAB,
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
        bos_token_id=0,
        eos_token_id=1,
        rope_parameters=rope,
        **{k: v for k, v in settings.items() if k not in ("rope_scaling", "rope_theta")},
    )
    model = LlamaForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(seed)
    # Larger than a trained model's first weights, so that attention is far from uniform and the
    # logits spread over several units.
    for key, weight in sorted(model.named_parameters()):
        noise = torch.randn(weight.shape, generator=generator)
        weight.copy_(1 + 0.1 * noise if "norm" in key else (noise if "embed" in key else 0.2 * noise))
    model.to(dtype).save_pretrained(out, max_shard_size=shard)

    # Published folders still write rope_theta and rope_scaling, transformers 5 itself rope_parameters:
    # the plain model keeps the new form, the others the old one.
    if name != "tiny-plain-f32":
        stored = json.loads((out / "config.json").read_text())
        stored.pop("rope_parameters", None)
        stored["rope_theta"] = settings["rope_theta"]
        stored["rope_scaling"] = settings.get("rope_scaling")
        stored["torch_dtype"] = stored.pop("dtype")
        (out / "config.json").write_text(json.dumps(stored, indent=2, sort_keys=True) + "\n")
    (out / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": [1, 2]}) + "\n")
    tiny_tokenizer(out)

    model = LlamaForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    ids = torch.randint(3, TINY_VOCAB, (1, TINY_TOKENS), generator=generator)
    logits = model(ids).logits[0]
    greedy = model.generate(
        ids, max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0, bos_token_id=None
    )[0, TINY_TOKENS:]
    save_file(
        {"input_ids": ids[0].clone(), "logits": logits.contiguous(), "greedy_ids": greedy.clone()},
        LOGITS / f"{name}.safetensors",
    )
    print(name, "logits", logits.min().item(), logits.max().item(), "greedy", greedy.tolist())


def tiny_tokenizer(out):
    """A byte-level tokenizer of exactly the tiny models' vocabulary, so the folder is complete."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TINY_VOCAB,
        special_tokens=["<s>", "</s>", "<|eot|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAINING_TEXTS, trainer)
    assert tokenizer.get_vocab_size() == TINY_VOCAB
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    write_json(
        out / "tokenizer_config.json",
        {"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"},
    )


if __name__ == "__main__":
    torch.set_num_threads(2)
    transformers.logging.disable_progress_bar()
    LOGITS.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(TINY):
        tiny(name, seed=1000 + seed)
    smollm2()
