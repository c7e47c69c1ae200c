"""Prompts of the shared LongBench records, and greedy texts of the full cache, by transformers.

    python tools/make_longbench_fixtures.py prompts     # ids of all 124 records at 3,500 and 7,500 tokens
    python tools/make_longbench_fixtures.py texts       # 20 short records, greedy, float32

Follows the order of THUDM/LongBench 2e00731 `pred.py`: render, tokenise, cut the middle, decode both
halves, chat template, tokenise, generate. Reads the records beside the project (`../shared/longbench`,
or the folder in RIPPLEKV_SHARED) and writes only counts and hashes of them, to
crates/ripplekv-engine/tests/fixtures. Our own code; where transformers' reading of a GGUF file
disagrees with the file's metadata, the metadata decide (see `reference_tokenizer`). On a busy machine set
OMP_NUM_THREADS=1: torch's threads wait for each other by spinning.
"""

import argparse
import hashlib
import json
import os
import pathlib
import struct
import tempfile
import time

import gguf
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from fixture_common import MEMBER_SHA256, ROOT, smollm2_folder
from make_tokenizer_fixtures import smollm

SHARED = pathlib.Path(os.environ.get("RIPPLEKV_SHARED") or ROOT.parent / "shared") / "longbench"
FIXTURES = ROOT / "crates" / "ripplekv-engine" / "tests" / "fixtures"
# No chat template on the few-shot and the code tasks.
PLAIN_TASKS = {"trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"}
NEWLINE_TASKS = {"samsum"}
PROMPT_LIMITS = (3500, 7500)
TEXT_LIMIT = 7500
TEXT_RECORDS = 20
TEXT_PROMPT_TOKENS = 4096
# qasper and samsum may have 128 new tokens, summaries 512; both programs stop at this many, which bounds the
# test's time.
TEXT_NEW_TOKENS = 64
MADE_BY = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "model_sha256": MEMBER_SHA256}


def reference_tokenizer(folder: str, name: str):
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    # transformers' GGUF conversion ignores `tokenizer.ggml.pre`; the file says `smollm`: every digit alone.
    tokenizer._tokenizer.pre_tokenizer = smollm()
    return tokenizer


def end_tokens(folder: str, name: str) -> list[int]:
    """As the file's metadata say; transformers' tokenizer of the same file has another `eos_token_id`."""
    fields = gguf.GGUFReader(pathlib.Path(folder) / name).fields
    keys = [f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot", "eom")]
    return sorted({int(fields[key].contents()) for key in keys if key in fields})


def encode(tokenizer, text: str) -> list[int]:
    # "With special tokens" adds none here: the file's metadata say `add_bos_token: false`.
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def decode(tokenizer, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def records() -> list[tuple[str, int, dict]]:
    """Task, place in its file, record; split at "\\n" alone, as strings hold other line ends."""
    found = []
    for path in sorted((SHARED / "data").glob("*.jsonl")):
        for place, line in enumerate(path.read_bytes().removesuffix(b"\n").split(b"\n")):
            found.append((path.stem, place, json.loads(line)))
    if not found:
        raise SystemExit(f"no records below {SHARED}")
    return found


def prompt_ids(tokenizer, template: str, task: str, record: dict, limit: int) -> tuple[list[int], int]:
    """Final ids, and the number of tokens before truncation and chat template."""
    text = template.format(**record)
    ids = encode(tokenizer, text)
    if len(ids) > limit:
        half = limit // 2
        text = decode(tokenizer, ids[:half]) + decode(tokenizer, ids[-half:])
    if task not in PLAIN_TASKS:
        turn = [{"role": "user", "content": text}]
        text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    return encode(tokenizer, text), len(ids)


def digest_of_ids(ids: list[int]) -> str:
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()


def config(name: str) -> dict:
    return json.loads((SHARED / "config" / name).read_text(encoding="utf-8"))


def write(name: str, settings: dict, rows: list[dict]):
    """One row a line, so that a change shows which record it concerns."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(row, separators=(", ", ": ")) for row in rows)
    head = "".join(f' {json.dumps(key)}: {json.dumps(value)},\n' for key, value in settings.items())
    (FIXTURES / name).write_text("{\n" + head + ' "records": [\n' + lines + "\n ]\n}\n")


def make_prompts():
    templates = config("dataset2prompt.json")
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer = reference_tokenizer(*smollm2_folder(temporary))
    rows = []
    for task, place, record in records():
        row = {"task": task, "index": place}
        for limit in PROMPT_LIMITS:
            ids, rendered = prompt_ids(tokenizer, templates[task], task, record, limit)
            row["rendered_tokens"] = rendered
            row[f"at_{limit}"] = {"tokens": len(ids), "sha256": digest_of_ids(ids)}
        rows.append(row)
    write("longbench-prompts.json", {"made_by": MADE_BY, "limits": PROMPT_LIMITS}, rows)
    cut = {limit: sum(row["rendered_tokens"] > limit for row in rows) for limit in PROMPT_LIMITS}
    print(len(rows), "records; truncated:", cut)


def choose(tokenizer, templates: dict) -> list[tuple[str, int, list[int]]]:
    """The shortest prompt of every task that has one below the limit, then the shortest of all."""
    fitting = []
    for task, place, record in records():
        ids, _ = prompt_ids(tokenizer, templates[task], task, record, TEXT_LIMIT)
        if len(ids) < TEXT_PROMPT_TOKENS:
            fitting.append((len(ids), task, place, ids))
    fitting.sort()
    first_of_task = {}
    for row in fitting:
        first_of_task.setdefault(row[1], row)
    chosen = list(first_of_task.values())[:TEXT_RECORDS]
    chosen += [row for row in fitting if row not in chosen][: TEXT_RECORDS - len(chosen)]
    return [(task, place, ids) for _, task, place, ids in sorted(chosen)]


@torch.inference_mode()
def greedy(model, ids: list[int], ends: list[int], first_bans_ends: bool, most: int) -> tuple[list[int], float, int]:
    """New ids (an end token included), the smallest gap between best and second logit, and its step."""
    state = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
    new, smallest, at = [], float("inf"), 0
    while True:
        logits = state.logits[0, -1].clone()
        if first_bans_ends and not new:
            logits[ends] = -float("inf")
        best = torch.topk(logits, 2)
        gap = float(best.values[0] - best.values[1])
        if gap < smallest:
            smallest, at = gap, len(new)
        new.append(int(best.indices[0]))
        if new[-1] in ends or len(new) == most:
            return new, smallest, at
        state = model(torch.tensor([new[-1:]]), past_key_values=state.past_key_values, use_cache=True)


def make_texts():
    templates, lengths = config("dataset2prompt.json"), config("dataset2maxlen.json")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder, name = smollm2_folder(temporary)
        tokenizer = reference_tokenizer(folder, name)
        file_ends = end_tokens(folder, name)
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    newline = encode(tokenizer, "\n")[-1]
    chosen = choose(tokenizer, templates)
    print(len(chosen), "records,", sum(len(ids) for _, _, ids in chosen), "prompt tokens", flush=True)
    for task, place, ids in chosen:
        started = time.monotonic()
        ends = file_ends + ([newline] if task in NEWLINE_TASKS else [])
        most = min(lengths[task], TEXT_NEW_TOKENS)
        new, gap, step = greedy(model, ids, ends, task in NEWLINE_TASKS, most)
        text = decode(tokenizer, new)
        rows.append(
            {
                "task": task,
                "index": place,
                "prompt_tokens": len(ids),
                "prompt_sha256": digest_of_ids(ids),
                "max_new_tokens": most,
                "new_tokens": len(new),
                "new_sha256": digest_of_ids(new),
                "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
                "smallest_margin": round(gap, 6),
                "smallest_margin_step": step,
            }
        )
        print(task, place, len(ids), len(new), f"margin {gap:.5f} at {step}; {time.monotonic() - started:.1f} s", flush=True)
    settings = {"made_by": MADE_BY, "max_context": TEXT_LIMIT, "end_tokens": file_ends, "newline": newline}
    write("longbench-texts.json", settings, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["prompts", "texts"])
    {"prompts": make_prompts, "texts": make_texts}[parser.parse_args().what]()
