# Aliases; the rules themselves are tests. `make run` and `make test` need no preparation.

export PATH := $(CURDIR)/.tools/bin:$(PATH)

CARGO ?= cargo
ARGS ?=
MUTATOR_TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)/mutator

.PHONY: help run test check check-long linearizability fix bench profile bench-core graph instructions tools fmt-check \
	clippy doc proto chart deny advisories release packages-test book pictures simulate fuzz load model planted-faults \
	mutants mutator health-cases

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

run: ## Build for release and serve with the embedded store in ./bellwether-data (ARGS="..." adds flags)
	@[ -e "$${CARGO_TARGET_DIR:-target}/release/bellwether" ] || \
	  echo "The first build compiles all libraries: about 6 minutes on 2 cores. docs/install.md has ways without."
	$(CARGO) run --locked --release -- serve $(ARGS)

# The tests of the load generator start the server, which cargo builds for the tests of the whole workspace.
test: tools ## Install what the tests need, then run them all, also after one fails
	$(CARGO) test --locked --workspace --no-fail-fast
	@tools/say-missing

check: tools fmt-check proto chart deny clippy test mutator doc book ## The gate: format, protos, chart, crates, lints, tests, documentation; changes no source file

check-long: tools ## The soaks, the simulation, the models, the planted faults, the mutants, the fuzz targets, the chart on a kube-apiserver, the packages; hours
	BELLWETHER_IN_FORCE_SECONDS=600 $(CARGO) test --locked --test it -- in_force::what_is --nocapture
	$(MAKE) load
	BELLWETHER_ELECTIONS_SECONDS=240 $(CARGO) test --locked --test it -- elections:: --nocapture
	BELLWETHER_EACH_STEP=1 $(CARGO) test --locked --lib -- a_crash_between_two_steps
	BELLWETHER_EACH_DAMAGE=1 $(CARGO) test --locked --lib -- no_damaged_log --nocapture
	BELLWETHER_NOTIFY_INCIDENTS=1000000 $(CARGO) test --locked --release --lib -- each_problem_has_one_end --nocapture
	BELLWETHER_NOTIFY_FLIPS=10000 BELLWETHER_NOTIFY_APPLICATIONS=10000 \
	  $(CARGO) test --locked --release --test it -- notifier_measured:: --nocapture --test-threads 1
	BELLWETHER_RELAY_EVENTS=10000000 $(CARGO) test --locked --test it -- relay_soak:: --nocapture
	$(CARGO) build --locked --bin bellwether
	BELLWETHER_ALL_HOOKS=1 BELLWETHER_BINARY="$${CARGO_TARGET_DIR:-target}/debug/bellwether" \
	  .tools/venv/bin/python -m unittest discover --start-directory clients/python/tests --pattern test_hooks.py
	$(MAKE) simulate ARGS="--seeds 200 --minutes 10 --twice"
	$(MAKE) model
	$(MAKE) planted-faults
	$(MAKE) mutants
	$(MAKE) linearizability
	$(MAKE) health-cases
	$(MAKE) fuzz
	@tools/install kube
	BELLWETHER_CLUSTER=1 $(MAKE) chart
	$(MAKE) packages-test
	@tools/install icinga
	tools/checks-compare "$${CARGO_TARGET_DIR:-target}/debug/bellwether"
	$(CARGO) build --locked --release --bin bellwether
	tools/checks-cost "$${CARGO_TARGET_DIR:-target}/release/bellwether" --icinga
	tools/import-large "$${CARGO_TARGET_DIR:-target}/release/bellwether"
	@tools/install run
	tools/run-real "$${CARGO_TARGET_DIR:-target}/release/bellwether"
	tools/run-real "$${CARGO_TARGET_DIR:-target}/release/bellwether" --steps all
	tools/run-stops "$${CARGO_TARGET_DIR:-target}/release/bellwether"
	tools/run-kills "$${CARGO_TARGET_DIR:-target}/release/bellwether"
	tools/first-hour
	tools/release-check
	tools/clients-check

linearizability: tools ## Judge 100,000 operations on leases and data under faults by Porcupine; about 10 minutes
	BELLWETHER_LINEARIZABILITY_OPERATIONS=100000 $(CARGO) test --locked --test it -- linearizability:: --nocapture

health-cases: tools ## Compare the imports of Kubernetes and Helm with the cases of kstatus, gitops-engine, Argo CD and Flux, which Go fetches
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && .tools/venv/bin/python tests/sources/cases "$$folder" && \
	  .tools/venv/bin/python tests/sources/scripts "$$folder" .tools/bin/argo-health && \
	  .tools/venv/bin/python tests/sources/releases "$$folder" && \
	  BELLWETHER_HEALTH_CASES="$$folder/cases.jsonl" BELLWETHER_RELEASES="$$folder/releases.jsonl" \
	  $(CARGO) test --locked --lib -- the_cases_of_others the_releases_of_flux --ignored --nocapture

simulate: ## Run replicas in simulated time with faults, from seeds (ARGS="--seed 7 --minutes 10 --trace", "--from-seed 1 --seeds 500 --twice")
	$(CARGO) run --locked --release --quiet -p bellwether-sim -- $(ARGS)

model: ## Explore every order of events of the commit protocol and of leases, within small bounds; minutes, 8 GB (ARGS="--tiny" takes seconds)
	$(CARGO) build --locked --release --quiet -p bellwether-model
	ulimit -v 8000000; "$${CARGO_TARGET_DIR:-target}/release/bellwether-model" $(ARGS)

fuzz: ## Give any bytes to what reads bytes, guided by coverage, a minute for each target; about 10 minutes
	tools/fuzz 60

load: tools ## Report to the embedded store for an hour with limits on its files and memory, then kill the server and compare
	BELLWETHER_LOAD_SECONDS=3600 $(CARGO) test --locked --test it -- bounded_files:: --nocapture

planted-faults: ## Plant the faults of tests/faults one at a time, and print which checker catches each; continues an interrupted run
	tools/planted-faults $(ARGS)

mutants: ## Change the domain in one place at a time, and list in tests/mutants/survivors.md what no test notices; about an hour, continues (ARGS="rank.rs")
	tools/mutants $(ARGS)

# A workspace of its own.
mutator: ## Check the tool that writes the mutants
	$(CARGO) fmt --check --manifest-path tools/mutator/Cargo.toml
	$(CARGO) clippy --locked --manifest-path tools/mutator/Cargo.toml --target-dir $(MUTATOR_TARGET) --all-targets -- \
	  -D warnings
	$(CARGO) test --locked --manifest-path tools/mutator/Cargo.toml --target-dir $(MUTATOR_TARGET)

fix: ## Format, generate the wire types, apply what clippy knows how to fix, and list the values of the chart again
	UPDATE=1 $(CARGO) test --locked --workspace --test generated
	if [ -x .tools/bin/protoc-gen-go ]; then tools/clients; fi
	$(CARGO) fmt --all
	if [ -x .tools/venv/bin/python ]; then .tools/venv/bin/python tools/chart-readme; fi
	$(CARGO) clippy --locked --workspace --all-targets --fix --allow-dirty --allow-staged

bench: tools ## Measure every row of docs/performance.md beside its peer and put the table there; about 20 minutes (ARGS="..." adds flags)
	@tools/install bench
	$(CARGO) build --locked --profile dist -p bellwether -p bellwether-bench --bins
	$(CARGO) run --locked --profile dist -p bellwether-bench -- all --page docs/performance.md $(ARGS)

instructions: tools ## Count the instructions of a report, which do not vary with load, and put them there too
	$(CARGO) run --locked --profile dist -p bellwether-bench -- instructions --page docs/performance.md $(ARGS)

graph: tools ## Draw throughput and delay of rows 1, 2, 3 and 6 as the load grows into docs/images; about 4 minutes (ARGS="..." adds flags)
	@tools/install bench
	$(CARGO) build --locked --profile dist -p bellwether -p bellwether-bench --bins
	$(CARGO) run --locked --profile dist -p bellwether-bench -- graph --out docs/images/load.svg $(ARGS)

profile: ## Show where the server spends a row (ARGS="streams --store memory --alone"); needs perf, Debian's linux-perf
	$(CARGO) build --locked --profile dist -p bellwether -p bellwether-bench --bins
	tools/profile -- $(ARGS)

bench-core: ## Time the core alone, as an application grows (ARGS="..." narrows)
	$(CARGO) bench --locked -p bellwether-bench --bench core -- $(ARGS)

tools: ## Install what the tests need: into .tools/, and Debian packages
	@tools/install

# The tests start the server, so that arguments, probes and metrics are those of the real one.
chart: ## Check the Helm chart on Helm 4 and 3; installs them first, which takes minutes once
	@tools/install chart
	$(CARGO) build --locked --bin bellwether
	@tools/chart-check

deny: ## Check licences, sources, duplicates and bans of the crates (deny.toml)
	@tools/install deny
	@tools/deny-check

advisories: ## Look for known vulnerabilities in DB=FOLDER, a clone of github.com/rustsec/advisory-db
	@tools/install deny
	@tools/deny-check advisories "$(DB)"

book: ## Render the documents as a book into target/book, and check its links
	@tools/install book
	tools/book

pictures: tools ## Draw the pictures of the README again: a terminal by its commands, the status page by a browser
	UPDATE=1 $(CARGO) test --locked --test it -- pictures::
	$(CARGO) build --locked --bin bellwether
	node tests/interop/page_shots.mjs "$${CARGO_TARGET_DIR:-target}/debug/bellwether" docs/images

release: ## Make the archive, .deb, image, chart, checksums and bill of materials in target/release-artefacts
	tools/release

packages-test: release ## Install each artefact of the release, and run the first screen of the README against it
	@tools/install packages
	PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover --start-directory tests/packages --verbose

fmt-check:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

# All features of crates/fuzz are libFuzzer, which takes a minute to compile.
doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --exclude bellwether-fuzz --no-deps --all-features

# The protos may only grow, compared with the last release and with main.
proto: tools
	tools/proto-check
