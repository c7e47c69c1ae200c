"""The median of several measurements of the same work: one document from those of several rounds.

    python tools/peers/median.py round-1.json round-2.json round-3.json > all.json

Takes the documents of `ripplekv bench --out` or of bench_peers.py, each measured by itself. Rows of the same part and
length become one: every number the median of the rounds that have the row, repeats put together. What is no measurement
(machine, versions) is the first document's; the commands are all of them.
"""

import json
import pathlib
import statistics
import sys

PARTS = ["forward", "attention", "grid", "profile"]


def median(values):
    first = values[0]
    if isinstance(first, dict):
        return {key: median([value[key] for value in values]) for key in first}
    if isinstance(first, list):
        if all(isinstance(value, dict) for value in first):
            return [median(list(entries)) for entries in zip(*values, strict=True)]
        return [entry for value in values for entry in value]
    if isinstance(first, float):
        return statistics.median(values)
    if isinstance(first, int):
        return statistics.median_high(values)
    return first


def rows(documents, part):
    by_length = {}
    for document in documents:
        for row in document.get(part, []):
            by_length.setdefault(row["tokens"], []).append(row)
    return [median(by_length[tokens]) for tokens in sorted(by_length)]


def main():
    documents = [json.loads(pathlib.Path(name).read_text()) for name in sys.argv[1:]]
    merged = dict(documents[0])
    merged["commands"] = [command for document in documents for command in document["commands"]]
    for part in PARTS:
        if any(part in document for document in documents):
            merged[part] = rows(documents, part)
    print(json.dumps(merged, indent=1))


if __name__ == "__main__":
    main()
