"""Scores, words and statistics from the packages LongBench's evaluator calls, on texts of our own.

    python -m venv venv && venv/bin/pip install -r tools/requirements-metrics.txt
    venv/bin/python tools/make_metric_fixtures.py

Writes crates/ripplekv-metrics/tests/fixtures. The rules around the packages (normalisation, line
choice, maximum over answers, rounding) are written here after the evaluator's published behaviour;
ROUGE, fuzz.ratio, segmentation, means, quantiles and correlations are the packages' own results. Python 3.11
or later: the recursion limit of ROUGE-L is one step lower before.
"""

import collections
import importlib
import json
import logging
import math
import pathlib
import random
import re
import string
import sys
import unicodedata
import warnings

import jieba
import numpy
import rouge
import scipy.optimize
import scipy.special
import scipy.stats

import metric_texts as texts

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "crates" / "ripplekv-metrics" / "tests" / "fixtures"
SEED = 20261129
RECURSION_LIMIT = 1000


def load_fuzz(blocked: bool):
    """fuzzywuzzy.fuzz over difflib (python-Levenshtein blocked) or over python-Levenshtein."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("fuzzywuzzy", "Levenshtein")]:
        del sys.modules[name]
    if blocked:
        sys.modules["Levenshtein"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuzz = importlib.import_module("fuzzywuzzy.fuzz")
    if blocked:
        del sys.modules["Levenshtein"]
    expected = "difflib" if blocked else "fuzzywuzzy.StringMatcher"
    assert fuzz.SequenceMatcher.__module__ == expected, fuzz.SequenceMatcher.__module__
    return fuzz


FUZZ_DIFFLIB = load_fuzz(blocked=True)
FUZZ_LEVENSHTEIN = load_fuzz(blocked=False)


def f1(prediction: list, answer: list) -> float:
    same = sum((collections.Counter(prediction) & collections.Counter(answer)).values())
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(prediction), 1.0 * same / len(answer)
    return (2 * precision * recall) / (precision + recall)


def english_words(text: str) -> list:
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


# General and CJK punctuation that the evaluator deletes from Chinese words, by code point.
CJK_PUNCTUATION = {
    chr(point)
    for first, last in [
        (0x2013, 0x2014), (0x2018, 0x2019), (0x201B, 0x201F), (0x2026, 0x2027), (0x3001, 0x3003), (0x300B, 0x3011),
        (0x3014, 0x301F), (0x3030, 0x3030), (0x303E, 0x303F), (0xFE4F, 0xFE4F), (0xFF01, 0xFF0D), (0xFF0F, 0xFF0F),
        (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF64),
    ]
    for point in range(first, last + 1)
}  # fmt: skip


def chinese_words(text: str) -> list:
    deleted = CJK_PUNCTUATION | set(string.punctuation)
    words = ["".join("".join(c for c in word.lower() if c not in deleted).split()) for word in jieba.cut(text)]
    return [word for word in words if word]


def qa_f1(prediction, answer, classes):
    return f1(english_words(prediction), english_words(answer))


def qa_f1_zh(prediction, answer, classes):
    return f1(chinese_words(prediction), chinese_words(answer))


def rouge_l(prediction, answer, classes):
    # One frame above this one, as in the evaluator: its module, its loop, this function, the package.
    try:
        return rouge.Rouge().get_scores([prediction], [answer], avg=True)["rouge-l"]["f"]
    except (ValueError, RecursionError):
        return 0.0


def rouge_l_zh(prediction, answer, classes):
    prediction, answer = " ".join(jieba.lcut(prediction)), " ".join(jieba.lcut(answer))
    return rouge_l(prediction, answer, classes)


def rouge_n(name):
    def one(prediction, answer, classes):
        try:
            return rouge.Rouge(metrics=[name]).get_scores([prediction], [answer], avg=True)[name]["f"]
        except ValueError:
            return 0.0

    return one


def classification(prediction, answer, classes):
    found = [name for name in classes if name in prediction]
    for name in found:  # removing while iterating is the evaluator's rule
        if name in answer and name != answer:
            found.remove(name)
    return 1.0 / len(found) if answer in found else 0.0


def share(prediction, number):
    numbers = re.findall(r"\d+", prediction)
    return sum(n == number for n in numbers) / len(numbers) if numbers else 0.0


def count(prediction, answer, classes):
    return share(prediction, answer)


def retrieval(prediction, answer, classes):
    return share(prediction, re.findall(r"Paragraph (\d+)", answer)[0])


def retrieval_zh(prediction, answer, classes):
    return share(prediction, re.findall(r"段落(\d+)", answer)[0])


def code_similarity(fuzz):
    def one(prediction, answer, classes):
        lines = prediction.lstrip("\n").split("\n")
        line = next((line for line in lines if not ("`" in line or "#" in line or "//" in line)), "")
        return fuzz.ratio(line, answer) / 100

    return one


METRICS = {
    "qa-f1": qa_f1,
    "qa-f1-zh": qa_f1_zh,
    "rouge-l": rouge_l,
    "rouge-l-zh": rouge_l_zh,
    "rouge-1": rouge_n("rouge-1"),
    "rouge-2": rouge_n("rouge-2"),
    "classification": classification,
    "retrieval": retrieval,
    "retrieval-zh": retrieval_zh,
    "count": count,
    "code-similarity": code_similarity(FUZZ_DIFFLIB),
}


def best_of_answers(metric, prediction, answers, classes):
    """Stands where the evaluator's loop stands: two frames deep under the standard limit."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(RECURSION_LIMIT + depth - 2)
    score = 0.0
    for answer in answers:
        score = max(score, metric(prediction, answer, classes))
    sys.setrecursionlimit(RECURSION_LIMIT + 1000)
    return score


def case(metric, prediction, answers, note, classes=None):
    record = {"metric": metric, "prediction": prediction, "answers": answers}
    if classes is not None:
        record["all_classes"] = classes
    record["score"] = float(best_of_answers(METRICS[metric], prediction, answers, classes))
    if metric == "code-similarity":
        levenshtein = code_similarity(FUZZ_LEVENSHTEIN)
        record["score_levenshtein"] = float(best_of_answers(levenshtein, prediction, answers, classes))
    record["note"] = note
    return record


def limit_cases():
    """Around the longest LCS walk that does not raise."""
    for length in (988, 989, 990, 991, 992):
        words = " ".join(["oar"] * length)
        yield case("rouge-l", words, [words], f"a walk of {length} steps")
        han = "潮," * (length // 2) + "潮" * (length % 2)
        assert len(jieba.lcut(han)) == length
        yield case("rouge-l-zh", han, [han], f"a walk of {length} steps")
    apart = [" ".join(["oar"] * 400), " ".join(["keel"] * 600)]
    yield case("rouge-l", apart[0], [apart[1]], "1000 words without a match, walked along one side")
    yield case("rouge-l", apart[1], [apart[0]], "the same with the sides exchanged")
    mixed = [" ".join(["oar"] * 900 + ["mast"] * 80), " ".join(["mast"] * 80 + ["keel"] * 400)]
    yield case("rouge-l", mixed[0], [mixed[1]], "a long walk that passes the limit on one side")
    yield case("rouge-l", mixed[1], [mixed[0]], "the same with the sides exchanged")
    split = ". ".join([" ".join(["oar"] * 500)] * 3)
    yield case("rouge-l", split, [split], "many words but short sentences")
    tail = " ".join(["oar"] * 3000 + ["mast", "keel"])
    yield case("rouge-l", tail, ["mast keel"], "a long sentence whose walk is short")
    yield case("rouge-l", "mast keel", [tail], "on the other side")


def random_cases(generator):
    """Few words and many repetitions: ties everywhere."""
    words = ["oar", "keel", "mast", "sail", "sail.", ".", "rope", " "]
    for index in range(60):
        prediction, answer = (" ".join(generator.choices(words, k=generator.randint(1, 25))) for _ in "pa")
        metric = ["rouge-l", "rouge-l", "rouge-1", "rouge-2"][index % 4]
        yield case(metric, prediction, [answer], "random words")
    letters = "abc (=)_.\t"
    for index in range(60):
        # Lengths that add up to multiples of 80 are where the two forms of the ratio round apart.
        total = generator.choice([16, 40, 80, 80, 80, 160, 240])
        first = generator.randint(total // 4, 3 * total // 4)
        prediction, answer = ("".join(generator.choices(letters, k=k)) for k in (first, total - first))
        yield case("code-similarity", prediction, [answer], f"random characters, {total} together")
    for length in (150, 198, 199, 200, 201, 250, 299, 300, 301, 450):
        answer = "".join(generator.choices("abcdefgh ijklmnop_(),", k=length))
        yield case("code-similarity", answer[::2], [answer], f"answer of {length} characters: autojunk from 200")
        cut = answer[: length // 3] + "zz" + answer[length // 2 :]
        yield case("code-similarity", cut, [answer], f"a piece replaced in {length} characters")
        yield case("code-similarity", answer, [cut], "the sides exchanged")
    for _ in range(20):
        pool = "潮汐港口码头灯塔的在和了一二2015-06 GPT。，."
        prediction, answer = ("".join(generator.choices(pool, k=generator.randint(1, 30))) for _ in "pa")
        yield case("qa-f1-zh", prediction, [answer], "random characters")
        yield case("rouge-l-zh", prediction, [answer], "random characters")
    letters = [chr(point) for point in [*range(0x21, 0x7F), *range(0x3B1, 0x3CA)] if chr(point) not in "`#/"]
    for length in (199, 200, 230, 299, 300, 399, 400, 401):
        # As many letters as make each occur about as often as autojunk still allows.
        pool = letters[: 2 * length // (2 * (length // 100 + 1) + 1)]
        answer = "".join(generator.choices(pool, k=length))
        prediction = "".join(generator.choices(pool, k=length // 3)) + answer[: length // 4][::-1]
        yield case("code-similarity", prediction, [answer], f"rare and popular characters among {length}")


def metric_cases():
    for name in ("qa-f1",):
        for prediction, answers, note in texts.QA_F1:
            yield case(name, prediction, answers, note)
    for name in ("rouge-l", "rouge-1", "rouge-2"):
        for prediction, answers, note in texts.ROUGE:
            yield case(name, prediction, answers, note)
    for name in ("qa-f1-zh", "rouge-l-zh"):
        for prediction, answers, note in texts.ZH:
            yield case(name, prediction, answers, note)
    for prediction, answer, classes, note in texts.CLASSIFICATION:
        yield case("classification", prediction, [answer], note, classes)
    groups = {
        "count": texts.COUNT,
        "retrieval": texts.RETRIEVAL,
        "retrieval-zh": texts.RETRIEVAL_ZH,
        "code-similarity": texts.CODE,
    }
    for name, group in groups.items():
        for prediction, answers, note in group:
            yield case(name, prediction, answers, note)
    yield from limit_cases()
    yield from random_cases(random.Random(SEED))


def segmentations():
    generator = random.Random(SEED + 1)
    strings = list(texts.SEGMENTATION)
    strings += [text for prediction, answers, _ in texts.ZH for text in [prediction, *answers]]
    common = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经"
    for _ in range(150):
        pools = [common, "潮汐港口码头灯塔船长", "GPT4-2015.06%+#&_ \n，。", [chr(generator.randint(0x4E00, 0x9FD6)) for _ in range(8)]]
        length = generator.randint(2, 24)
        strings.append("".join(generator.choice(generator.choice(pools)) for _ in range(length)))
    for text in strings:
        words = jieba.lcut(text)
        assert "".join(words) == text
        yield {"text": text, "words": words}


def bucket(scores):
    return None if not scores else float(round(100 * numpy.mean(scores), 2))


def aggregates():
    generator = random.Random(SEED + 2)
    record = {"python_round": [], "numpy_round": [], "tasks": [], "buckets": [], "means": []}
    values = [0.125, 0.375, 2.675, 93.255, 0.005, 1.005, 99.995, 58.645, 0.0, 100.0]
    values += [generator.randint(0, 10000) / 100 + 0.005 for _ in range(60)]
    for value in values:
        record["python_round"].append([value, round(value, 2)])
        record["numpy_round"].append([value, float(round(numpy.float64(value), 2))])
    for size in (1, 2, 3, 7, 8, 9, 100, 150, 200, 500, 503):
        choices = [[0.0, 1.0], [0.0, 0.5, 1 / 3, 2 / 3, 1.0], None][size % 3]
        scores = [generator.choice(choices) if choices else generator.random() for _ in range(size)]
        record["tasks"].append([scores, round(100 * sum(scores) / len(scores), 2)])
    for size in (1, 7, 8, 40, 127, 128, 129, 300, 1000):
        samples = [(generator.choice([generator.random(), 1 / 3, 0.0]), generator.randint(0, 12000)) for _ in range(size)]
        parts = [
            [score for score, length in samples if length < 4000],
            [score for score, length in samples if 4000 <= length < 8000],
            [score for score, length in samples if length >= 8000],
        ]
        record["buckets"].append({"samples": samples, "scores": [bucket(part) for part in parts]})
    # Two hundred code scores in hundredths: every other mean is a tie at the third decimal.
    for length in range(100, 12000, 600):
        samples = [(generator.randint(0, 100) / 100, length) for _ in range(200)]
        samples[0] = ((round(sum(score * 100 for score, _ in samples[1:])) + 1) % 2 / 100, length)
        mean = bucket([score for score, _ in samples])
        parts = [mean if part == (length >= 4000) + (length >= 8000) else None for part in range(3)]
        record["buckets"].append({"samples": samples, "scores": parts})
    for size in (5, 8, 64, 65, 100, 127, 128, 129, 136, 200, 257, 500, 1000):
        values = [generator.random() for _ in range(size)]
        record["means"].append([values, float(numpy.mean(values))])
    return record


def statistics():
    generator = random.Random(SEED + 3)
    record = {"ranks": [], "correlations": [], "divergences": []}
    for size in (2, 3, 5, 16, 30, 32, 80):
        for levels in (3, 1000):
            left = [float(generator.randint(0, levels)) for _ in range(size)]
            right = [float(generator.randint(0, levels)) for _ in range(size)]
            if len(set(left)) < 2 or len(set(right)) < 2:
                left[0], right[0] = -1.0, -2.0
            record["ranks"].append([left, scipy.stats.rankdata(left).tolist()])
            record["correlations"].append(
                {
                    "left": left,
                    "right": right,
                    "spearman": float(scipy.stats.spearmanr(left, right).statistic),
                    "kendall": float(scipy.stats.kendalltau(left, right).statistic),
                }
            )
    for size in (2, 10, 500):
        for scale in (0.01, 1.0, 8.0):
            left = numpy.float32([generator.gauss(0, 3) for _ in range(size)])
            right = numpy.float32(left + numpy.float32([generator.gauss(0, scale) for _ in range(size)]))
            p, q = (scipy.special.log_softmax(x.astype(numpy.float64)) for x in (left, right))
            middle = numpy.log((numpy.exp(p) + numpy.exp(q)) / 2)
            kl = lambda a, b: math.fsum(scipy.special.rel_entr(numpy.exp(a), numpy.exp(b)))
            record["divergences"].append(
                {
                    "left": left.tolist(),
                    "right": right.tolist(),
                    "kl": kl(p, q),
                    "js": (kl(p, middle) + kl(q, middle)) / 2,
                }
            )
    record |= {"quantiles": [], "shifts": [], "allocations": [], "detectable": []}
    for size in (1, 2, 7, 30, 200):
        values = [generator.gauss(0, 2) for _ in range(size)]
        record["quantiles"].append([values, [[q, float(numpy.quantile(values, q))] for q in (0, 0.1, 0.5, 0.9, 1)]])
        if size > 1:
            power = scipy.stats.norm.ppf(0.975) + scipy.stats.norm.ppf(0.8)
            record["detectable"].append([values, float(power * scipy.stats.sem(values))])
    for size in (5, 12, 30, 32):
        for smooth in (1, 4):
            left, right = (
                numpy.convolve([generator.gauss(0, 1) for _ in range(size + smooth - 1)], numpy.ones(smooth), "valid")
                for _ in range(2)
            )
            right = numpy.round(right + 0.3 * left, 0 if smooth == 1 else 3)
            rhos = [abs(scipy.stats.spearmanr(numpy.roll(left, k), right).statistic) for k in range(size)]
            share = sum(rho >= rhos[0] - 1e-9 for rho in rhos) / size
            record["shifts"].append([left.tolist(), right.tolist(), share])
    for exponent in (0.5, 1.0, 2.5):
        damage = numpy.array([generator.lognormvariate(0, 1) for _ in range(8)])
        # Shares by softmax, so that the search is free of bounds.
        total = lambda x: float(numpy.sum(damage * (len(damage) * scipy.special.softmax(x)) ** -exponent))
        found = scipy.optimize.minimize(total, numpy.zeros(len(damage)), method="BFGS", options={"gtol": 1e-9})
        record["allocations"].append([damage.tolist(), exponent, found.fun / total(numpy.zeros(len(damage)))])
    return record


def ranges(holds):
    found = []
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000 or not holds(chr(point)):
            continue
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def python_text():
    """Python's character classes over all of Unicode, and its lower case where it changes something."""
    everything = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    return {
        "unicode": unicodedata.unidata_version,
        "assigned": ranges(lambda c: unicodedata.category(c) != "Cn"),
        "whitespace": ranges(str.isspace),
        "word": ranges(lambda c: re.match(r"\w", c)),
        "digit": ranges(lambda c: re.match(r"\d", c)),
        "lower": [[c, c.lower()] for c in everything if c.lower() != c],
    }


def write_lines(name, records):
    records = list(records)
    body = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    (FIXTURES / name).write_text(body, encoding="utf-8", newline="\n")
    print(f"{name}: {len(records)} records, {len(body)} characters")


def write_json(name, record):
    (FIXTURES / name).write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    print(name)


def main():
    jieba.setLogLevel(logging.ERROR)
    FIXTURES.mkdir(parents=True, exist_ok=True)
    write_lines("metric-cases.jsonl", metric_cases())
    write_lines("segmentations.jsonl", segmentations())
    write_json("aggregates.json", aggregates())
    write_json("statistics.json", statistics())
    write_json("python-text.json", python_text())


if __name__ == "__main__":
    main()
