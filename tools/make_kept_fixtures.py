"""Kept sets and scores of kvpress 0.5.5 on the tiny random llamas of the model crate's fixtures.

    python -m pip install -r tools/requirements.txt kvpress==0.5.5
    python tools/make_kept_fixtures.py OUT.json [MODEL_FIXTURES_FOLDER]

Runs kvpress itself: its presses are hung on transformers' model, the prompt goes through once, and the kept
positions are read off the cache it leaves, by finding every remaining key (and value) in the uncompressed cache.
Nothing of its selection is repeated here. kvpress has no h2o: its sets are worked out here from the attention that
transformers gives. Everything is f32 on the CPU and follows from the seeds below.

A kept set can only be compared where summation order cannot change it, so seeds are tried in order until the last
kept and the first dropped score differ by at least SMALLEST_SAFE_GAP of their size in every layer, head and budget;
the same selection is then made once more in f64 and must agree.
"""

import json
import pathlib
import sys

import kvpress
import torch
import transformers
from kvpress import KeyDiffPress, KnormPress, ObservedAttentionPress, SnapKVPress, StreamingLLMPress, TOVAPress
from transformers import DynamicCache, LlamaForCausalLM

from importlib.metadata import version

PROMPT_TOKENS = 200
KEPT_TOKENS = [100, 80, 64, 65]
MODELS = ["tiny-plain-f32", "tiny-llama3-rope-bf16-sharded", "tiny-wide-head-f16"]
# Relative gap between the last kept and the first dropped score; f32 summation order moves a score by about 1e-7.
SMALLEST_SAFE_GAP = 2e-5
FIRST_SEED = 20261129


def ratio_for(kept: int, prompt_tokens: int) -> float:
    """A compression ratio for which kvpress' own `int(n * (1 - ratio))` is `kept`."""
    ratio = 1 - (kept + 0.5) / prompt_tokens
    assert kvpress.utils.compute_n_kept(prompt_tokens, ratio) == kept
    return ratio


@torch.no_grad()
def cache_of(model, ids, press=None):
    cache = DynamicCache()
    batch = torch.tensor([ids])
    if press is None:
        model.model(batch, past_key_values=cache)
    else:
        with press(model):
            model.model(batch, past_key_values=cache)
    return [(layer.keys[0], layer.values[0]) for layer in cache.layers]


def kept_positions(full, pressed):
    """Per layer and KV head the ascending positions of the entries that are left."""
    result = []
    for (keys, values), (left_keys, left_values) in zip(full, pressed, strict=True):
        heads = []
        for head in range(keys.shape[0]):
            same = (left_keys[head][:, None] == keys[head][None]).all(-1)
            same &= (left_values[head][:, None] == values[head][None]).all(-1)
            assert (same.sum(-1) == 1).all(), "an entry of the pressed cache is not exactly one of the prompt's"
            positions = same.float().argmax(-1).tolist()
            assert len(set(positions)) == len(positions)
            heads.append(sorted(positions))
        result.append(heads)
    return result


def recorded(kind):
    """A press that also shows its scores."""

    class Recorded(kind):
        def score(self, module, *arguments, **named):
            scores = super().score(module, *arguments, **named)
            self.seen[module.layer_idx] = scores[0]
            return scores

    return Recorded


def pressed_with_scores(model, ids, kind, kept, **options):
    press = recorded(kind)(compression_ratio=ratio_for(kept, len(ids)), **options)
    press.seen = {}
    pressed = cache_of(model, ids, press)
    return pressed, [press.seen[layer] for layer in sorted(press.seen)]


def snapkv(model, ids, kept, window=64, kernel=5):
    return pressed_with_scores(model, ids, SnapKVPress, kept, window_size=window, kernel_size=kernel)


def smallest_gap(scores, kept, window):
    gaps = []
    for layer in scores:
        for row in layer[:, : layer.shape[1] - window]:
            ordered = row.sort(descending=True).values
            wanted = kept - window
            if 0 < wanted < len(ordered):
                gaps.append(((ordered[wanted - 1] - ordered[wanted]) / ordered[wanted].abs()).item())
    return min(gaps, default=float("inf"))


CASES = [  # window, kernel, kept entries a layer and KV head
    *[(64, 5, kept) for kept in KEPT_TOKENS],
    (32, 5, 100),
    (64, 7, 100),
    (1, 1, 50),
]


def snapkv_cases(model, ids):
    full = cache_of(model, ids)
    cases, worst = [], float("inf")
    scores_of = {}
    for window, kernel, kept in CASES:
        pressed, scores = snapkv(model, ids, kept, window, kernel)
        worst = min(worst, smallest_gap(scores, kept, window))
        positions = kept_positions(full, pressed)
        cases.append({"method": "snapkv", "window": window, "kernel": kernel, "kept_tokens": kept, "kept": positions})
        scores_of[(window, kernel)] = scores
    return cases, scores_of, worst


def streaming_cases(model, ids):
    full = cache_of(model, ids)
    cases = []
    for sinks, kept in [*[(4, kept) for kept in KEPT_TOKENS], (4, 5), (0, 20), (16, 40)]:
        press = StreamingLLMPress(compression_ratio=ratio_for(kept, len(ids)), n_sink=sinks)
        positions = kept_positions(full, cache_of(model, ids, press))
        cases.append({"method": "streaming-llm", "sinks": sinks, "kept_tokens": kept, "kept": positions})
    return cases


# Name, press, entries at the end that always stay.
PLAIN_METHODS = [
    ("knorm", KnormPress, 0),
    ("tova", TOVAPress, 1),
    ("keydiff", KeyDiffPress, 0),
    ("observed-attention", ObservedAttentionPress, 0),
]
PLAIN_KEPT_TOKENS = [100, 20, 2]


def plain_cases(model, ids):
    """Methods without parameters."""
    full = cache_of(model, ids)
    cases, worst = [], float("inf")
    for method, kind, always in PLAIN_METHODS:
        for kept in PLAIN_KEPT_TOKENS:
            pressed, scores = pressed_with_scores(model, ids, kind, kept)
            worst = min(worst, smallest_gap(scores, kept, always))
            cases.append({"method": method, "kept_tokens": kept, "kept": kept_positions(full, pressed)})
    return cases, worst


# Window, kept entries a layer and KV head.
H2O_CASES = [(8, 100), (8, 20), (8, 9), (8, 8), (32, 64)]


@torch.no_grad()
def h2o_cases(model, ids):
    """Attention summed over all queries, mean over the query group: the best before the window, and the window."""
    attentions = model.model(torch.tensor([ids]), output_attentions=True).attentions
    group = model.config.num_attention_heads // model.config.num_key_value_heads
    scores = [layer[0].sum(1).unflatten(0, (-1, group)).mean(1) for layer in attentions]
    cases, worst = [], float("inf")
    for window, kept in H2O_CASES:
        prefix = len(ids) - window
        positions = [
            [sorted(row[:prefix].topk(kept - window).indices.tolist()) + list(range(prefix, len(ids))) for row in layer]
            for layer in scores
        ]
        worst = min(worst, smallest_gap(scores, kept, window))
        cases.append({"method": "h2o", "window": window, "kept_tokens": kept, "kept": positions})
    return cases, worst


def fixture(folder):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for seed in range(FIRST_SEED, FIRST_SEED + 200):
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, model.config.vocab_size, (PROMPT_TOKENS,), generator=generator).tolist()
        cases, scores, snapkv_gap = snapkv_cases(model, ids)
        plain, plain_gap = plain_cases(model, ids)
        h2o, h2o_gap = h2o_cases(model, ids)
        gap = min(snapkv_gap, plain_gap, h2o_gap)
        if gap >= SMALLEST_SAFE_GAP:
            break
    else:
        raise SystemExit(f"{folder}: no seed with a gap of {SMALLEST_SAFE_GAP}")
    double = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    exact = snapkv_cases(double, ids)[0] + plain_cases(double, ids)[0] + h2o_cases(double, ids)[0]
    assert [case["kept"] for case in exact] == [case["kept"] for case in cases + plain + h2o], "f64 keeps other entries"
    stored = [
        {
            "window": window,
            "kernel": kernel,
            # positions before the window, per layer and KV head
            "values": [[[float(f"{v:.9g}") for v in row[: PROMPT_TOKENS - window].tolist()] for row in layer] for layer in per_layer],
        }
        for (window, kernel), per_layer in scores.items()
        if (window, kernel) in [(64, 5), (32, 5)]
    ]
    return {
        "model": folder.name,
        "seed": seed,
        "ids": ids,
        "smallest_relative_gap": gap,
        "cases": cases + plain + h2o + streaming_cases(model, ids),
        "scores": stored,
    }


def main():
    transformers.utils.logging.disable_progress_bar()
    out = pathlib.Path(sys.argv[1])
    root = pathlib.Path(
        sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent / "crates/ripplekv-model/tests/fixtures"
    )
    result = {
        "made_by": {
            "torch": torch.__version__.split("+")[0],
            "transformers": transformers.__version__,
            "kvpress": version("kvpress"),
        },
        "prompts": [fixture(root / name) for name in MODELS],
    }
    out.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    for prompt in result["prompts"]:
        print(prompt["model"], "seed", prompt["seed"], "gap", prompt["smallest_relative_gap"], "cases", len(prompt["cases"]))


if __name__ == "__main__":
    main()
