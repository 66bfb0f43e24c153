# Everything is built with one profile and one set of features, so that RocksDB's C++ is compiled
# once; the target directory is shared by every checkout for the same reason.

FEATURES := cli,raw,testing,failpoints
SECS ?= 60
ARGS ?=

CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/firstseen/target
export CARGO_TARGET_DIR

.PHONY: help prepare demo test lint bench compare fuzz

help: ## Show this list.
	@awk -F ': .*## |: ## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

prepare: ## Check for what a build needs, and install libclang when it is missing.
	@scripts/prepare.sh

demo: prepare ## See duplicates, a crash and a recovery on real order lines.
	@scripts/demo.sh

# The checks of single features take the whole workspace: alone, the library would give the shared
# build dependencies other features, and RocksDB would be compiled again.
test: prepare ## Run every test, documentation example and feature check.
	cargo test --release --workspace --features $(FEATURES)
	cargo check --release --workspace
	cargo check --release --workspace --features cli
	cargo check --release --workspace --features raw
	cargo check --release --workspace --features testing

lint: prepare ## Check format, clippy and documentation; any warning fails.
	cargo fmt --all --check
	rustfmt --edition 2024 --check fuzz/fuzz_targets/*.rs
	cargo clippy --release --workspace --all-targets --features $(FEATURES) -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --features $(FEATURES)

bench: prepare ## Run the benchmarks; ARGS="..." goes to criterion.
	cargo bench --features testing --benches -- $(ARGS)

# By manifest, as another package named compare is among the dependencies.
compare: prepare ## Measure against other engines; ARGS="..." goes to the program.
	cargo run --release --manifest-path compare/Cargo.toml -- $(ARGS)

fuzz: prepare ## Fuzz each target for SECS seconds (60).
	@scripts/fuzz.sh $(SECS)
