"""Token ids from transformers for two hundred hard strings, over five byte-level BPE tokenizers.

    python tools/make_tokenizer_fixtures.py

Writes crates/ripplekv-model/tests/fixtures/tokenizers: the strings, one small tokenizer per
pre-tokenizer (as a Hugging Face folder and as GGUF metadata without tensors; vocabularies trained
here on our own texts), and the ids, special tokens off and on. For the pip-packaged SmolLM2 only
the ids are stored.
"""

import json
import shutil
import tempfile

import gguf
import tokenizers
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from fixture_common import MODEL_FIXTURES, smollm2_folder
from hard_strings import HARD_STRINGS
from own_texts import LOGBOOK, TRAINING_TEXTS

VOCAB_SIZE = 600
USER_DEFINED = "<tool>"

# The pre-tokenizers' published patterns.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )


def smollm():
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )


KINDS = {
    # GGUF name: (pre-tokenizer, normalizer, ignore_merges, special tokens, bos, ends, add_bos in the GGUF file)
    "smollm": (smollm, None, False, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], 1, [2], False),
    "llama-bpe": (
        lambda: split_then_bytes(LLAMA3),
        None,
        True,
        ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"],
        0,
        [1, 2],
        True,
    ),
    "qwen2": (
        lambda: split_then_bytes(QWEN2),
        normalizers.NFC,
        False,
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        None,
        [2, 0],
        False,
    ),
    "gpt-2": (
        lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        None,
        False,
        ["<|endoftext|>"],
        0,
        [0],
        None,
    ),
}

TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] | trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def small_tokenizer(kind: str) -> Tokenizer:
    make_pre, make_normalizer, ignore_merges, specials, bos, _, add_bos = KINDS[kind]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = make_pre()
    if make_normalizer:
        tokenizer.normalizer = make_normalizer()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 1,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*TRAINING_TEXTS, LOGBOOK], trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE - 1
    tokenizer.add_tokens([AddedToken(USER_DEFINED, special=False, normalized=False)])
    stored = json.loads(tokenizer.to_str())
    stored["model"]["ignore_merges"] = ignore_merges
    if ignore_merges:
        # The last tokens can then be had only by ignoring the merges, so the flag shows in the ids.
        stored["model"]["merges"] = stored["model"]["merges"][:-40]
    tokenizer = Tokenizer.from_str(json.dumps(stored))
    if add_bos:
        name = specials[bos]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{name} $A", pair=f"{name} $A {name}:1 $B:1", special_tokens=[(name, bos)]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def write_folder(out, kind: str, tokenizer: Tokenizer):
    _, _, _, specials, bos, ends, _ = KINDS[kind]
    out.mkdir(parents=True)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    config = {
        "eos_token": {"__type": "AddedToken", "content": specials[ends[0]], "normalized": False, "special": True},
        "chat_template": TEMPLATE,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    if bos is not None:
        config["bos_token"] = specials[bos]
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    (out / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}) + "\n")


def write_gguf(path, kind: str, tokenizer: Tokenizer):
    """The same tokenizer as llama.cpp's converter would write it."""
    _, _, _, specials, bos, ends, add_bos = KINDS[kind]
    stored = json.loads(tokenizer.to_str())
    vocab = {**stored["model"]["vocab"], USER_DEFINED: VOCAB_SIZE - 1}
    tokens = [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])]
    types = [gguf.TokenType.NORMAL] * len(tokens)
    for special in specials:
        types[vocab[special]] = gguf.TokenType.CONTROL
    types[vocab[USER_DEFINED]] = gguf.TokenType.USER_DEFINED

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(kind)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in stored["model"]["merges"]])
    if bos is not None:
        writer.add_bos_token_id(bos)
    writer.add_eos_token_id(ends[0])
    if len(ends) > 1:
        writer.add_eot_token_id(ends[1])
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    writer.add_chat_template(TEMPLATE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def expected(tokenizer, with_special: bool) -> dict:
    plain = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in HARD_STRINGS]
    texts = [tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) for ids in plain]
    found = {
        "ids": plain,
        # Only where decoding does not give the string back (normalised, or bytes that the vocabulary lacks).
        "decoded": {i: text for i, (text, string) in enumerate(zip(texts, HARD_STRINGS)) if text != string},
        "decoded_without_special": {
            i: text
            for i, ids in enumerate(plain)
            if (text := tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)) != texts[i]
        },
    }
    if with_special:
        added = [tokenizer(text)["input_ids"] for text in HARD_STRINGS]
        found["leading_special"] = [len(all_ids) - len(ids) for all_ids, ids in zip(added, plain)]
        assert all(all_ids[len(all_ids) - len(ids) :] == ids for all_ids, ids in zip(added, plain))
    return found


def smollm2_expected() -> dict:
    with tempfile.TemporaryDirectory() as temporary:
        folder, name = smollm2_folder(temporary)
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        stock = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in HARD_STRINGS]
        # transformers' GGUF conversion ignores `tokenizer.ggml.pre` and uses GPT-2's pattern for every
        # byte-level file; the model was trained with the pre-tokenizer that its metadata names.
        tokenizer._tokenizer.pre_tokenizer = smollm()
        found = expected(tokenizer, with_special=False)
    found["differs_without_pre"] = {i: ids for i, ids in enumerate(stock) if ids != found["ids"][i]}
    return found


def main():
    out = MODEL_FIXTURES / "tokenizers"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    results = {}
    for kind in KINDS:
        tokenizer = small_tokenizer(kind)
        write_folder(out / kind, kind, tokenizer)
        write_gguf(out / f"{kind}.gguf", kind, tokenizer)
        results[kind] = expected(PreTrainedTokenizerFast.from_pretrained(out / kind), with_special=True)
    results["smollm2-135m-instruct-q4"] = smollm2_expected()
    lines = [
        f" {json.dumps(name)}: {json.dumps(value, sort_keys=True, separators=(',', ':'))}"
        for name, value in results.items()
    ]
    (out / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    document = {
        "made_by": {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__},
        "strings": HARD_STRINGS,
    }
    (out / "strings.json").write_text(json.dumps(document, indent=1) + "\n")
    for name, value in results.items():
        print(name, sum(map(len, value["ids"])), "ids;", "decoded differently:", sorted(value["decoded"]))
    print("transformers' GGUF conversion differs on", sorted(results["smollm2-135m-instruct-q4"]["differs_without_pre"]))


if __name__ == "__main__":
    main()
