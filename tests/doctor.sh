#!/bin/sh
# What the course uses, what of it is here, what its absence costs, and what to install.
CC=${CC:-gcc}
missing=
line() { # state name detail
    printf '  %-8s %-16s %s\n' "$1" "$2" "$3"
}
have() { # name detail
    line ok "$1" "$2"
}
lack() { # name cost package
    line MISSING "$1" "$2"
    line '' '' "sudo apt-get install $3"
    missing="$missing $3"
}
tool() { # command name cost package
    if command -v "$1" >/dev/null 2>&1; then
        have "$2" "$("$1" --version 2>/dev/null | head -n 1)"
    else
        lack "$2" "$3" "$4"
    fi
}
compiles() { # flags program-text
    printf '%s\n' "$2" | "$CC" -x c - -o /dev/null $1 >/dev/null 2>&1
}

echo "the compiler and make (needed for everything)"
tool "$CC" 'C compiler' 'nothing builds' 'gcc libc6-dev'
tool make make 'nothing builds' make
echo "tests and labs"
if pkg-config --exists check 2>/dev/null; then have Check "$(pkg-config --modversion check)"
else lack Check 'no make test (lessons and labs still work)' 'check pkg-config'; fi
if pkg-config --exists jansson 2>/dev/null; then have jansson "$(pkg-config --modversion jansson)"
else lack jansson 'no grading of labs' 'libjansson-dev pkg-config'; fi
if compiles '-fsanitize=address,undefined' 'int main(void) { return 0; }'; then
    have sanitizers "$CC links -fsanitize=address,undefined"
else lack sanitizers 'labs are graded without them: an overrun is seen later' 'gcc'; fi
echo "lessons"
if compiles -fopenmp 'int main(void) { return 0; }'; then have OpenMP "$CC links -fopenmp"
else lack OpenMP "$CC cannot link -fopenmp: build with make OPENMP=" libomp-dev; fi
tool gnuplot gnuplot './chNN --plot draws nothing' gnuplot-nox
echo "CUDA kernels on the CPU"
if [ -n "${TRACE_CC:-}" ]; then have 'gcc 12 or newer' "$("$TRACE_CC" --version | head -n 1)"
else lack 'gcc 12 or newer' 'kernels run, but are not traced: no bytes, no races' gcc; fi
tool addr2line addr2line 'traces and findings have no line numbers' binutils
echo "a GPU (no chapter needs one)"
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
if [ -n "$nvcc" ]; then have nvcc "$("$nvcc" --version | sed -n 's/.*release \([^,]*\),.*/CUDA \1/p')"
else line absent nvcc 'nothing: no chapter needs it'; fi
if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then
    have GPU "$(nvidia-smi -L | head -n 1 | cut -d'(' -f1)"
    for name in ncu compute-sanitizer; do
        if command -v $name >/dev/null 2>&1; then have $name "$(command -v $name)"
        else line absent $name 'tests/peers/gpu.sh leaves a part out'; fi
    done
else line absent GPU 'nothing: no chapter needs it'; fi
echo "an instructor's tools (docs/instructor.md)"
tool python3 python3 'no gradebook, no autograder for Gradescope' python3
tool bwrap bubblewrap 'submissions are confined by Landlock, or not at all' bubblewrap
echo "for working on the course itself"
tool clang clang 'make test-full tries one compiler only' 'clang libomp-dev'
tool clang-tidy clang-tidy 'no make lint' clang-tidy
tool cppcheck cppcheck 'no make lint' cppcheck
tool clang-format clang-format 'no make format' clang-format
echo
if [ -z "$missing" ]; then
    echo 'Everything is here.'
else
    echo 'Install all that is missing:'
    echo "  sudo apt-get install" $(printf '%s\n' $missing | sort -u)
    echo '(sudo make deps installs what learners need.)'
fi
