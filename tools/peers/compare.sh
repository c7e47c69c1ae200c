#!/usr/bin/env bash
# Measures ripplekv and its peers in turn on the same prompts and writes the tables of docs/performance.md.
#
#     cargo build --release -p ripplekv-cli
#     python -m pip install -r tools/peers/requirements.txt
#     bash tools/peers/compare.sh [FOLDER]      # about 26 minutes on two quiet cores
#
# Everything is measured in three rounds, minutes apart, and the median counts: what else a machine does comes and goes.
# The peer's grid is measured once, as its cells are sixteen measurements already.
#
# PYTHON names the interpreter, RIPPLEKV_BIN the program, RIPPLEKV_SHARED the folder with longbench/. The documents of all
# rounds, the prompts and the printed table stay in FOLDER (default: ripplekv-compare below the temporary folder).
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-${TMPDIR:-/tmp}/ripplekv-compare}
python=${PYTHON:-python3}
bin=${RIPPLEKV_BIN:-${CARGO_TARGET_DIR:-$top/target}/release/ripplekv}
mkdir -p "$folder"
rm -f "$folder"/{ours,peers}{,-1,-2,-3}.json

peers() { "$python" "$top/tools/peers/bench_peers.py" --work "$folder" --out "$folder/peers-$round.json" --repeats 1 "$@"; }
ours() { "$bin" bench --threads 2 --prompts "$folder/prompts.json" --out "$folder/ours-$round.json" --repeats "${repeats:-1}" "$@" >/dev/null; }

for round in 1 2 3; do
  for tokens in 1024 2048 4096 8192; do
    peers --parts forward --lengths "$tokens"
    ours --parts forward --lengths "$tokens"
  done
  peers --parts attention --lengths 2048,4096,8192
  ours --parts attention --lengths 2048,4096,8192
  if [ "$round" = 1 ]; then
    peers --parts grid --grid-lengths 4096
    # only what tells a cell's cost: its cells run one after the other, so each costs the same again
    peers --parts grid --grid-lengths 2048 --cells full,snapkv:20
  fi
  ours --parts grid --lengths 4096,2048
  # a ratio of two of our own times, which no peer steadies
  repeats=2 ours --parts profile
done
for side in ours peers; do
  "$python" "$top/tools/peers/median.py" "$folder/$side"-{1,2,3}.json >"$folder/$side.json"
done
"$bin" bench --out "$folder/ours.json" --peers "$folder/peers.json" | tee "$folder/table.md"

"$python" - "$top/docs/performance.md" "$folder/table.md" <<'PY'
import datetime, pathlib, sys

page, table = map(pathlib.Path, sys.argv[1:])
start, end = "<!-- measured: compare -->\n", "<!-- /measured -->"
before, rest = page.read_text().split(start)
after = rest.split(end)[1]
day = datetime.date.today().isoformat()
made = f"Measured {day} with `bash tools/peers/compare.sh` on "
page.write_text(before + start + made + table.read_text() + end + after)
PY
