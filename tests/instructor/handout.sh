#!/bin/sh
# Makes a student copy of the course: everything that a learner needs, without the solutions, the
# mutants, the course's own tests and what is for instructors.
#   tests/instructor/handout.sh OUT [CHAPTERS]     CHAPTERS as 1-5, or "1 2 7"; none: all
# OUT must be a new folder or an empty one. Run it through `make handout OUT=dir [CHAPTERS=1-5]`.
set -eu
from=$(pwd)
cd "$(dirname "$0")/../.."
here=tests/instructor

die() {
    printf 'handout: %s\n' "$1" >&2
    exit 2
}

# The text as one word for the shell.
quote() {
    printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

out=${1:-}
[ -n "$out" ] || die 'say where the copy goes: make handout OUT=/path/of/a/new/folder'
name=$out
case $out in /*) ;; *) out=$from/$out ;; esac
if [ -e "$out" ] && { [ ! -d "$out" ] || [ -n "$(ls -A "$out")" ]; }; then
    die "$name is there already and not an empty folder; name another one"
fi

# "1-3 5" to "01 02 03 05"; only chapters that exist.
expand() {
    for word in $(printf '%s' "$1" | tr ',' ' '); do
        word=$(printf '%s' "$word" | sed 's/ch//g')
        case $word in
        *[!0-9-]* | -* | *- | *-*-* | '')
            die "CHAPTERS=$1: expected numbers and ranges, like 1-5" ;;
        esac
        first=$(printf '%s' "${word%%-*}" | sed 's/^0*//')
        last=$(printf '%s' "${word##*-}" | sed 's/^0*//')
        [ "${first:-0}" -le "${last:-0}" ] ||
            die "CHAPTERS=$1: $word runs backwards; write ${last:-0}-$first"
        i=${first:-0}
        while [ "$i" -le "${last:-0}" ]; do
            number=$(printf '%02d' "$i")
            [ -d "exercises/ch$number" ] || die "CHAPTERS=$1: there is no chapter $i here"
            printf '%s ' "$number"
            i=$((i + 1))
        done
    done
}

all=
for folder in exercises/ch[0-9][0-9]; do
    all="$all${folder#exercises/ch} "
done
chapters=$all
if [ -n "${2:-}" ]; then
    chapters=$(expand "$2") || exit 2
fi

names=
for number in $chapters; do
    names="$names ch$number"
done
# shellcheck disable=SC2086 # a list of words
$here/check_settings.sh $names || exit 2

# What is left out: by these patterns, and of the chapters that are not handed out.
list=$(mktemp)
trap 'rm -f "$list" "$list.kept" "$list.both"' EXIT
{
    for path in LICENSE Makefile README.md .clang-format .gitignore; do
        [ ! -f "$path" ] || echo "$path"
    done
    find chapters common docs exercises tests -type f \
        ! -path 'tests/mutants/*' ! -path 'tests/unit/*' ! -path 'tests/instructor/*' \
        ! -name instructor.md ! -name '*~' ! -name '.*.sw?' ! -name '*.backup-*' ! -name '*.o' \
        ! -path '*/__pycache__/*'
} >"$list"
partial=
for number in $all; do
    case " $chapters" in *" $number "*) continue ;; esac
    partial=yes
    grep -vE "^(chapters/ch${number}_[^/]*|exercises/ch$number|tests/grade/ch$number)/" "$list" \
        >"$list.kept"
    mv "$list.kept" "$list"
done
# The benchmarks and the side-by-side measurements need all chapters.
if [ -n "$partial" ]; then
    grep -vE '^tests/(bench|peers)/' "$list" >"$list.kept"
    mv "$list.kept" "$list"
fi

# In a git checkout, files that git does not know are somebody's own.
if git ls-files --error-unmatch Makefile >/dev/null 2>&1; then
    git -c core.quotePath=off ls-files | LC_ALL=C sort >"$list.kept"
    LC_ALL=C sort -o "$list" "$list"
    LC_ALL=C comm -23 "$list" "$list.kept" | sed 's/$/ is not in git: left out/'
    LC_ALL=C comm -12 "$list" "$list.kept" >"$list.both"
    mv "$list.both" "$list"
fi

mkdir -p "$out"
tar -cf - -T "$list" | tar -xf - -C "$out" --no-same-owner

# The README without what the copy has not: chapters, solutions, the instructor's page.
adapt() {
    awk -v present="$chapters" '
        /^\| \[ch[0-9][0-9] / && index(" " present, " " substr($0, 6, 2) " ") == 0 { next }
        /^make solution / { next }
        {
            sub(/ `solutions\/` has every answer;$/, "")
            sub(/^`make grade FROM=solutions` grades them\. /, "")
            sub(/`exercises\/`, `solutions\/` \| the labs, with gaps and filled/,
                "`exercises/` | the labs, with gaps")
            sub(/ \[instructor\]\(docs\/instructor\.md\)[^,]*,/, "")
            sub(/tests of all the code, and the grader.s proof of itself.*/, "each lesson once")
            print
        }'
}
awk 'NR == 2 { print "\n> This is a student copy. The solutions, the mutants and the" \
                     " course'"'"'s own tests are not in it." }
    { print }' README.md | adapt >"$out/README.md"
for number in $chapters; do
    sed -i '/FROM=solutions/d' "$out/exercises/ch$number/README.md"
done
if [ -f "$out/docs/grading.md" ]; then
    sed -i 's/\[instructor\.md\](instructor\.md)/docs\/instructor.md of the whole course/g' \
        "$out/docs/grading.md"
fi

# The labs go out as they were before anybody worked on them here.
for number in $chapters; do
    for file in "$out/exercises/ch$number/.untouched"/*; do
        [ -f "$file" ] || continue
        lab=$out/exercises/ch$number/$(basename "$file")
        cmp -s "$file" "$lab" || {
            echo "${lab#"$out/"} has been worked on: the untouched one goes out"
            cp "$file" "$lab"
        }
    done
done

# Hidden tests: neither the test nor its name, in a comment of assignment.txt neither. Questions
# stay, since answers.txt lists them.
gone='BEGIN { count = split(names, word, " "); for (i = 1; i <= count; i++) gone[word[i]] = 1 }'
for number in $chapters; do
    suites=tests/grade/ch$number
    [ -f "$suites/assignment.txt" ] || continue
    hidden=$(awk '{ sub(/#.*/, ""); gsub(/[,\r]/, " ") }
        $1 == "hidden" { for (i = 2; i <= NF; i++) if ($i ~ /^lab[0-9]/) printf "%s ", $i }' \
        "$suites/assignment.txt")
    [ -n "$hidden" ] || continue
    for suite in "$suites"/lab*.c; do
        lab=${suite##*/}
        awk -f $here/hide.awk names="$hidden" lab="${lab%%_*}" "$suite" "$suite" >"$out/$suite"
    done
    for name in $hidden; do
        if grep -qE "^ *\{\"${name#*.}\"," "$out/$suites/${name%%.*}"_*.c; then
            die "$suites: $name is hidden but still in the suite; $out is not fit to be handed out"
        fi
    done
    awk -v names="$hidden" "$gone"'
        function names_gone(comment,    count, said, i, name) {
            count = split(comment, said, /[^A-Za-z0-9_]+/)
            for (i = 1; i <= count; i++)
                for (name in gone) if (substr(name, index(name, ".") + 1) == said[i]) return 1
            return 0
        }
        /#/ && names_gone(substr($0, index($0, "#"))) {
            sub(/[ \t]*#.*/, "")
            if ($0 == "") next
        }
        {
            line = $0
            sub(/#.*/, "", line)
            gsub(/[,\r]/, " ", line)
            words = split(line, setting, " ")
            kept = ""
            for (i = 2; i <= words; i++) if (!(setting[i] in gone)) kept = kept " " setting[i]
        }
        words && setting[1] == "points" && (setting[2] in gone) { next }
        words && setting[1] == "hidden" { if (kept != "") print "hidden" kept; next }
        { print }' "$suites/assignment.txt" >"$out/$suites/assignment.txt"
    if [ -f "$suites/wrong_answers.txt" ]; then
        awk -v names="$hidden" "$gone"'
            /^lab[0-9]+_/ { lab = $0; sub(/_.*/, "", lab) }
            !((lab "." $1) in gone)' "$suites/wrong_answers.txt" >"$out/$suites/wrong_answers.txt"
    fi
    echo "ch$number: not in the copy, since hidden: $hidden" | fold -s -w 80 | sed 's/ *$//'
done

# Links to what the copy has not become plain text.
find "$out" -name '*.md' | while IFS= read -r page; do
    at=$(dirname "$page")
    grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | sort -u | while IFS= read -r link; do
        case $link in *:*) continue ;; esac
        [ -e "$at/$link" ] || echo "$link"
    done >"$list.kept"
    [ -s "$list.kept" ] || continue
    awk -f $here/unlink.awk "$list.kept" "$page" >"$list"
    cat "$list" >"$page"
done

if [ -n "${CLASSROOM:-}" ]; then
    chapter=ch$(printf '%s' "$CLASSROOM" | sed 's/^ch//; s/^[0-9]$/0&/')
    [ -d "$out/exercises/$chapter" ] ||
        die "CLASSROOM=$CLASSROOM: the copy has no $chapter; name one as 02"
    mkdir -p "$out/.github/workflows"
    python3 $here/classroom.py "${BUILD:-build}/grade" "$chapter" \
        >"$out/.github/workflows/classroom.yml"
fi

if [ -d solutions ]; then
    set --
    for number in $chapters; do
        for lab in "solutions/ch$number"/lab*.c "solutions/ch$number"/lab*.cu; do
            [ ! -f "$lab" ] || set -- "$@" "$lab"
        done
    done
    find "$out/exercises" "$out/tests" -type f -name '*.c*' -exec \
        awk -f $here/leaks.awk "$@" copy=1 {} + ||
        die "the lines above are solutions; $out is not fit to be handed out"
fi
echo "$out: chapters $chapters($(find "$out" -type f | wc -l | tr -d ' ') files)"
case $out in
*[!A-Za-z0-9_./+@%=:,-]*) echo "try it: cd $(quote "$out") && make next" ;;
*) echo "try it: cd $out && make next" ;;
esac
