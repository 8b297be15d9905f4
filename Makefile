# Tile by Tile. `make` lists what there is; everything is built under $(BUILD), only ./chNN stay at
# the top. A chapter is found by its folder's chNN_ prefix: adding one needs no edit here.

.DEFAULT_GOAL := help
MAKEFLAGS     += --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDEXPANSION:
.SECONDARY:

BUILD   ?= build
ifeq ($(origin CC),default)
CC      := gcc
endif
OPT     ?= -O2 -g
WERROR  ?= -Werror
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
OPENMP  ?= -fopenmp
CFLAGS  ?=
LDLIBS  := -lm
# -ffp-contract=fast: a * b + c may become one fused multiply-add, as nvcc does too.
# Without OpenMP its pragmas are plain comments.
cflags   = -std=c11 -D_GNU_SOURCE -ffp-contract=fast -I. $(OPT) $(OPENMP) $(WARN) $(if $(OPENMP),,-Wno-unknown-pragmas) $(WERROR) $(CFLAGS)
# Commands are shown short, on stderr; V=1 shows them whole.
V           ?= 0
Q           := $(if $(filter 1,$(V)),,@)
say          = $(if $(filter 1,$(V)),@:,@printf '  %-5s %s\n' $(1) $(2) >&2)
CHECK_LIBS = $(shell pkg-config --libs check 2>/dev/null || echo -lcheck)
jobs         = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- what there is ------------------------------------------------------------------------------
CHAPTER_DIRS := $(sort $(patsubst %/,%,$(wildcard chapters/ch[0-9][0-9]_*/)))
CHAPTERS     := $(foreach d,$(notdir $(CHAPTER_DIRS)),$(firstword $(subst _, ,$(d))))
chapter_dir   = $(patsubst %/,%,$(wildcard chapters/$(1)_*/))

COMMON_SRC := $(wildcard common/*.c)
COMMON_LIB := $(BUILD)/libcommon.a
STEP_SRC   := $(filter-out %/main.c,$(wildcard $(addsuffix /*.c,$(CHAPTER_DIRS))))
UNIT_SRC   := $(wildcard tests/unit/test_*.c)
UNIT_BIN   := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/unit/%)
SUPPORT_SRC := $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c))
GRADER_SRC := $(wildcard tests/grade/*.c)
GRADER     := $(BUILD)/grade
SOURCES    := $(shell find common chapters tests exercises solutions -name '*.[ch]' 2>/dev/null)
obj         = $(1:%.c=$(BUILD)/obj/%.o)

# ---- lessons ------------------------------------------------------------------------------------
.PHONY: help all lib $(CHAPTERS)
help: ## list the targets (the default)
	@echo 'Tile by Tile: attention kernels, one idea per chapter. Start: README.md'
	@echo
	@awk -F ':.*## ' '/^[a-z%N_-]+[a-zN %-]*:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile
	@echo
	@echo '  chapters here: $(CHAPTERS)'

chNN: ## build one chapter's program, ./ch01 for example (make ch01 && ./ch01)
	@echo 'name a chapter: $(CHAPTERS)' >&2; exit 2

all: $(CHAPTERS) ## build every chapter's program

$(CHAPTERS): %: $(BUILD)/bin/%
	@cmp -s $< $@ || cp $< $@

$(BUILD)/bin/%: $$(call obj,$$(wildcard $$(call chapter_dir,$$*)/*.c)) $(COMMON_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $(LDLIBS)

$(COMMON_LIB): $(call obj,$(COMMON_SRC))
	@rm -f $@
	$(call say,AR,$(@F))
	$(Q)ar rcs $@ $^

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cflags) -MMD -MP -c -o $@ $<

# Objects are rebuilt when the compiler or its flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(cflags)' | cmp -s - $@ || echo '$(CC) $(cflags)' > $@
.PHONY: FORCE
FORCE:

-include $(shell find $(BUILD)/obj $(BUILD)/pic -name '*.d' 2>/dev/null)

# ---- the library and the benchmarks -------------------------------------------------------------
# The chapters' functions as a shared library, for tests/peers/ and for whoever wants to call them.
LIB := $(BUILD)/libtilebytile.so
pic  = $(1:%.c=$(BUILD)/pic/%.o)

lib: $(LIB) ## build libtilebytile.so, every chapter's functions, for tests/peers/

$(LIB): $(call pic,$(COMMON_SRC) $(STEP_SRC))
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -shared -Wl,-Bsymbolic -o $@ $^ $(LDLIBS)

$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cflags) -fPIC -MMD -MP -c -o $@ $<

# BENCH=dir measures into a copy of docs/benchmarks and leaves the recorded figures alone.
BENCH       ?= docs/benchmarks
BENCH_FLAGS ?=
BENCH_SRC   := $(wildcard tests/bench/*.c)

.PHONY: bench bench-tables
bench: $(BUILD)/bench_cpu ## measure the CPU kernels, rewrite docs/benchmarks (about 4 minutes)
	@$(BUILD)/bench_cpu $(BENCH_FLAGS) $(BENCH)/cpu.csv
	@tests/bench/tables.sh $(BENCH)

bench-tables: ## rewrite the tables and plots of docs/benchmarks from its CSV files
	@tests/bench/tables.sh $(BENCH)

# Allocations are counted: each row says what its kernel allocates.
bench_wrap := $(foreach f,malloc calloc aligned_alloc posix_memalign,-Wl,--wrap=$(f))
$(BUILD)/bench_cpu: $(call obj,$(BENCH_SRC) $(STEP_SRC)) $(COMMON_LIB)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) $(bench_wrap) -o $@ $^ $(LDLIBS)

# ---- tests --------------------------------------------------------------------------------------
.PHONY: test test-full test-build sanitize need-check need-jansson
test: need-check need-jansson ## every test once; ends with "N passed, N failed" (3 minutes, two cores)
	@$(MAKE) --no-print-directory $(jobs) test-build
	@BUILD=$(BUILD) tests/run.sh quick

test-full: need-check need-jansson ## the large sweeps, the sanitizers and the second compiler as well
	@$(MAKE) --no-print-directory $(jobs) test-build
	@BUILD=$(BUILD) tests/run.sh full

test-build: all $(UNIT_BIN) $(GRADER)

$(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(call obj,$(SUPPORT_SRC) $(STEP_SRC)) $(COMMON_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $(CHECK_LIBS) $(LDLIBS)

need-check:
	@pkg-config --exists check 2>/dev/null || { \
	  echo 'make test needs Check, the C unit test library: sudo apt-get install check pkg-config' >&2; \
	  echo '(or sudo make deps, which installs everything the course uses)' >&2; exit 2; }

sanitize: need-check ## the unit tests under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory $(jobs) BUILD=$(BUILD)/sanitize test-build \
	  OPT='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all' \
	  OPENMP=$(OPENMP)
	@BUILD=$(BUILD)/sanitize tests/run.sh unit

need-jansson:
	@pkg-config --exists jansson 2>/dev/null || { \
	  echo 'the grader needs jansson: sudo apt-get install libjansson-dev pkg-config' >&2; \
	  echo '(or sudo make deps, which installs everything the course uses)' >&2; exit 2; }

# ---- labs ---------------------------------------------------------------------------------------
# FROM=dir takes the lab files from dir/chNN/; LAB=2 and TEST=name narrow the run; FORMAT= and
# OUT= write text, tap, junit, gradescope or json.
FROM   ?= exercises
LAB    ?=
TEST   ?=
FORMAT ?= text
OUT    ?=
grade_flags = --from '$(FROM)' --format '$(FORMAT)' $(if $(LAB),--lab '$(LAB)') \
              $(if $(TEST),--test '$(TEST)') $(if $(OUT),--out '$(OUT)')

.PHONY: grade grade-chNN progress prove
grade: $(GRADER) ## grade every lab, with a total
	@$(GRADER) $(grade_flags)

grade-chNN: ## grade one chapter's labs: make grade-ch01 [FROM=dir] [LAB=2] [TEST=name] [FORMAT=json]
	@echo 'name a chapter: $(addprefix grade-,$(CHAPTERS))' >&2; exit 2

grade-ch%: $(GRADER)
	@$(GRADER) $(grade_flags) ch$*

progress: $(GRADER) ## the best scores so far
	@$(GRADER) --progress

prove: $(GRADER) ## prove the grader: solutions pass, exercises score 0, mutants fail where they say
	@$(GRADER) --prove

GRADER_OBJ := $(call obj,$(filter-out tests/grade/harness.c,$(GRADER_SRC)))
$(GRADER_OBJ): | need-jansson

$(GRADER): $(GRADER_OBJ) $(COMMON_LIB)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $$(pkg-config --libs jansson) $(LDLIBS)

# The grader's own tests read its JSON.
$(BUILD)/tests/unit/test_grader $(BUILD)/tests/unit/test_grader_output: \
  LDLIBS += $(shell pkg-config --libs jansson 2>/dev/null || echo -ljansson)

# ---- looking and tidying ------------------------------------------------------------------------
.PHONY: diff-chNN doctor deps lint format format-check clean
diff-chNN: ## the differences between a chapter's consecutive rungs, in their order
	@echo 'name a chapter: $(addprefix diff-,$(CHAPTERS))' >&2; exit 2

diff-ch%:
	@tests/diff_rungs.sh $(call chapter_dir,ch$*)

doctor: ## what is installed, what is missing, what that costs, and what to install
	@CC='$(CC)' tests/doctor.sh

deps: ## install what the course uses (Debian, Ubuntu): sudo make deps
	apt-get update
	apt-get install -y --no-install-recommends gcc make libc6-dev pkg-config check libjansson-dev gnuplot-nox

lint: ## clang-tidy and cppcheck, clean
	@tests/lint.sh

format: ## reformat every C file with clang-format
	@clang-format -i $(SOURCES)

format-check:
	@clang-format --dry-run -Werror $(SOURCES)

clean: ## remove what was built; scores of make progress are kept
	find $(BUILD) -mindepth 1 -maxdepth 1 ! -name progress -exec rm -rf {} + 2>/dev/null || true
	rm -f $(CHAPTERS)
