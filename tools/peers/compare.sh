#!/usr/bin/env bash
# Measures ripplekv and its peers in turn on the same prompts and writes the tables of docs/performance.md.
#
#     cargo build --release -p ripplekv-cli
#     python -m pip install -r tools/peers/requirements.txt
#     bash tools/peers/compare.sh [FOLDER]      # about 10 minutes on two quiet cores
#
# PYTHON names the interpreter, RIPPLEKV_BIN the program, RIPPLEKV_SHARED the folder with longbench/. Both documents,
# the prompts and the printed table stay in FOLDER (default: ripplekv-compare below the temporary folder).
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-${TMPDIR:-/tmp}/ripplekv-compare}
python=${PYTHON:-python3}
bin=${RIPPLEKV_BIN:-${CARGO_TARGET_DIR:-$top/target}/release/ripplekv}
mkdir -p "$folder"
rm -f "$folder/peers.json" "$folder/ours.json"

peers() { "$python" "$top/tools/peers/bench_peers.py" --work "$folder" --out "$folder/peers.json" "$@"; }
ours() { "$bin" bench --threads 2 --prompts "$folder/prompts.json" --out "$folder/ours.json" "$@"; }

for tokens in 1024 2048 4096 8192; do
  peers --parts forward --lengths "$tokens"
  ours --parts forward --lengths "$tokens" >/dev/null
done
peers --parts attention --lengths 2048,4096,8192
ours --parts attention --lengths 2048,4096,8192 >/dev/null
peers --parts grid --grid-lengths 4096
ours --parts grid --lengths 4096 >/dev/null
# of the peer only what tells a cell's cost: its cells run one after the other, so each costs the same again
peers --parts grid --grid-lengths 2048 --cells full,snapkv:20
ours --parts grid --lengths 2048 >/dev/null
ours --parts profile --peers "$folder/peers.json" | tee "$folder/table.md"

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
