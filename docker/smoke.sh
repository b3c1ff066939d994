#!/usr/bin/env bash
# Tests the deployment of compose.yaml with new secrets and three workers. It trains a model and predicts
# with it, and then, each time while a job is running, kills the workers, restarts the database, kills the
# scheduler, stops the API, and stops a worker with SIGTERM. Every job must create exactly one model
# version. At last it makes a backup of the database and restores it into a new one.
#
#   LIMIT_S=3600                seconds until it gives up; it waits for states, so a slow machine may pass
#   COMPOSE="docker compose"    the compose command ("podman-compose" works too)
#   KEEP=1                      leave the containers running at the end
set -euo pipefail
cd "$(dirname "$0")"

COMPOSE=${COMPOSE:-docker compose}
ENGINE=${ENGINE:-$(case "$COMPOSE" in podman*) echo podman ;; *) echo docker ;; esac)}
export SIBLING_PORT=${SIBLING_PORT:-8000}
secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
export POSTGRES_PASSWORD=${POSTGRES_PASSWORD:-$(secret)}
export SIBLING_BOOTSTRAP_KEY=${SIBLING_BOOTSTRAP_KEY:-sib_$(secret | head -c 12)_$(secret)}
compose() { $COMPOSE -p sibling-smoke -f compose.yaml "$@"; }
names() { $ENGINE ps --format '{{.Names}}' | grep -E "sibling-smoke[-_]$1" || true; }

finish() {
  code=$?
  if [ "$code" != 0 ]; then compose logs --tail 30 || true; fi
  if [ -z "${KEEP:-}" ]; then compose down -v >/dev/null 2>&1 || true; fi
  exit "$code"
}
trap finish EXIT

LIMIT_S=${LIMIT_S:-3600}
echo "Time limit: $LIMIT_S s"
# wait_for WHAT COMMAND...: repeats the command until it succeeds
wait_for() {
  what=$1; shift
  until "$@"; do
    if [ "$SECONDS" -ge "$LIMIT_S" ]; then echo "gave up after $LIMIT_S s, waiting for $what"; exit 1; fi
    sleep 0.5
  done
}

compose down -v >/dev/null 2>&1 || true  # left by an earlier run
compose build
compose up -d --scale worker=3
url=http://127.0.0.1:$SIBLING_PORT
call() { curl -sS --fail-with-body -H "Authorization: Bearer $SIBLING_BOOTSTRAP_KEY" "$@"; }
field() { python3 -c "import json,sys; print(json.load(sys.stdin)['$1'])"; }
is_ready() { curl -sf "$url/v2/health/ready" >/dev/null; }
ready() { wait_for "the API to be ready" is_ready; }
ready
curl -sSf "$url/v2/health/ready"; echo
is_healthy() {
  case "$ENGINE" in  # podman runs checks by itself only where systemd does
    podman) podman healthcheck run "$1" >/dev/null 2>&1 ;;
    *) test "$($ENGINE inspect --format '{{.State.Health.Status}}' "$1")" = healthy ;;
  esac
}
for service in database scheduler api; do
  wait_for "$service to be healthy" is_healthy "$(names "$service")"
  echo "  $service: healthy after $SECONDS s"
done

echo "A request without an API key is rejected:"
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
is_parsed() { test "$(call "$url/v1/datasets/$dataset?wait=20" | field state)" = ready; }
wait_for "the dataset" is_parsed
train() {
  call "$url/v1/jobs" -H "Content-Type: application/json" -d '{"dataset_id": "'"$dataset"'",
    "algorithm": "rmt-pca", "model": "'"$1"'", "params": {"k": 5, "selection": "cv",
    "n_folds": '"${2:-10}"', "starts": "many"}}' | field id
}
state() { call "$url/v1/jobs/$1?wait=${2:-0}" | field state; }
has_ended() {
  case "$(state "$1" 5)" in
    succeeded) return 0 ;;
    failed | cancelled | timed_out) call "$url/v1/jobs/$1"; exit 1 ;;
    *) return 1 ;;
  esac
}
ended() {
  wait_for "the job $2" has_ended "$1"
  echo "  $2: succeeded after $SECONDS s"
}

is_running() { test "$(state "$1")" = running; }
running() { wait_for "a job to run" is_running "$1"; }
# outcomes ID: the outcome of each attempt; fraction ID FUNCTION ATTEMPT DEFAULT: its progress
outcomes() { call "$url/v1/jobs/$1" | jq_ '" ".join(a["outcome"] for a in it["attempts"])'; }
jq_() { python3 -c "import json,sys; it=json.load(sys.stdin); print($1)"; }
# events ID: its events, a page in each line
events() {
  token=
  while
    page=$(call "$url/v1/jobs/$1/events?page_size=200${token:+&page_token=$token}")
    printf '%s\n' "$page"
    token=$(printf '%s' "$page" | jq_ 'it["next_page_token"] or ""')
    test -n "$token"
  do :; done
}
fraction() {
  events "$1" | python3 -c "import json, sys
events = [e for page in sys.stdin for e in json.loads(page)['items']]
print($2((e['data']['fraction']
    for e in events if e['kind'] == 'progress' and e['attempt'] == $3), default=$4))"
}

echo "A job:"
ended "$(train plain)" plain

echo "A prediction:"
call "$url/v2/models/plain/infer" -H "Content-Type: application/json" -d '{"parameters": {"task": "t0"},
  "inputs": [{"name": "rows", "shape": [1, 24], "datatype": "FP64", "data": ['"$(seq -s, 24)"']}]}' |
  jq_ '"  shape " + str(it["outputs"][0]["shape"])'

echo "A job while its workers are killed:"
job=$(train killed)
running "$job"
workers=$(names worker)
for worker in $workers; do $ENGINE kill "$worker" >/dev/null; done
for worker in $workers; do $ENGINE start "$worker" >/dev/null 2>&1 || true; done
ended "$job" killed

echo "A job while the database is restarted:"
job=$(train restarted)
running "$job"
$ENGINE restart "$(names database)" >/dev/null
ready
ended "$job" restarted

echo "Six jobs while the scheduler is killed:"
jobs=()
for number in 1 2 3 4 5 6; do jobs+=("$(train "load-$number")"); done
running "${jobs[0]}"
scheduler=$(names scheduler)
$ENGINE kill "$scheduler" >/dev/null
$ENGINE start "$scheduler" >/dev/null
for number in 1 2 3 4 5 6; do ended "${jobs[number - 1]}" "load-$number"; done

echo "A job while the API is stopped and started again (it runs without interruption):"
job=$(train unattended)
running "$job"
api=$(names api)
$ENGINE stop "$api" >/dev/null
$ENGINE start "$api" >/dev/null
ready
ended "$job" unattended
test "$(outcomes "$job")" = succeeded

echo "A job whose worker gets SIGTERM (it continues on another worker from its checkpoint):"
job=$(train "handed-on" 40)  # long enough to be stopped in the middle
has_progress() { test "$(fraction "$1" max 1 0)" != 0; }
wait_for "progress" has_progress "$job"
host=$(call "$url/v1/jobs/$job" | jq_ 'it["attempts"][0]["worker"].partition(":")[0]')
for worker in $(names worker); do
  if [ "$($ENGINE exec "$worker" hostname)" = "$host" ]; then break; fi
done
$ENGINE stop "$worker" >/dev/null
ended "$job" "handed-on"
test "$(outcomes "$job")" = "released succeeded"
test "$(call "$url/v1/jobs/$job" | jq_ 'len({a["worker"] for a in it["attempts"]})')" = 2
stopped=$(fraction "$job" max 1 0)
resumed=$(fraction "$job" min 2 1)  # 1: no progress was left to report
echo "  stopped at $stopped, resumed at $resumed"
python3 -c "assert $resumed >= $stopped"

echo "One version of each model:"
call "$url/v1/models?page_size=100" | python3 -c "
import json, sys
models = json.load(sys.stdin)['items']
for model in models:
    print(' ', model['name'], model['version'])
    assert model['version'] == 1
assert len(models) == 11"

echo "A backup, restored into a new database:"
database=$(names database)
postgres() {
  command=$1; shift
  $ENGINE exec -i --env PGPASSWORD="$POSTGRES_PASSWORD" "$database" "$command" --host=127.0.0.1 \
    --username=sibling "$@"
}
dump=$(mktemp)
postgres pg_dump --format=custom --no-owner --no-privileges sibling >"$dump"
postgres createdb restored
postgres pg_restore --dbname=restored --no-owner --no-privileges --exit-on-error \
  --single-transaction <"$dump"
rm "$dump"
count() { postgres psql --no-align --tuples-only --dbname="$1" --command="SELECT count(*) FROM models"; }
test "$(count restored)" = 11 && echo "  11 models"

echo "Passed in $SECONDS s"
