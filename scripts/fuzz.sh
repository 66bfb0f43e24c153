#!/usr/bin/env bash
# Fuzzes targets, one after another: scripts/fuzz.sh SECONDS [TARGET...], by default all of
# fuzz/fuzz_targets. A failing input stays in fuzz/artifacts and ends the run.
#
# The fuzzer instruments Rust code only, so the RocksDB that the ordinary build has compiled is
# linked as it is, without a sanitizer: RocksDB's C++ has none to match.
#
# COUNTS=FILE appends a line for each target: name, CPU seconds, executions, coverage.
# SEEDS=N writes the N smallest inputs that reach all that the corpus reaches to fuzz/seeds,
# instead of fuzzing; what was found or made stays there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/rocksdb.sh

secs=${1:-60}
shift || true

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: installing cargo-fuzz"
    cargo install cargo-fuzz --locked || {
        echo "SKIPPED: fuzzing: there is no cargo-fuzz, and it can't be installed" >&2
        exit 77
    }
fi

# The binding must be of the version whose archive is linked.
cp Cargo.lock fuzz/Cargo.lock

link_rocksdb fuzz
cargo fuzz build --sanitizer none
programs=("$CARGO_TARGET_DIR"/*-linux-*/release)

# Runs a target for so long; its own words go to a file, the last of them are shown.
fuzz() {
    local target=$1 log cpu
    log=$(mktemp)
    echo "fuzz: $target for $secs s"
    TIMEFORMAT='%U %S'
    if ! cpu=$({ time "${programs[0]}/$target" "fuzz/corpus/$target" "fuzz/seeds/$target" \
        -artifact_prefix="fuzz/artifacts/$target/" -max_total_time="$secs" -timeout=20 \
        -len_control=0 -max_len=2000 -rss_limit_mb=2048 -print_final_stats=1 2>"$log"; } 2>&1); then
        tail -n 60 "$log"
        echo "fuzz: $target failed; the input is in fuzz/artifacts/$target"
        exit 1
    fi
    local runs cov
    runs=$(awk '/number_of_executed_units/ { print $2 }' "$log")
    cov=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d ' ' -f 2)
    cpu=$(awk '{ printf "%.1f", $1 + $2 }' <<<"$cpu")
    echo "fuzz: $target passed: $runs executions in $cpu s of CPU, coverage $cov"
    if [[ -n ${COUNTS:-} ]]; then
        printf '%s\t%s\t%s\t%s\n' "$target" "$cpu" "$runs" "$cov" >>"$COUNTS"
    fi
    rm -f "$log"
}

# Makes a target's corpus its seeds.
keep_seeds() {
    local target=$1 least
    least=$(mktemp -d)
    "${programs[0]}/$target" -merge=1 -timeout=20 -rss_limit_mb=2048 \
        "$least" "fuzz/seeds/$target" "fuzz/corpus/$target" 2>/dev/null
    find "fuzz/seeds/$target" -type f ! -name 'found-*' ! -name 'made-*' -delete
    find "$least" -type f -size -8 -printf '%s %f\n' | sort -n | head -n "$SEEDS" |
        while read -r _ file; do cp "$least/$file" "fuzz/seeds/$target/${file:0:16}"; done
    rm -rf "$least"
    echo "fuzz: $target has $(find "fuzz/seeds/$target" -type f | wc -l) seeds"
}

if (($# == 0)); then
    for file in fuzz/fuzz_targets/*.rs; do
        set -- "$@" "$(basename "$file" .rs)"
    done
fi
for target in "$@"; do
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target" "fuzz/seeds/$target"
    if [[ -n ${SEEDS:-} ]]; then keep_seeds "$target"; else fuzz "$target"; fi
done
