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
cflags    = -std=c11 -D_GNU_SOURCE -ffp-contract=fast -I. $(OPT) $(OPENMP) $(WARN) $(if $(OPENMP),,-Wno-unknown-pragmas) $(WERROR) $(targets) $(CFLAGS)
# Commands are shown short, on stderr; V=1 shows them whole.
V           ?= 0
Q           := $(if $(filter 1,$(V)),,@)
say          = $(if $(filter 1,$(V)),@:,@printf '  %-5s %s\n' $(1) $(2) >&2)

# CUDA: nvcc on PATH or in /usr/local/cuda; NVCC= builds without it. Architectures: the GPU's that
# is here, else 80 and 90a, with PTX for newer ones.
NVCC        ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME   ?= $(patsubst %/bin/,%,$(dir $(realpath $(NVCC))))
CUDA_ARCHS  ?= $(or $(gpu_arch),80 90a)
gpu_arch    := $(if $(NVCC),$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
                 sort -u | sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p' | sed 's/^90$$/90a/'))
gencode      = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
               -gencode arch=compute_$(firstword $(CUDA_ARCHS)),code=compute_$(firstword $(CUDA_ARCHS))
nvcc_flags   = -std=c++17 -I. -O3 -lineinfo --expt-relaxed-constexpr $(gencode) \
               $(if $(NVCC_CCBIN),-ccbin $(NVCC_CCBIN)) -Xcompiler -fPIC,-Wall $(NVCC_FLAGS)
CUDA_LIBS    = $(if $(NVCC),-L$(CUDA_HOME)/lib64 -lcudart_static -lstdc++ -ldl -lrt -lpthread)
# The trace build of a kernel: gcc 12 or newer, whatever CC is; its flags are fixed (docs/simt.md).
gcc_major    = $(shell $(1) -dumpfullversion 2>/dev/null | cut -d. -f1)
is_new_gcc   = $(shell v='$(call gcc_major,$(1))'; [ "$${v:-0}" -ge 12 ] && \
                 ! $(1) --version 2>/dev/null | grep -qi clang && echo $(1))
TRACE_CC    ?= $(firstword $(foreach c,gcc gcc-14 gcc-13 gcc-12,$(call is_new_gcc,$(c))))
TRACE_CC    := $(TRACE_CC)
export TRACE_CC
trace_flags := -O2 -g -fsanitize=thread -fno-tree-sra --param tsan-instrument-func-entry-exit=0
targets     := -DGPU_HAVE_CUDA=$(if $(NVCC),1,0) -DGPU_HAVE_TRACE=$(if $(TRACE_CC),1,0)
# A .cu file as C: kernels are static, so that unused ones are only noted by -Wall.
kernel_flags = -x c -std=gnu11 -D_GNU_SOURCE -ffp-contract=fast -I. -fPIC -Wall -Wextra \
               -Wno-unknown-pragmas $(WERROR) $(targets)
unit_name    = $(subst -,_,$(subst .,_,$(subst /,_,$(1))))

CHECK_LIBS = $(shell pkg-config --libs check 2>/dev/null || echo -lcheck)
jobs         = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- what there is ------------------------------------------------------------------------------
CHAPTER_DIRS := $(sort $(patsubst %/,%,$(wildcard chapters/ch[0-9][0-9]_*/)))
CHAPTERS     := $(foreach d,$(notdir $(CHAPTER_DIRS)),$(firstword $(subst _, ,$(d))))
chapter_dir   = $(patsubst %/,%,$(wildcard chapters/$(1)_*/))

COMMON_SRC := $(wildcard common/*.c common/simt/*.c)
COMMON_CUDA := common/gpu_cuda.cu
COMMON_CU  := $(filter-out $(COMMON_CUDA),$(wildcard common/*.cu))
COMMON_LIB := $(BUILD)/libcommon.a
PROGRAM_SRC := $(wildcard $(addsuffix /main.c,$(CHAPTER_DIRS)) $(addsuffix /show_*.c,$(CHAPTER_DIRS)))
STEP_SRC   := $(filter-out $(PROGRAM_SRC),$(wildcard $(addsuffix /*.c,$(CHAPTER_DIRS))))
STEP_CU    := $(wildcard $(addsuffix /*.cu,$(CHAPTER_DIRS)))
UNIT_CU    := $(wildcard tests/unit/*.cu)
UNIT_SRC   := $(wildcard tests/unit/test_*.c)
UNIT_BIN   := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/unit/%)
SUPPORT_SRC := $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c))
GRADER_SRC := $(wildcard tests/grade/*.c)
GRADER     := $(BUILD)/grade
DRILL_SRC  := $(wildcard tests/drill/*.c)
DRILL      := $(BUILD)/drill
SOURCES    := $(shell find common chapters tests exercises solutions -name '*.[ch]' -o -name '*.cu' \
                -o -name '*.cuh' 2>/dev/null)
obj         = $(1:%.c=$(BUILD)/obj/%.o)
cuda_obj    = $(if $(NVCC),$(1:%.cu=$(BUILD)/obj/%.cuda.o))
# The builds of a kernel file: simt, and where their compilers are, trace and cuda. gpu_cuda.cu has
# none, and is for nvcc alone.
cu_obj      = $(1:%.cu=$(BUILD)/obj/%.simt.o) $(if $(TRACE_CC),$(1:%.cu=$(BUILD)/obj/%.trace.o)) \
              $(call cuda_obj,$(1))

# ---- lessons ------------------------------------------------------------------------------------
.PHONY: help all lib $(CHAPTERS)
# What this copy of the course has no files for: a student copy, for example. help leaves it out.
absent = $(if $(UNIT_SRC),,test-full sanitize) $(if $(BENCH_SRC),,bench bench-tables) \
         $(if $(wildcard solutions),,lint prove solution) $(if $(in_full),handout gradescope) \
         $(if $(wildcard tests/peers/launches.c),,peers)
help: ## list the targets (the default)
	@echo 'Tile by Tile: attention kernels, one idea per chapter. Start: README.md'
	@echo
	@awk -F ':.*## ' -v absent=' $(absent) ' '/^[a-z%N_-]+[a-zN %-]*:.*## / && \
	  !index(absent, " " $$1 " ") { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  chapters here: $(CHAPTERS)'

chNN: ## build a chapter's program: make ch01 && ./ch01
	@echo 'name a chapter: $(CHAPTERS)' >&2; exit 2

# Chapters that are not in this copy, or not named as their folders are.
digits       := 0 1 2 3 4 5 6 7 8 9
NO_CHAPTERS  := $(filter-out $(CHAPTERS),$(foreach d,$(digits),$(addprefix ch$(d),$(digits))) \
                  $(addprefix ch,$(digits)))
.PHONY: $(NO_CHAPTERS)
$(NO_CHAPTERS):
	@echo '$@ is not here; chapters: $(CHAPTERS)' >&2; exit 2

all: $(CHAPTERS) ## build every chapter's program

$(CHAPTERS): %: $(BUILD)/bin/%
	@cmp -s $< $@ || cp $< $@

$(BUILD)/bin/%: $$(call obj,$$(wildcard $$(call chapter_dir,$$*)/*.c)) \
                $$(call cu_obj,$$(wildcard $$(call chapter_dir,$$*)/*.cu)) $(COMMON_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $(LDLIBS) $(CUDA_LIBS)

$(COMMON_LIB): $(call obj,$(COMMON_SRC)) $(call cu_obj,$(COMMON_CU)) $(call cuda_obj,$(COMMON_CUDA))
	@rm -f $@
	$(call say,AR,$(@F))
	$(Q)ar rcs $@ $^

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cflags) -MMD -MP -c -o $@ $<

# One kernel file, three builds. SIMT_UNIT names the object's section of shared memory.
$(BUILD)/obj/%.simt.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,SIMT,$<)
	$(Q)$(CC) $(kernel_flags) $(OPT) $(section_flags) -DSIMT_UNIT=$(call unit_name,$*)_simt -MMD -MP \
	  -c -o $@ $<

$(BUILD)/obj/%.trace.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,TRACE,$<)
	$(Q)$(TRACE_CC) $(kernel_flags) $(trace_flags) -DSIMT_TRACED=1 \
	  -DSIMT_UNIT=$(call unit_name,$*)_trace -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.cuda.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(nvcc_flags) $(targets) -MMD -MP -c -o $@ $<

# Objects are rebuilt when the compiler or its flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(cflags) $(TRACE_CC) $(NVCC) $(gencode) $(NVCC_FLAGS)' > $@.now
	@cmp -s $@.now $@ && rm $@.now || mv $@.now $@
.PHONY: FORCE
FORCE:

-include $(shell find $(BUILD)/obj $(BUILD)/pic -name '*.d' 2>/dev/null)

# ---- the library and the benchmarks -------------------------------------------------------------
# The chapters' functions as a shared library, for tests/peers/ and for whoever wants to call them.
LIB := $(BUILD)/libtilebytile.so
pic  = $(1:%.c=$(BUILD)/pic/%.o)

lib: $(LIB) ## libtilebytile.so: the chapters' functions

$(LIB): $(call pic,$(COMMON_SRC) $(STEP_SRC)) $(call cu_obj,$(COMMON_CU) $(STEP_CU)) \
        $(call cuda_obj,$(COMMON_CUDA))
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -shared -Wl,-Bsymbolic -o $@ $^ $(LDLIBS) $(CUDA_LIBS)

$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cflags) -fPIC -MMD -MP -c -o $@ $<

# BENCH=dir measures into a copy of docs/benchmarks and leaves the recorded figures alone.
BENCH       ?= docs/benchmarks
BENCH_FLAGS ?=
BENCH_SRC   := $(wildcard tests/bench/*.c)

.PHONY: bench bench-tables
bench: $(if $(BENCH_SRC),$(BUILD)/bench_cpu,not-here) ## measure the CPU kernels (4 minutes): docs/benchmarks
	@$(BUILD)/bench_cpu $(BENCH_FLAGS) $(BENCH)/cpu.csv
	@tests/bench/tables.sh $(BENCH)

bench-tables: ## docs/benchmarks: tables and plots from its CSV files
	@tests/bench/tables.sh $(BENCH)

# Allocations are counted: each row says what its kernel allocates.
bench_wrap := $(foreach f,malloc calloc aligned_alloc posix_memalign,-Wl,--wrap=$(f))
$(BUILD)/bench_cpu: $(call obj,$(BENCH_SRC) $(STEP_SRC)) $(call cu_obj,$(STEP_CU)) $(COMMON_LIB)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) $(bench_wrap) -o $@ $^ $(LDLIBS) $(CUDA_LIBS)

# What tests/peers/gpu.sh runs on a machine with a GPU.
.PHONY: peers
peers: $(if $(wildcard tests/peers/launches.c),lib $(BUILD)/launches test-build,not-here) ## build what tests/peers/gpu.sh needs

$(BUILD)/launches: $(call obj,tests/peers/launches.c $(STEP_SRC)) $(call cu_obj,$(STEP_CU)) $(COMMON_LIB)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $(LDLIBS) $(CUDA_LIBS)

# ---- tests --------------------------------------------------------------------------------------
.PHONY: test test-full test-build sanitize need-check need-jansson
test: $(if $(UNIT_SRC),need-check) need-jansson ## every test once, then "N passed, N failed"
	@$(MAKE) --no-print-directory $(jobs) test-build
	@BUILD=$(BUILD) tests/run.sh quick

test-full: need-check need-jansson ## large sweeps, sanitizers, second compiler as well
	@$(MAKE) --no-print-directory $(jobs) test-build
	@BUILD=$(BUILD) tests/run.sh full

test-build: all $(UNIT_BIN) $(GRADER) $(DRILL)

$(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(call obj,$(SUPPORT_SRC) $(STEP_SRC)) \
                       $(call cu_obj,$(STEP_CU) $(UNIT_CU)) $(COMMON_LIB)
	@mkdir -p $(@D)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $(CHECK_LIBS) $(LDLIBS) $(CUDA_LIBS)

need-check:
	@pkg-config --exists check 2>/dev/null || { \
	  echo 'make test needs Check, the C unit test library: sudo apt-get install check pkg-config' >&2; \
	  echo '(or sudo make deps, which installs everything the course uses)' >&2; exit 2; }

# gcc checks variables of sections of their own, as shared memory is, only when told to.
sanitized_sections = $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,-fsanitize-sections=simt_*)
sanitize: need-check ## the unit tests under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory $(jobs) BUILD=$(BUILD)/sanitize test-build \
	  OPT='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all' \
	  section_flags='$(sanitized_sections)' OPENMP=$(OPENMP)
	@BUILD=$(BUILD)/sanitize tests/run.sh unit

need-jansson:
	@pkg-config --exists jansson 2>/dev/null || { \
	  echo 'the grader needs jansson: sudo apt-get install libjansson-dev pkg-config' >&2; \
	  echo '(or sudo make deps, which installs everything the course uses)' >&2; exit 2; }

# ---- labs ---------------------------------------------------------------------------------------
# FROM=dir takes the lab files from dir/chNN/; LAB=2 and TEST=name narrow the run; FORMAT= and
# OUT= write text, tap, junit, gradescope or json, ALSO='junit=a.xml tap=b.tap' more of them from
# the same run. HIDDEN=1, SEED=id and SUBMITTED=time are for instructors (docs/grading.md). The
# commands for learners take the chapter as CH=05.
FROM   ?= exercises
CH     ?=
LAB    ?=
TEST   ?=
FORMAT ?= text
OUT    ?=
grade_flags = --from '$(FROM)' --format '$(FORMAT)' $(if $(LAB),--lab '$(LAB)') \
              $(if $(TEST),--test '$(TEST)') $(if $(OUT),--out '$(OUT)') \
              $(foreach a,$(ALSO),--also '$(a)') $(if $(HIDDEN),--hidden) \
              $(if $(SEED),--seed '$(SEED)') $(if $(SUBMITTED),--submitted '$(SUBMITTED)')

lab_words   = $(if $(LAB),--lab '$(LAB)') $(if $(CH),'$(CH)')

.PHONY: grade grade-chNN next progress watch hint solution reset untouched prove
grade: $(GRADER) ## grade every lab, with a total
	@$(GRADER) $(grade_flags) $(if $(CH),'$(CH)')

grade-chNN: ## one chapter: make grade-ch01 [LAB=2] [TEST=name]
	@echo 'name a chapter: $(addprefix grade-,$(CHAPTERS))' >&2; exit 2

grade-ch%: $(GRADER)
	@$(GRADER) $(grade_flags) ch$*

next: $(GRADER) ## what to do now: the lesson, the lab, the commands
	@$(GRADER) --next $(if $(CH),'$(CH)')

progress: $(GRADER) ## the best scores so far
	@$(GRADER) --progress $(if $(CH),'$(CH)')

watch: $(GRADER) ## grade again at each save: make watch CH=05 [LAB=2]
	@$(GRADER) --watch $(if $(TEST),--test '$(TEST)') $(lab_words)

hint: $(GRADER) ## the next hint: make hint CH=05 LAB=2 [AGAIN=1]
	@$(GRADER) --hint $(if $(AGAIN),--again) $(lab_words)

solution: $(GRADER) ## after full marks: make solution CH=05 LAB=2
	@$(GRADER) --solution $(lab_words)

reset: $(GRADER) ## a lab's file anew, with a backup: CH=05 LAB=2 [YES=1]
	@$(GRADER) --reset $(if $(YES),--yes) $(lab_words)

# For whoever writes labs: renews the copies that make reset puts back. Not for a learner's tree.
untouched:
	@for d in exercises/ch[0-9][0-9]; do \
	  rm -rf "$$d/.untouched" && mkdir "$$d/.untouched" && find "$$d" -maxdepth 1 -type f \
	    \( -name 'lab[0-9]*_*.c' -o -name 'lab[0-9]*_*.cu' -o -name answers.txt \) \
	    -exec cp {} "$$d/.untouched" \; || exit 1; \
	done

prove: $(GRADER) ## prove the grader: solutions, exercises, mutants
	@$(GRADER) --prove

GRADER_OBJ := $(call obj,$(filter-out tests/grade/harness.c,$(GRADER_SRC)))
$(GRADER_OBJ): | need-jansson

$(GRADER): $(GRADER_OBJ) $(COMMON_LIB)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $$(pkg-config --libs jansson) $(LDLIBS) $(CUDA_LIBS)

# Suites that read the grader's JSON.
$(addprefix $(BUILD)/tests/unit/test_,grader grader_output grader_formats assignment_terms handout): \
  LDLIBS += $(shell pkg-config --libs jansson 2>/dev/null || echo -ljansson)

# ---- the drill ----------------------------------------------------------------------------------
# TOPIC=name, COUNT=n, SEED=n; ANSWERS=file answers in place of the keyboard. docs/drill.md
drill_flags = --scores '$(BUILD)/progress/drill' $(if $(TOPIC),--topic '$(TOPIC)') \
              $(if $(COUNT),--count '$(COUNT)') $(if $(SEED),--seed '$(SEED)') \
              $(if $(ANSWERS),--answers '$(ANSWERS)')

.PHONY: drill
drill: $(DRILL) ## the card numbers [TOPIC=waves] [COUNT=10] [SEED=7]
	@$(DRILL) $(drill_flags)

# Numbers are read as the grader reads them.
DRILL_OBJ := $(call obj,$(DRILL_SRC) tests/grade/numbers.c)
$(DRILL): $(DRILL_OBJ) $(COMMON_LIB)
	$(call say,LINK,$(@F))
	$(Q)$(CC) $(cflags) -o $@ $^ $(LDLIBS) $(CUDA_LIBS)

$(BUILD)/tests/unit/test_drill $(BUILD)/tests/unit/test_drill_answers: \
  $(filter-out %/drill/main.o,$(DRILL_OBJ))

# ---- instructors --------------------------------------------------------------------------------
# docs/instructor.md. CHAPTERS=1-5 hands out those alone; CLASSROOM=02 adds a workflow for GitHub
# Classroom that grades chapter 2.
CLASSROOM ?=
handed_out = $(if $(findstring command,$(origin CHAPTERS)),$(CHAPTERS))
in_full    = $(if $(wildcard tests/instructor),,not-here)
.PHONY: handout gradescope not-here
handout: $(in_full) $(GRADER) ## a student copy: OUT=dir [CHAPTERS=1-5] [CLASSROOM=02]
	@BUILD='$(BUILD)' CLASSROOM='$(CLASSROOM)' tests/instructor/handout.sh '$(OUT)' '$(handed_out)'

gradescope: $(in_full) $(GRADER) ## for Gradescope: make gradescope CH=05 [OUT=file.zip]
	@BUILD='$(BUILD)' tests/instructor/gradescope.sh '$(CH)' '$(OUT)'

not-here:
	@echo 'that part of the course is not in this copy of it' >&2; exit 2

# ---- looking and tidying ------------------------------------------------------------------------
.PHONY: diff-chNN resources doctor deps lint format format-check clean
diff-chNN: ## the differences between a chapter's rungs, in order
	@echo 'name a chapter: $(addprefix diff-,$(CHAPTERS))' >&2; exit 2

diff-ch%:
	@tests/diff_rungs.sh $(call chapter_dir,ch$*)

doctor: ## what is installed, what is missing, what that costs
	@CC='$(CC)' tests/doctor.sh

deps: ## install what it uses (Debian, Ubuntu): sudo make deps
	apt-get update
	apt-get install -y --no-install-recommends gcc make libc6-dev pkg-config check libjansson-dev gnuplot-nox

# ARGS='--no-spills kernel': fails where that kernel spills.
resources: $(call cuda_obj,$(COMMON_CUDA) $(COMMON_CU) $(STEP_CU)) ## CUDA kernels: registers, shared memory, occupancy
	@NVCC='$(NVCC)' NVCC_FLAGS='$(nvcc_flags) $(targets)' CUDA_ARCHS='$(CUDA_ARCHS)' BUILD=$(BUILD) \
	  tests/resources.sh $(ARGS)

lint: ## clang-tidy and cppcheck, clean
	@tests/lint.sh

format: ## reformat every C file with clang-format
	@clang-format -i $(SOURCES)

format-check:
	@clang-format --dry-run -Werror $(SOURCES)

clean: ## remove what was built; scores of make progress are kept
	find $(BUILD) -mindepth 1 -maxdepth 1 ! -name progress -exec rm -rf {} + 2>/dev/null || true
	rm -f $(CHAPTERS)
