"""Speed and memory of the peers (transformers, kvpress, torch) on the very model and prompts that ripplekv runs.

    python -m pip install -r tools/peers/requirements.txt
    python tools/peers/bench_peers.py --out peers.json                        # everything, about 10 minutes
    python tools/peers/bench_peers.py --out peers.json --parts forward --lengths 1024,2048
    python tools/peers/bench_peers.py --out peers.json --parts grid --grid-lengths 4096
    python tools/peers/bench_peers.py --out peers.json --parts attention

Parts (a part that is measured again replaces what the file of --out held of it, the rest stays):
    forward     prefill (logits of the last token alone, as `generate` does) and decode of one row
    grid        the common grid, kvpress one cell at a time: `full`, then 5 methods at 10, 20 and 30%
    attention   torch's scaled_dot_product_attention with this model's shapes

Everything is f32 on the CPU. Each length of `forward` and each grid is a process of its own, so that its peak memory
is its own; the grid's cells share a process and a loaded model, which a user of kvpress' evaluate.py does not get.
Prompts are real LongBench records (`../shared/longbench`, or the folder in RIPPLEKV_SHARED), rendered with the
official prompt and the chat template, and cut in the middle to exactly the length asked for. Their ids are written to
prompts.json in the folder of --work, for `ripplekv bench --prompts`; LongBench texts and ids are never committed.

The document of --out:
    schema       1
    versions     of python, torch, transformers, kvpress
    machine      processor name, logical cores, operating system
    threads      torch threads
    model        file and SHA-256 of the GGUF file; its weights are dequantised to f32 by transformers
    commands     every command that added to this file
    prompts      per length: task and index of the record, SHA-256 of the ids (little-endian u32)
    forward      per length: prefill_seconds (one a repeat; no further repeat after 20 s), prefill_tokens_per_second (of the median),
                 decode_milliseconds (mean step), decode_steps, loaded_rss_bytes, peak_rss_bytes
    grid         per length: new_tokens, cells (method, budget_percent, seconds), seconds (their sum),
                 median_cell_seconds (what one more cell costs), peak_rss_bytes
    attention    per length: seconds (median), gflop_per_second (causal half counted), layout (the faster of grouped
                 heads and repeated heads)
"""

import argparse
import hashlib
import json
import os
import pathlib
import platform
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

PARTS = ["forward", "grid", "attention"]
METHODS = ["streaming-llm", "snapkv", "knorm", "tova", "keydiff"]
BUDGETS = [10, 20, 30]
# One long record a length; any English one that is longer than the cut will do.
RECORDS = {1024: ("multifieldqa_en", 0), 2048: ("gov_report", 3), 4096: ("hotpotqa", 0), 8192: ("musique", 0)}
# A long prompt is not repeated beyond this; its runs differ by little.
REPEAT_UNTIL_SECONDS = 20
QUERY_HEADS, KV_HEADS, HEAD_WIDTH = 9, 3, 64


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


def resident_bytes():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak_bytes():
    # Not getrusage's ru_maxrss: Linux hands a child the peak of the process that started it.
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status has no VmHWM")


# What the parent prepares once.


def prepare_model(work):
    """The GGUF file as an f32 folder, so that no measured process pays (or holds) the conversion."""
    folder = work / "model-f32"
    if (folder / "config.json").exists():
        return
    import torch
    from fixture_common import smollm2_folder
    from make_longbench_fixtures import reference_tokenizer
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        source, name = smollm2_folder(temporary)
        model = AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.float32)
        tokenizer = reference_tokenizer(source, name)
    unfinished = work / "model-f32.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.rename(folder)


def prepare_prompts(work, lengths):
    """Writes prompts.json with every length asked for; keeps lengths it already holds."""
    path = work / "prompts.json"
    held = json.loads(path.read_text())["prompts"] if path.exists() else []
    missing = [tokens for tokens in lengths if tokens not in {prompt["tokens"] for prompt in held}]
    if missing:
        from make_longbench_fixtures import config, prompt_ids, records
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(work / "model-f32")
        templates = config("dataset2prompt.json")
        known = {(task, place): record for task, place, record in records()}
        for tokens in missing:
            task, place = RECORDS.get(tokens, RECORDS[8192])
            ids, _ = prompt_ids(tokenizer, templates[task], task, known[task, place], sys.maxsize)
            if len(ids) < tokens:
                raise SystemExit(f"record {place} of {task} has {len(ids)} tokens, fewer than {tokens}")
            head = tokens // 2
            ids = ids[:head] + ids[len(ids) - (tokens - head) :]
            held.append({"tokens": tokens, "task": task, "index": place, "sha256": digest(ids), "ids": ids})
        held.sort(key=lambda prompt: prompt["tokens"])
        path.write_text(json.dumps({"schema": 1, "prompts": held}) + "\n")
    return [prompt for prompt in held if prompt["tokens"] in lengths]


# What runs in a process of its own, and prints one JSON object.


def load_model(options):
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    model = AutoModelForCausalLM.from_pretrained(options.work / "model-f32", dtype=torch.float32).eval()
    # Every run makes exactly as many tokens as it is asked for.
    model.generation_config.eos_token_id = [-1]
    return torch, model


def load_prompt(options, tokens):
    prompts = json.loads((options.work / "prompts.json").read_text())["prompts"]
    return next(prompt["ids"] for prompt in prompts if prompt["tokens"] == tokens)


def measure_forward(options, tokens):
    torch, model = load_model(options)
    ids = torch.tensor([load_prompt(options, tokens)])
    loaded = resident_bytes()
    seconds, steps = [], []
    with torch.inference_mode():
        model(ids[:, :256], use_cache=True, logits_to_keep=1)
        for _ in range(options.repeats):
            state = None
            started = time.perf_counter()
            state = model(ids, use_cache=True, logits_to_keep=1)
            seconds.append(time.perf_counter() - started)
            if sum(seconds) > REPEAT_UNTIL_SECONDS:
                break
        for _ in range(options.new_tokens):
            token = state.logits[:, -1].argmax(-1, keepdim=True)
            started = time.perf_counter()
            state = model(token, past_key_values=state.past_key_values, use_cache=True)
            steps.append(time.perf_counter() - started)
    return {
        "tokens": tokens,
        "prefill_seconds": seconds,
        "prefill_tokens_per_second": tokens / statistics.median(seconds),
        "decode_milliseconds": 1000 * statistics.fmean(steps),
        "decode_steps": len(steps),
        "loaded_rss_bytes": loaded,
        "peak_rss_bytes": peak_bytes(),
    }


def presses():
    import kvpress

    return {
        "streaming-llm": kvpress.StreamingLLMPress,
        "snapkv": kvpress.SnapKVPress,
        "knorm": kvpress.KnormPress,
        "tova": kvpress.TOVAPress,
        "keydiff": kvpress.KeyDiffPress,
    }


def measure_grid(options, tokens):
    """kvpress' own pipeline: it needs a question of at least one token, which is the prompt's last."""
    torch, model = load_model(options)
    from kvpress import KVPressTextGenerationPipeline
    from transformers import AutoTokenizer

    pipeline = KVPressTextGenerationPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(options.work / "model-f32"))
    kinds = presses()
    ids = torch.tensor([load_prompt(options, tokens)])
    cells = []

    def run(prompt, press, new_tokens):
        inputs = {"context_ids": prompt[:, :-1], "questions_ids": [prompt[:, -1:]]}
        started = time.perf_counter()
        pipeline.forward(inputs, press=press, max_new_tokens=new_tokens)
        return time.perf_counter() - started

    run(ids[:, :256], None, 2)
    for cell in options.cells:
        method, _, budget = cell.partition(":")
        press = kinds[method](compression_ratio=1 - int(budget) / 100) if budget else None
        seconds = run(ids, press, options.new_tokens)
        cells.append({"method": method, "budget_percent": int(budget) if budget else 100, "seconds": seconds})
        print(f"  {cell}: {seconds:.2f} s", file=sys.stderr, flush=True)
    seconds = [cell["seconds"] for cell in cells]
    return {
        "tokens": tokens,
        "new_tokens": options.new_tokens,
        "cells": cells,
        "seconds": sum(seconds),
        "median_cell_seconds": statistics.median(seconds),
        "peak_rss_bytes": peak_bytes(),
    }


def measure_attention(options, tokens):
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    query = torch.randn(1, QUERY_HEADS, tokens, HEAD_WIDTH)
    key, value = (torch.randn(1, KV_HEADS, tokens, HEAD_WIDTH) for _ in range(2))
    group = QUERY_HEADS // KV_HEADS
    repeated = [part.repeat_interleave(group, dim=1) for part in (key, value)]
    attend = torch.nn.functional.scaled_dot_product_attention
    layouts = {
        "grouped": lambda: attend(query, key, value, is_causal=True, enable_gqa=True),
        "repeated": lambda: attend(query, *repeated, is_causal=True),
    }
    best = None
    with torch.inference_mode():
        for layout, call in layouts.items():
            call()
            times = []
            for _ in range(max(options.repeats, 5)):
                started = time.perf_counter()
                call()
                times.append(time.perf_counter() - started)
            seconds = statistics.median(times)
            if best is None or seconds < best["seconds"]:
                best = {"tokens": tokens, "seconds": seconds, "layout": layout}
    # Two products of 2 operations over the causal half.
    operations = 4 * QUERY_HEADS * HEAD_WIDTH * tokens * (tokens + 1) / 2
    return {**best, "gflop_per_second": operations / best["seconds"] / 1e9}


MEASURE = {"forward": measure_forward, "grid": measure_grid, "attention": measure_attention}


# The parent.


def in_own_process(options, part, tokens):
    command = [sys.executable, __file__, "--out", "-", "--child", part, str(tokens), "--work", str(options.work)]
    command += ["--threads", str(options.threads), "--repeats", str(options.repeats)]
    command += ["--new-tokens", str(options.new_tokens), "--cells", ",".join(options.cells)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def merged(old, new):
    by_length = {row["tokens"]: row for row in [*old, *new]}
    return [by_length[tokens] for tokens in sorted(by_length)]


def numbers(text):
    return [int(part) for part in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="document to write or add to")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=PARTS)
    parser.add_argument("--lengths", type=numbers, default=[1024, 2048, 4096, 8192])
    parser.add_argument("--grid-lengths", type=numbers, default=[4096])
    every = ["full", *(f"{method}:{budget}" for method in METHODS for budget in BUDGETS)]
    parser.add_argument("--cells", type=lambda text: text.split(","), default=every, help="method or method:percent, with commas")
    parser.add_argument("--repeats", type=int, default=3, help="of a prefill")
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "ripplekv-peers")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.child:
        part, tokens = options.child
        print(json.dumps(MEASURE[part](options, int(tokens))))
        return
    options.work.mkdir(parents=True, exist_ok=True)
    prepare_model(options.work)
    lengths = {"forward": options.lengths, "grid": options.grid_lengths, "attention": options.lengths}
    wanted = sorted({tokens for part in options.parts if part != "attention" for tokens in lengths[part]})
    prompts = prepare_prompts(options.work, wanted)

    from fixture_common import MEMBER, MEMBER_SHA256

    out = pathlib.Path(options.out)
    document = json.loads(out.read_text()) if out.exists() else {}
    document = {
        "schema": 1,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ["torch", "transformers", "kvpress"]}},
        "machine": {"processor": processor(), "logical_cores": os.cpu_count(), "system": platform.platform()},
        "threads": options.threads,
        "model": {"file": pathlib.Path(MEMBER).name, "sha256": MEMBER_SHA256, "dtype": "float32"},
        "commands": [*document.get("commands", []), " ".join(["python", *sys.argv])],
        "prompts": merged(document.get("prompts", []), [{k: v for k, v in prompt.items() if k != "ids"} for prompt in prompts]),
        **{part: document.get(part, []) for part in PARTS},
    }
    for part in options.parts:
        for tokens in lengths[part]:
            print(f"{part} {tokens}", file=sys.stderr, flush=True)
            document[part] = merged(document[part], [in_own_process(options, part, tokens)])
            # What is measured is kept, whatever happens to the rest.
            out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
