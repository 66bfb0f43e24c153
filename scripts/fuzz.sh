#!/usr/bin/env bash
# Fuzzes every target in fuzz/fuzz_targets, one after another: scripts/fuzz.sh SECONDS [TARGET...]
#
# The fuzzer instruments Rust code only, so the RocksDB that the ordinary build has compiled is
# linked as it is, without a sanitizer: RocksDB's C++ has none to match. A failing input stays in
# fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/rocksdb.sh

secs=${1:-60}
shift || true

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: installing cargo-fuzz"
    cargo install cargo-fuzz --locked
fi

# The binding must be of the version whose archive is linked.
cp Cargo.lock fuzz/Cargo.lock

link_rocksdb fuzz

if (($# == 0)); then
    for file in fuzz/fuzz_targets/*.rs; do
        set -- "$@" "$(basename "$file" .rs)"
    done
fi
for target in "$@"; do
    echo "fuzz: $target for $secs s"
    mkdir -p "fuzz/corpus/$target"
    seeds=()
    if [[ -d fuzz/seeds/$target ]]; then seeds=("fuzz/seeds/$target"); fi
    cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" ${seeds[@]+"${seeds[@]}"} -- \
        -max_total_time="$secs" -timeout=20 -print_final_stats=1
done
