# Everything is built with one profile and one set of features, so that RocksDB's C++ is compiled
# once; the target directory is shared by every checkout for the same reason.

FEATURES := cli,raw,testing,failpoints,metrics,tracing
SECS ?= 60
HOURS ?=
MINUTES ?=
export HOURS MINUTES
KILLS ?= 1000
CUTS ?= 300
CYCLES ?= 5000
TARGET ?=
ARGS ?=

CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/firstseen/target
export CARGO_TARGET_DIR
export FEATURES

.PHONY: help prepare demo test lint bench compare instructions fuzz soak asan crash powercut faults

help: ## Show this list.
	@awk -F ': .*## |: ## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

prepare: ## Check for what a build needs, and install libclang when it is missing.
	@scripts/prepare.sh

demo: prepare ## See duplicates, a crash and a recovery on real order lines.
	@scripts/demo.sh

test: prepare ## Run every test, documentation example, and each benchmark once.
	cargo test --release --workspace --features $(FEATURES)
	cargo test --release --workspace --features $(FEATURES) --benches

# Features are also checked one by one, of the library alone: beside the comparison it has what
# that asks for. And with all targets: without those dependencies the shared build dependencies
# would have other features, and RocksDB would be compiled again.
lint: prepare ## Check format, clippy of every feature, and documentation; any warning fails.
	cargo fmt --all --check
	rustfmt --edition 2024 --check fuzz/fuzz_targets/*.rs fuzz/bodies/*.rs
	cargo clippy --release --workspace --all-targets --features $(FEATURES) -- -D warnings
	for feature in "" cli raw testing failpoints metrics tracing; do \
	cargo clippy --release -p firstseen --all-targets --features "$$feature" -- -D warnings \
	|| exit 1; done
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --features $(FEATURES)

bench: prepare ## Run the benchmarks; ARGS="..." goes to criterion.
	cargo bench -p firstseen --features cli,testing --benches -- $(ARGS)

# By manifest, as another package named compare is among the dependencies.
compare: prepare ## Measure against other engines; ARGS="..." goes to the program.
	cargo run --release --manifest-path compare/Cargo.toml -- $(ARGS)

instructions: prepare ## Count the main paths' instructions against the record; UPDATE=1 records.
	@scripts/instructions.sh

asan: prepare ## Run the tests under AddressSanitizer; ARGS="..." filters them.
	@scripts/asan.sh $(ARGS)

fuzz: prepare ## Fuzz each target, or TARGET, for SECS seconds (60).
	@scripts/fuzz.sh $(SECS) $(TARGET)

# A test binary of its own: with features and profile of the tests, nothing is built twice.
soak: prepare ## Run everything at once for HOURS or MINUTES; RECORD=1 appends to docs/soak.md.
	cargo test --release --workspace --features $(FEATURES) --test soak

crash: prepare ## Kill a working store KILLS times (1000) and look; SEED=n repeats.
	@scripts/crash.sh crash

powercut: prepare ## Cut its power CUTS times (300) on ext4, CUTS_XFS on XFS (as root); SEED=n.
	@scripts/crash.sh powercut

faults: prepare ## Drop what was not synced, and fail calls, over CYCLES cycles (5000); SEED=n.
	@scripts/crash.sh faults
