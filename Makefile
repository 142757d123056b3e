# Aliases; the rules themselves are tests. `make run` and `make test` need nothing done before them.

export PATH := $(CURDIR)/.tools/bin:$(PATH)

CARGO ?= cargo
ARGS ?=

.PHONY: help run test check fix bench tools fmt-check clippy doc proto chart

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

run: ## Build for release and serve with the embedded store in ./bellwether-data (ARGS="..." adds flags)
	$(CARGO) run --locked --release -- serve $(ARGS)

test: tools ## Install what the tests need, then run them all
	$(CARGO) test --locked
	@tools/say-missing

check: tools fmt-check proto chart clippy test doc ## The gate: format, protos, chart, lints, tests, documentation; writes nothing

fix: ## Format, apply what clippy knows how to fix, and list the values of the chart anew
	$(CARGO) fmt
	if [ -x .tools/venv/bin/python ]; then .tools/venv/bin/python tools/chart-readme; fi
	$(CARGO) clippy --locked --all-targets --fix --allow-dirty --allow-staged

bench: tools ## Measure reports, delays, silence and heartbeats beside etcd, collects and the loss of a replica; about 9 minutes (ARGS="..." adds flags)
	$(CARGO) run --locked --release -- bench ingest $(ARGS)
	$(CARGO) run --locked --release -- bench ingest --store redis --fsync everysec $(ARGS)
	$(CARGO) run --locked --release -- bench ingest --store redis --fsync always $(ARGS)
	$(CARGO) run --locked --release -- bench streams $(ARGS)
	$(CARGO) run --locked --release -- bench streams --store embedded $(ARGS)
	$(CARGO) run --locked --release -- bench replicas $(ARGS)
	$(CARGO) run --locked --release -- bench collect $(ARGS)
	$(CARGO) run --locked --release -- bench silence $(ARGS)
	$(CARGO) run --locked --release -- bench heartbeats $(ARGS)
	$(CARGO) run --locked --release -- bench election $(ARGS)
	$(CARGO) run --locked --release -- bench loss $(ARGS)

tools: ## Install what the tests need into .tools/, and two Debian packages
	@tools/install

chart: ## Check the Helm chart on Helm 4 and 3; installs them first, which takes minutes once
	@tools/install chart
	@tools/chart-check

fmt-check:
	$(CARGO) fmt --check

clippy:
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --lib --no-default-features --features client -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

# Since the first release the protos may only grow; before it there is nothing to compare with.
proto: tools
	tools/proto-check
