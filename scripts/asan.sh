#!/usr/bin/env bash
# Runs the library's own tests and tests/it under AddressSanitizer: scripts/asan.sh [FILTER...]
#
# Rust code is instrumented; RocksDB's C++ is linked as the ordinary build has compiled it, so
# what is found is what our code does: its unsafe blocks, and memory that it hands to RocksDB or
# gets from there (the allocator is the sanitizer's for both). Leaks are found in both.
#
# Nothing is left out. What leaks and isn't ours is listed, with the reason, in asan.supp.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/rocksdb.sh

link_rocksdb asan
export RUSTFLAGS="-Zsanitizer=address"
export LSAN_OPTIONS="suppressions=$PWD/scripts/asan.supp:print_suppressions=0"
export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1"
host=x86_64-unknown-linux-gnu
cargo=(cargo test --release -p firstseen --target "$host" --features cli,raw,testing,failpoints,metrics,tracing)

"${cargo[@]}" --lib -- "$@"
"${cargo[@]}" --test it -- "$@"
