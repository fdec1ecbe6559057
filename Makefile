# ringlet: the front door. meson.build is the one build definition.

BUILD ?= build
MESON_OPTIONS ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
# A build on its way out of the environment it was started from: the demo's
# data set, Debian's where it is installed, the small one of this repository
# where not.
FASHION_MNIST ?= $(firstword $(wildcard /usr/share/datasets/fashion-mnist) \
                   data/fashion-mnist-mini)

.DEFAULT_GOAL := build
.PHONY: deps build demo test bench check-deps size install asan tsan clang
.PHONY: differential fashion-matrix losses fuzz soak help clean static cross
.PHONY: crash mpi ci ci-full coverage format format-check stack tidy mixed dist
.PHONY: dist-check reference sim

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

deps: ## installs what the build and the tests need, or says what to install
	@tools/deps.sh

# Of meson test: --suite NAME, --no-suite NAME. Without, all tests.
SUITE ?=
TARGETS = $(if $(SUITE),$$(tools/test_targets.py $(BUILD) $(SUITE)))

SETUP = meson setup $(1) $(BUILD) $(MESON_OPTIONS) >$(BUILD).log 2>&1 || \
	  { cat $(BUILD).log; exit 1; }; mv $(BUILD).log $(BUILD)/setup.log; \
	  echo $(MESON_OPTIONS) >$(BUILD)/make_options

# A folder that was set up with other MESON_OPTIONS takes these; with none given
# it keeps its own.
build: deps $(BUILD)/build.ninja ## the library, the program and the samples
	@options=$$(echo $(MESON_OPTIONS)); [ -z "$$options" ] || \
	  [ "$$options" = "$$(cat $(BUILD)/make_options 2>/dev/null)" ] || \
	  { $(call SETUP,--reconfigure); }
	@$(if $(SUITE),ninja -C $(BUILD) build.ninja >$(BUILD)/setup.log || \
	  { cat $(BUILD)/setup.log; exit 1; }) # or TARGETS would be of before
	@ninja -C $(BUILD) -n $(TARGETS) | grep -q 'no work to do' || \
	  ninja -C $(BUILD) -j $(JOBS) $(TARGETS)

$(BUILD)/build.ninja:
	@$(SETUP)

demo: ## trains the tutorials' model with two workers, and evaluates it
	@$(MAKE) --no-print-directory build \
	  TARGETS='tools/ringlet/ringlet samples/fashion_mnist'
	@$(BUILD)/tools/ringlet/ringlet launch -n 2 -- \
	  $(BUILD)/samples/fashion_mnist $(FASHION_MNIST)

test: build check-deps ## all tests; ends with `N passed, N failed`
	@rm -f $(BUILD)/meson-logs/testlog.junit.xml
	@meson test -C $(BUILD) --no-rebuild --num-processes $(JOBS) \
	  --print-errorlogs $(SUITE) || true
	@tools/test_summary.py $(BUILD)/meson-logs/testlog.junit.xml

crash: build ## 100,000 simulated power cuts, and an ext4 shut down 50 times
	@RINGLET_CRASH_STATES=100000 $(BUILD)/tests/checkpoint_crash_test
	@RINGLET_SHUTDOWNS=50 $(BUILD)/tests/real_disk_test

LOSSES ?= 30

losses: build ## jobs that lose workers in every way, LOSSES times each
	@RINGLET_LOSSES=$(LOSSES) RINGLET_BUILD=$(BUILD) $(BUILD)/tests/job_test

SEEDS ?= 100000

sim: build ## SEEDS whole jobs on a simulated network with faults; or CASE=n alone
	@$(if $(CASE),RINGLET_SIM_SEED=$(CASE),RINGLET_SIM_SEEDS=$(SEEDS)) \
	  $(BUILD)/tests/simulator_test

soak: build ## 200,000 all-reduces, and five minutes on a machine twice busy
	@tests/soak.py $(BUILD) 100000 300

bench: ## speeds, as ratios to a limit or a peer measured in the same run
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory build
	@tools/bench.py $(BUILD)

stack: ## the largest stack frames of the library and the program
	@$(MAKE) --no-print-directory build BUILD=build-stack \
	  MESON_OPTIONS='-Dcpp_args=-fstack-usage -Dtests=false $(MESON_OPTIONS)'
	@find build-stack -name '*.su' -exec cat {} + | \
	  awk -F'\t' '{ print $$2 "\t" $$1 }' | sort -rnu | sed 10q

check-deps: ## core includes only core; net and io never each other
	@tools/check_deps.py

size: static ## bytes of the stripped programs of every build there is
	@tools/size.py $(sort $(BUILD) $(STATIC_BUILD) \
	  $(patsubst %/build.ninja,%,$(wildcard $(BUILD)-*/build.ninja)))

# BLIS: haswell, cortexa57 or generic (one kernel set, the rest trimmed), system
# (all of them), none (ringlet's own loops).
BLIS_x86_64 = haswell
BLIS_aarch64 = cortexa57
BLIS_arm64 = cortexa57
BLIS ?= $(or $(BLIS_$(or $(ARCH),$(shell uname -m))),generic)
STATIC_BUILD = $(BUILD)-static-$(BLIS)
STATIC_LIMIT_arm64 = 2600000
STATIC_LIMIT_armhf = 2000000
STATIC_LIMIT_s390x = 2600000
STATIC_LIMIT ?= $(or $(STATIC_LIMIT_$(ARCH)),3000000)

static: ## programs without shared libraries; BLIS=haswell|generic|system|none
	@tools/deps.sh static
	@$(MAKE) --no-print-directory build BUILD=$(STATIC_BUILD) \
	  MESON_OPTIONS='-Dstatic=true -Dblis=$(BLIS) $(MESON_OPTIONS)'
	@rm -f $(STATIC_BUILD)/meson-logs/testlog.junit.xml
	@meson test -C $(STATIC_BUILD) --no-rebuild --print-errorlogs \
	  --suite static --num-processes $(JOBS) || true
	@tools/test_summary.py $(STATIC_BUILD)/meson-logs/testlog.junit.xml
	@tools/size.py $(if $(filter system,$(BLIS)),,--limit $(STATIC_LIMIT)) \
	  $(STATIC_BUILD)

CROSS_FILES = $(if $(ARCH),--cross-file .deps/$(ARCH)/sysroot.ini --cross-file tools/cross/$(ARCH).ini)

cross: ## static programs for ARCH=arm64|armhf|s390x; tested under qemu
	@tools/deps.sh cross $(ARCH)
	@$(MAKE) --no-print-directory build BUILD=$(BUILD)-$(ARCH) \
	  MESON_OPTIONS='$(CROSS_FILES) -Dstatic=true -Dblis=$(BLIS) $(MESON_OPTIONS)'
	@rm -f $(BUILD)-$(ARCH)/meson-logs/testlog.junit.xml
	@meson test -C $(BUILD)-$(ARCH) --no-rebuild --print-errorlogs \
	  --no-suite native --num-processes $(JOBS) --timeout-multiplier 10 || true
	@tools/test_summary.py $(BUILD)-$(ARCH)/meson-logs/testlog.junit.xml
	@tools/size.py --limit $(STATIC_LIMIT) $(BUILD)-$(ARCH)

DIST ?= dist

dist: ## dist/ringlet-VERSION-linux-ARCH.tar.gz, for this machine or ARCH
	@tools/deps.sh $(if $(ARCH),cross $(ARCH),static)
	@$(MAKE) --no-print-directory build BUILD=$(BUILD)-dist$(ARCH:%=-%) \
	  MESON_OPTIONS='$(CROSS_FILES) -Dstatic=true -Dblis=$(BLIS) -Dtests=false $(MESON_OPTIONS)'
	@tools/dist.py $(BUILD)-dist$(ARCH:%=-%) $(DIST)

dist-check: ## the commit built twice gives the same tarball, byte for byte
	@tools/dist_check.sh $(ARCH)

mixed: ## four architectures in one job; after make static and make cross of each
	@tests/mixed_ring_test.py $(STATIC_BUILD) \
	  $(foreach arch,arm64 armhf s390x,$(BUILD)-$(arch)) || [ $$? = 77 ]

COUNT ?= 2000
SEED ?= 1

differential: build ## COUNT random Keras models of SEED against NumPy; or CASE=n alone
	@tests/differential.py $(BUILD) --seed $(SEED) --jobs $(JOBS) \
	  $(if $(CASE),--case $(CASE),--count $(COUNT)) $(if $(KEEP),--keep $(KEEP))

# More of tests/fashion_matrix.py's flags: MATRIX='--batch 100,128 --workers 1'.
MATRIX ?=

fashion-matrix: ## every batch size on Fashion-MNIST against PyTorch; minutes
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory build
	@tests/fashion_matrix.py $(BUILD) $(MATRIX)

FUZZ_RUNS ?= 1000000

fuzz: ## every fuzz entry under libFuzzer, ASan and UBSan; FUZZ_RUNS each
	@tools/deps.sh fuzz
	@CXX=clang++ $(MAKE) --no-print-directory build BUILD=build-fuzz \
	  MESON_OPTIONS='-Dfuzz=true --buildtype=debugoptimized'
	@for entry in build-fuzz/tests/fuzz/*_libfuzzer; do \
	  name=$$(basename $$entry _fuzz_libfuzzer); \
	  corpus=build-fuzz/corpus/$$name; mkdir -p $$corpus; \
	  echo "$$name: $(FUZZ_RUNS) runs"; \
	  $$entry -runs=$(FUZZ_RUNS) -max_len=4096 -print_final_stats=1 \
	    $$corpus tests/fuzz/corpus/$$name >build-fuzz/$$name.log 2>&1 || \
	    { tail -40 build-fuzz/$$name.log; exit 1; }; \
	  grep number_of_executed_units build-fuzz/$$name.log; \
	done

# Whatever prefix the build was set up with, it stays: what is installed finds
# its other parts from where it is.
install: build ## program, headers and libraries under PREFIX (and DESTDIR)
	@rm -rf $(BUILD)/install && mkdir -p $(BUILD)/install
	@meson install -C $(BUILD) --quiet --no-rebuild \
	  --destdir $(abspath $(BUILD)/install)
	@prefix=$$(meson introspect $(BUILD) --buildoptions | python3 -c 'import json, sys; \
	  print(*[o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"])') && \
	mkdir -p "$(DESTDIR)$(PREFIX)" && \
	cp -dR --preserve=mode,timestamps "$(BUILD)/install$$prefix/." \
	  "$(DESTDIR)$(PREFIX)"
	@rm -rf $(BUILD)/install

asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory test BUILD=build-asan \
	  MESON_OPTIONS='-Db_sanitize=address,undefined -Db_lundef=false -Dcpp_args=-fno-sanitize=vptr --buildtype=debugoptimized'

mpi: ## the tests, with collectives over Open MPI built in
	@tools/deps.sh mpi
	@$(MAKE) --no-print-directory test BUILD=build-mpi \
	  MESON_OPTIONS=-Dmpi=enabled

tsan: ## the tests under ThreadSanitizer
	@$(MAKE) --no-print-directory test BUILD=build-tsan \
	  MESON_OPTIONS='-Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized'

clang: ## built by clang, which must say nothing, and tested
	@tools/deps.sh clang
	@CXX=clang++ $(MAKE) --no-print-directory test BUILD=build-clang \
	  MESON_OPTIONS=--werror

reference: build ## docs/reference.md, of what the code says
	@tools/reference/write.py $(BUILD) >docs/reference.md.new
	@mv docs/reference.md.new docs/reference.md

format: ## formats the sources
	@tools/deps.sh tidy
	@clang-format -i $$(git ls-files '*.cc' '*.h')

format-check: ## the lines changed since BASE are formatted
	@tools/deps.sh tidy
	@base=$$(tools/changed.sh) || { code=$$?; echo "$$base"; exit $$code; }; \
	change=$$(git clang-format --diff --extensions cc,h $$base) && \
	case $$change in *--git*) echo "$$change"; exit 1 ;; esac

# changed: the files changed since BASE; all.
TIDY ?= changed

# Of what this build compiles: without MPI not its collective.
tidy: $(BUILD)/build.ninja ## clang-tidy of the files changed since BASE; TIDY=all
	@tools/deps.sh tidy
	@if [ $(TIDY) = all ]; then files=$$(git ls-files '*.cc'); else \
	  base=$$(tools/changed.sh) || { code=$$?; echo "$$base"; exit $$code; }; \
	  files=$$(git diff --name-only --diff-filter=d $$base -- '*.cc'); \
	fi; \
	echo "$$files" | grep -E '^(core|io|net|samples|tools)/' | \
	  while read -r file; do \
	    ! grep -q "/$$file\"" $(BUILD)/compile_commands.json || echo "$$file"; \
	  done | xargs -r -P $(JOBS) -n 2 clang-tidy -p $(BUILD) --quiet

coverage: ## lines that the tests reach, in core, io and net: COVERAGE percent
	@tools/deps.sh coverage
	@$(MAKE) --no-print-directory test BUILD=build-coverage \
	  MESON_OPTIONS='-Db_coverage=true -Doptimization=1'
	@tools/coverage.sh build-coverage

ci: ## what .ci/run runs: see tools/ci.py
	@tools/ci.py

ci-full: ## every compiler, sanitizer and machine; hours
	@tools/ci.py full

clean: ## removes the builds
	@rm -rf build build-* dist
