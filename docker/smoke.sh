#!/usr/bin/env bash
# Brings up the whole of compose.yaml with secrets of its own, trains a model through it, kills a
# worker in the middle of a job and restarts the database, and shows that nothing is lost.
#
#   COMPOSE="docker compose"    the command to use ("podman-compose" works too)
#   KEEP=1                      leave it running at the end
set -euo pipefail
cd "$(dirname "$0")"

COMPOSE=${COMPOSE:-docker compose}
ENGINE=${ENGINE:-$(case "$COMPOSE" in podman*) echo podman ;; *) echo docker ;; esac)}
export SIBLING_PORT=${SIBLING_PORT:-8000}
secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
export POSTGRES_PASSWORD=${POSTGRES_PASSWORD:-$(secret)}
export SIBLING_FIRST_KEY=${SIBLING_FIRST_KEY:-sib_$(secret | head -c 12)_$(secret)}
compose() { $COMPOSE -p sibling-smoke -f compose.yaml "$@"; }
names() { $ENGINE ps --format '{{.Names}}' | grep -E "sibling-smoke[-_]$1" || true; }

finish() {
  code=$?
  if [ "$code" != 0 ]; then compose logs --tail 30 || true; fi
  if [ -z "${KEEP:-}" ]; then compose down -v >/dev/null 2>&1 || true; fi
  exit "$code"
}
trap finish EXIT

compose down -v >/dev/null 2>&1 || true  # what an earlier run may have left
compose build
compose up -d --scale worker=2
url=http://127.0.0.1:$SIBLING_PORT
call() { curl -sS --fail-with-body -H "Authorization: Bearer $SIBLING_FIRST_KEY" "$@"; }
field() { python3 -c "import json,sys; print(json.load(sys.stdin)['$1'])"; }
for _ in $(seq 120); do curl -sf "$url/v2/health/ready" >/dev/null && break; sleep 1; done
curl -sSf "$url/v2/health/ready"; echo

echo "A stranger is refused:"
test "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/jobs")" = 401 && echo "  401"

python3 - > rows.csv <<'PYTHON'
import random
random.seed(0)
print("task," + ",".join(f"x{i}" for i in range(24)))
for task in range(60):
    for _ in range(40):
        print(f"t{task}," + ",".join(f"{random.gauss(0, 1):.5f}" for _ in range(24)))
PYTHON
dataset=$(call "$url/v1/datasets?name=rows" -H "Content-Type: text/csv" --data-binary @rows.csv | field id)
rm rows.csv
train() {
  call "$url/v1/jobs" -H "Content-Type: application/json" -d '{"dataset_id": "'"$dataset"'",
    "algorithm": "rmt-pca", "model": "'"$1"'", "params": {"k": 5, "selection": "cv",
    "n_folds": 10, "starts": "many"}}' | field id
}
state() { call "$url/v1/jobs/$1?wait=${2:-0}" | field state; }
ended() {
  for _ in $(seq 40); do
    case "$(state "$1" 5)" in
      succeeded) echo "  $2: succeeded"; return ;;
      failed | cancelled | timed_out) call "$url/v1/jobs/$1"; return 1 ;;
    esac
  done
  echo "  $2: not ended"; return 1
}

echo "A job:"
ended "$(train plain)" plain

echo "A job whose workers are killed:"
job=$(train killed)
until [ "$(state "$job")" = running ]; do sleep 0.2; done
for worker in $(names worker); do $ENGINE kill "$worker" >/dev/null; done
for worker in $($ENGINE ps -a --format '{{.Names}}' | grep -E "sibling-smoke[-_]worker"); do
  $ENGINE start "$worker" >/dev/null 2>&1 || true
done
ended "$job" killed

echo "A job while the database is restarted:"
job=$(train restarted)
until [ "$(state "$job")" = running ]; do sleep 0.2; done
$ENGINE restart "$(names database)" >/dev/null
for _ in $(seq 60); do curl -sf "$url/v2/health/ready" >/dev/null && break; sleep 1; done
ended "$job" restarted

echo "One version of each model:"
call "$url/v1/models" | python3 -c "
import json, sys
for model in json.load(sys.stdin)['items']:
    print(' ', model['name'], model['version'])
    assert model['version'] == 1"
