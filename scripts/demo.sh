#!/usr/bin/env bash
# Shows the main job on real order lines: duplicates found, a crash, a recovery without loss or
# double. Builds the command-line program, works in a new temporary directory, checks every claim
# it prints, and fails at the first that doesn't hold.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/firstseen/target}"
input=$PWD/examples/data/online_retail_10k.csv
program=$CARGO_TARGET_DIR/release/firstseen
work=$(mktemp -d)
child=

cleanup() {
    if [[ -n $child ]]; then kill -KILL "$child" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '  %s\n' "$*"; }
fail() {
    printf 'demo: FAILED: %s\n' "$*" >&2
    exit 1
}

# The bytes of a file, 0 if there is none.
bytes() { if [[ -f $1 ]]; then wc -c <"$1" | tr -d ' '; else echo 0; fi; }

# The value of field $2 in a summary $1.
field() {
    local value
    value=$(sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p" <<<"$1")
    [[ -n $value ]] || fail "the summary has no $2: $1"
    echo "$value"
}

# Checks a summary $1 against rows, first seen and duplicates.
expect() {
    local rows first duplicates
    rows=$(field "$1" rows) first=$(field "$1" first_seen) duplicates=$(field "$1" duplicates)
    show "$rows rows, $first first seen, $duplicates duplicates," \
        "$(field "$1" rows_per_s) rows/s"
    [[ "$rows $first $duplicates" == "$2 $3 $4" ]] ||
        fail "expected $2 rows, $3 first seen, $4 duplicates"
}

# Runs dedup on the order lines; the last line of standard error is the summary.
dedup() {
    "$program" dedup --key '*' --input "$input" --json "$@" 2>"$work/stderr" ||
        { cat "$work/stderr" >&2; fail "dedup ended with an error"; }
    tail -n 1 "$work/stderr"
}

say "Building (the first time, RocksDB too: several minutes)"
cargo build --release --features cli --bin firstseen --example stock

say "1. 9,999 real order lines, the whole row as the key"
summary=$(dedup --store "$work/store" --output "$work/once.csv")
expect "$summary" 9999 9803 196
cp "$work/once.csv" "$work/expected.csv"

say "2. The same again: the store has seen them all"
summary=$(dedup --store "$work/store" --output "$work/once.csv")
expect "$summary" 9999 0 9999

say "3. The same job in a fresh store, killed with SIGKILL in the middle"
whole=$(bytes "$work/expected.csv")
attempt=1
while :; do
    store=$work/killed-$attempt
    output=$work/killed-$attempt.csv
    # One fsync a row makes it slow enough to be hit in the middle.
    "$program" dedup --key '*' --input "$input" --store "$store" --output "$output" \
        --batch 1 --durability synced 2>/dev/null &
    child=$!
    while kill -0 "$child" 2>/dev/null && (($(bytes "$output") < whole / 3)); do :; done
    kill -KILL "$child" 2>/dev/null || true
    code=0
    wait "$child" 2>/dev/null || code=$?
    child=
    if ((code == 137)) && (($(bytes "$output") < whole)); then break; fi
    ((code == 0)) || ((code == 137)) || fail "dedup ended with exit code $code"
    ((attempt += 1))
    ((attempt <= 20)) || fail "the program is always faster than the kill"
done
show "killed after $(bytes "$output") of $whole output bytes"

say "4. The same command again: it resumes"
summary=$(dedup --store "$store" --output "$output")
sed -n 's/^firstseen: /  it says: /p' "$work/stderr"
grep -q resuming "$work/stderr" || fail "the job was not resumed"
expect "$summary" 9999 9803 196
cmp "$output" "$work/expected.csv" || fail "the output differs from the uninterrupted one"
show "the output is byte for byte the uninterrupted one ($(bytes "$output") bytes)"

say "5. The library with a stock table: orders redelivered three times, from two threads"
cargo run --release --features cli --example stock || fail "the example ended with an error"

say "All of it holds."
