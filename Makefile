# ringlet: the front door. meson.build is the one build definition.

BUILD ?= build
MESON_OPTIONS ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
# The demo's data set: Debian's where it is installed, the small one of this
# repository elsewhere. Looked up when a command runs: tools/deps.sh may install it.
FASHION_MNIST ?= $$(ls -d /usr/share/datasets/fashion-mnist 2>/dev/null || \
                   echo data/fashion-mnist-mini)

.DEFAULT_GOAL := build
.PHONY: help deps configure build demo tests test bench sim check-deps static small cross dist
.PHONY: fuzz deb long install reference format lint ci clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

# --- variants: other compilers, sanitizers, parts; each in build-VARIANT ---

OPTIONS_asan = -Db_sanitize=address,undefined -Db_lundef=false \
  -Dcpp_args=-fno-sanitize=vptr --buildtype=debugoptimized
OPTIONS_tsan = -Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized
OPTIONS_clang = --werror
OPTIONS_mpi = -Dmpi=enabled
OPTIONS_coverage = -Db_coverage=true -Doptimization=1
ifdef VARIANT
  ifndef OPTIONS_$(VARIANT)
    $(error VARIANT=$(VARIANT): there are asan, tsan, clang, mpi and coverage)
  endif
  BUILD = build-$(VARIANT)
  override MESON_OPTIONS := $(OPTIONS_$(VARIANT)) $(MESON_OPTIONS)
endif
ifeq ($(VARIANT),clang)
  export CXX = clang++
endif

deps: ## installs what the build and the tests need, or says what to install
	@tools/deps.sh $(filter clang mpi coverage,$(VARIANT))

# Of meson test: --suite NAME, --no-suite NAME. Without, all tests.
SUITE ?=

SETUP = meson setup $(1) $(BUILD) $(MESON_OPTIONS) >$(BUILD).log 2>&1 || \
	  { cat $(BUILD).log; exit 1; }; mv $(BUILD).log $(BUILD)/setup.log; \
	  echo $(MESON_OPTIONS) >$(BUILD)/make_options

# A folder that was set up with other MESON_OPTIONS takes these; with none given
# it keeps its own.
configure: deps $(BUILD)/build.ninja
	@options=$$(echo $(MESON_OPTIONS)); [ -z "$$options" ] || \
	  [ "$$options" = "$$(cat $(BUILD)/make_options 2>/dev/null)" ] || \
	  { $(call SETUP,--reconfigure); }
	@ninja -C $(BUILD) build.ninja >$(BUILD)/setup.log || \
	  { cat $(BUILD)/setup.log; exit 1; }

# $(1): the targets to build; empty for the library, the program and the samples.
define NINJA
	@ninja -C $(BUILD) -n $(1) | grep -q 'no work to do' || \
	  ninja -C $(BUILD) -j $(JOBS) $(1)
endef

TARGETS ?= programs

build: configure ## the library, the program and the samples
	$(call NINJA,$(TARGETS))

# Builds the programs that `meson test` runs for SUITE.
tests: configure
	$(call NINJA,$(if $(SUITE),$$(tools/test_targets.py $(BUILD) $(SUITE)),meson-test-prereq))

$(BUILD)/build.ninja:
	@$(SETUP)

demo: ## trains the tutorials' model with two workers, and evaluates it
	@$(MAKE) --no-print-directory build \
	  TARGETS='tools/launch samples/fashion_mnist'
	@$(BUILD)/tools/launch 2 $(BUILD)/samples/fashion_mnist $(FASHION_MNIST)

# Tests of several workers wait more than they compute: three times as many run
# as there are processors. $(1): flags of meson test.
define RUN_TESTS
	@rm -f $(BUILD)/meson-logs/*.junit.xml
	@meson test -C $(BUILD) --no-rebuild --num-processes $$(($(JOBS) * 3)) \
	  --print-errorlogs $(1) || true
	@tools/test_summary.py $(BUILD)/meson-logs/testlog.junit.xml
endef

test: tests check-deps ## all tests, or VARIANT=asan|tsan|clang|mpi|coverage
	$(call RUN_TESTS,$(SUITE))
	@$(if $(filter coverage,$(VARIANT)),tools/coverage.sh $(BUILD))

SEEDS ?= 100000
FIRST ?= 0

sim: TARGETS = tests/net_simulator_test
sim: build ## SEEDS whole jobs on a simulated network, FIRST=n on; or CASE=n alone, with LARGE=1, ELASTIC=1 or TRAINING=1
	@$(if $(CASE),RINGLET_SIM$(if $(LARGE),_LARGE)$(if $(ELASTIC),_ELASTIC)$(if $(TRAINING),_TRAINING)_SEED=$(CASE),RINGLET_SIM_SEEDS=$(SEEDS) RINGLET_SIM_FIRST=$(FIRST)) \
	  $(BUILD)/tests/net_simulator_test --gtest_filter='$(if $(TRAINING),Training,$(if $(CASE),,*))SimulatorTest.*'

bench: ## speeds, as ratios to a limit or a peer measured in the same run
	@tools/deps.sh bench
	@$(MAKE) --no-print-directory build TARGETS='programs bench-programs'
	@tools/bench.py $(BUILD)

check-deps: ## includes by layer, plain words, pages that name what exists
	@tools/check_deps.py
	@tools/check_words.py
	@tools/check_docs.py
	@tests/rules.py --check

# --- static programs, of this machine or of ARCH ---

# BLIS: system (its micro-kernels), none (ringlet's own loops).
BLIS ?= system
STATIC_LIMIT_arm64 = 3100000
STATIC_LIMIT_armhf = 2600000
STATIC_LIMIT_s390x = 3500000
STATIC_LIMIT ?= $(or $(STATIC_LIMIT_$(ARCH)),3900000)
# Of a program without features, and those that it has: FEATURES=recurrent,export.
SMALL_LIMIT ?= 1900000
FEATURES ?=
# What these build beside the tests of SUITE.
STATIC_TARGETS ?= programs tests/mixed_worker

CROSS_FILES = $(if $(ARCH),--cross-file .deps/$(ARCH)/sysroot.ini \
                --cross-file tools/cross/$(ARCH).ini)
BUILD_STATIC = $(MAKE) --no-print-directory $(2) BUILD=$(BUILD) \
  MESON_OPTIONS='$(CROSS_FILES) -Dstatic=true -Db_staticpic=false -Dblis=$(BLIS) $(1) $(MESON_OPTIONS)'

static: override BUILD := $(BUILD)-static-$(BLIS)
static: override SUITE := --suite static
static: ## programs without shared libraries; BLIS=system|none
	@tools/deps.sh static
	@$(call BUILD_STATIC,,build tests SUITE='$(SUITE)' TARGETS='$(STATIC_TARGETS)')
	$(call RUN_TESTS,$(SUITE))
	@tools/size.py --limit $(STATIC_LIMIT) $(BUILD)
	@$(MAKE) --no-print-directory small WHOLE=$(BUILD)/tools/ringlet/ringlet

small: override BUILD := $(BUILD)-small-$(BLIS)
small: ## the smallest static program, or with FEATURES (docs/porting.md)
	@tools/deps.sh static
	@$(call BUILD_STATIC,-Dfeatures=$(FEATURES) -Dsecure=disabled -Davx512=false -Dtests=false -Db_lto=true,build TARGETS=tools/ringlet/ringlet)
	@tests/small_program_test.py $(BUILD)/tools/ringlet/ringlet $(WHOLE)
	@tools/size.py --limit $(if $(FEATURES),$(STATIC_LIMIT),$(SMALL_LIMIT)) $(BUILD)

cross: override BUILD := $(BUILD)-$(ARCH)
cross: override SUITE := $(or $(SUITE),--no-suite native)
cross: ## static programs for ARCH=arm64|armhf|s390x; tested under qemu
	@tools/deps.sh cross $(ARCH)
	@$(call BUILD_STATIC,,build tests SUITE='$(SUITE)' TARGETS='$(STATIC_TARGETS)')
	$(call RUN_TESTS,$(SUITE) --timeout-multiplier 10)
	@tools/size.py --limit $(STATIC_LIMIT) $(BUILD)

DIST ?= dist

dist: override BUILD := $(BUILD)-dist$(ARCH:%=-%)
dist: ## dist/ringlet-VERSION-linux-ARCH.tar.gz, for this machine or ARCH
	@tools/deps.sh $(if $(ARCH),cross $(ARCH),static)
	@$(call BUILD_STATIC,-Dtests=false,build)
	@tools/dist.py $(BUILD) $(DIST)

deb: dist ## dist/ringlet_VERSION_ARCH.deb; without ARCH also libringlet-dev
	@$(if $(ARCH),,rm -rf $(BUILD)/debian && \
	  $(MAKE) --no-print-directory install DESTDIR=$(abspath $(BUILD)/debian) PREFIX=/usr)
	@tools/deb.py $(DIST)/ringlet-*-linux-$(or $(ARCH),$(shell dpkg --print-architecture)).tar.gz \
	  $(DIST) $(if $(ARCH),,--install $(BUILD)/debian)

# --- what takes minutes or hours, or as long as it is told to ---

LOSSES ?= 30
KILLS ?= 8
COUNT ?= 2000
BOARDS ?= 100
TABLES ?= 60
SEED ?= 1
# The accuracy that local updates cost, by SETTINGS; hours. tools/studies/local_accuracy.py
LONG_accuracy = tools/studies/local_accuracy.py $(BUILD) --data $(FASHION_MNIST) \
  --csv $(BUILD)/local_accuracy.csv --jobs $(JOBS) $(SETTINGS)
# The samples, and BOARDS random C files that train, on qemu's Cortex-M. The exit code
# is 77 without the tools.
LONG_boards = tests/boards.py $(BUILD) --samples && tests/boards.py $(BUILD) --seed $(SEED) \
  $(if $(CASE),--case $(CASE),--count $(BOARDS)) $(if $(KEEP),--keep $(KEEP))
# 100,000 simulated power cuts, and an ext4 shut down 50 times.
LONG_crash = RINGLET_CRASH_SEEDS=10000 $(BUILD)/tests/io_checkpoint_test --gtest_filter='*CheckpointCrashTest.*' && \
  RINGLET_SHUTDOWNS=50 $(BUILD)/tests/io_files_test --gtest_filter='RealDiskTest.*'
# COUNT random Keras models of SEED against NumPy; or CASE=n alone. TORCH=1: NumPy
# against PyTorch too.
LONG_differential = tests/differential.py $(BUILD) --seed $(SEED) \
  --jobs $(JOBS) $(if $(CASE),--case $(CASE),--count $(COUNT)) \
  $(if $(KEEP),--keep $(KEEP)) $(if $(TORCH),--torch)
# COUNT random models exported, as ONNX and as C, against NumPy and what is there.
LONG_deploy = tests/onnx_test.py $(BUILD) --seed $(SEED) --count $(COUNT) && \
  tests/c_file_test.py $(BUILD) --seed $(SEED) --count $(COUNT)
# The commit built twice gives the same tarball, byte for byte.
LONG_dist = tools/dist_check.sh $(ARCH)
# Elastic jobs whose workers die, stop and are cut off, LOSSES times each way;
# LOCAL=7: in rounds of so many local steps.
LONG_elastic = tests/elastic_faults.py $(BUILD) --seed $(SEED) \
  --times $(LOSSES) $(if $(LOCAL),--local $(LOCAL))
# Every batch size on Fashion-MNIST against PyTorch; with more of its flags:
# MATRIX='--batch 100,128 --workers 1'.
LONG_fashion = tools/deps.sh bench && tools/studies/fashion_matrix.py $(BUILD) $(MATRIX)
# MLPerf Tiny's networks, killed at KILLS random steps each, alone and as jobs.
LONG_kills = tests/tiny_kills.py $(BUILD) --seed $(SEED) --kills $(KILLS)
# exp, log, tanh and the like of all 2^32 floats against float64.
LONG_functions = RINGLET_ALL_FLOATS=1 $(BUILD)/tests/core_compute_test --gtest_filter='FunctionsTest.*'
# Every state of small elastic jobs with more losses: minutes, and 1 GB.
LONG_states = RINGLET_ALL_STATES=1 $(BUILD)/tests/core_recovery_test
# Programs without one feature each, and so with its *_absent.cc.
comma = ,
ALL_FEATURES = recurrent attention export weights tables pictures sound inspection workers
LONG_features = $(foreach feature,$(ALL_FEATURES),$(MAKE) --no-print-directory small \
  FEATURES=$(subst $() ,$(comma),$(filter-out $(feature),$(ALL_FEATURES))) &&) true
# The library compiled once more, as a part of another project.
LONG_install = tests/install_test.py $(BUILD) subproject
# Jobs that lose workers in every way, LOSSES times each.
LONG_losses = RINGLET_LOSSES=$(LOSSES) RINGLET_BUILD=$(BUILD) $(BUILD)/tests/core_job_test
# Four architectures in one job; after make static and make cross of each.
LONG_mixed = tests/mixed_ring_test.py $(BUILD)-static-$(BLIS) \
  $(foreach arch,arm64 armhf s390x,$(BUILD)-$(arch)) || [ $$? = 77 ]
# One file of the trained model: all kernels, threads, workers; killed and not.
LONG_result = tests/one_result.py $(BUILD) --seed $(SEED)
# One is lost or comes back every ten seconds, for ten minutes: the goodput.
LONG_churn = tools/studies/elastic_churn.py $(BUILD) --seed $(SEED) --data $(FASHION_MNIST)
# In a copy, each rule of docs/one_result.md and of how workers leave and join is
# broken, and each defect of tests/planted_defects.py planted. A test must fail.
LONG_rules = tests/rules.py && tests/rules.py --of elastic && \
  tests/rules.py --of defects
# Every compiler, sanitizer and machine, with more seeds; release: the long runs too.
LONG_nightly = tools/ci.py nightly
LONG_release = tools/ci.py release
# Time to an accuracy over slow links, lost packets, slow boards; or PARTS of it.
LONG_slow = tools/studies/slow_study.py $(BUILD) --data $(FASHION_MNIST) \
  --csv $(BUILD) $(PARTS)
# TABLES random tables of SEED as pandas reads them; or CASE=n alone.
LONG_tables = tools/deps.sh tables && tests/tables.py $(BUILD) --seed $(SEED) \
  $(if $(CASE),--case $(CASE),--count $(TABLES)) \
  $(if $(KEEP),--keep $(KEEP)) || [ $$? = 77 ]
# 200,000 all-reduces, and five minutes on a machine twice busy.
LONG_soak = tests/soak.py $(BUILD) 100000 300
# 100,000 strangers in each of four ways at the ports of a job with a key.
LONG_strangers = tests/strangers.py $(BUILD) --count 100000

long: build tests ## RUN=accuracy|boards|churn|crash|deploy|differential|dist|elastic|fashion|features|functions|install|kills|losses|mixed|nightly|release|result|rules|slow|soak|states|strangers|tables: see Makefile
	@$(or $(LONG_$(RUN)),$(error RUN=$(RUN): there is no such long run))

FUZZ_RUNS ?= 1000000

fuzz: ## every fuzz entry under libFuzzer, ASan and UBSan; FUZZ_RUNS each
	@tools/deps.sh fuzz
	@CXX=clang++ $(MAKE) --no-print-directory build BUILD=build-fuzz \
	  MESON_OPTIONS='-Dfuzz=true --buildtype=debugoptimized' TARGETS=all
	@for entry in build-fuzz/tests/fuzz/*_libfuzzer; do \
	  name=$$(basename $$entry _fuzz_libfuzzer); \
	  corpus=build-fuzz/corpus/$$name; mkdir -p $$corpus; \
	  echo "$$name: $(FUZZ_RUNS) runs"; \
	  $$entry -runs=$(FUZZ_RUNS) -max_len=4096 -print_final_stats=1 \
	    $$corpus tests/fuzz/corpus/$$name >build-fuzz/$$name.log 2>&1 || \
	    { tail -40 build-fuzz/$$name.log; exit 1; }; \
	  grep number_of_executed_units build-fuzz/$$name.log; \
	done

# --- the rest ---

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

reference: TARGETS = programs tools/reference/describe
reference: build ## docs/reference.md, of what the code says
	@tools/reference/write.py $(BUILD) >docs/reference.md.new
	@mv docs/reference.md.new docs/reference.md

format: ## formats the sources
	@tools/deps.sh tidy
	@clang-format -i $$(git ls-files '*.cc' '*.h')

# changed: the files changed since BASE; all.
FILES ?= changed

# clang-tidy sees what this build compiles: without MPI not its collective.
# In a build folder that compiles each source alone, as clang-tidy reads them.
lint: ## format and clang-tidy of what changed since BASE; FILES=all
	@tools/deps.sh tidy
	@$(MAKE) --no-print-directory configure BUILD=$(BUILD)-lint \
	  MESON_OPTIONS='-Dunity=off $(MESON_OPTIONS)'
	@tools/lint.sh $(BUILD)-lint $(FILES) $(JOBS)

ci: ## what .ci/run runs; STEPS=nightly or release: hours (docs/testing.md)
	@tools/ci.py $(STEPS)

clean: ## removes the builds
	@rm -rf build build-* dist
