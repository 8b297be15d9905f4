# Leaves the tests that an assignment hides out of a suite, table entry and function:
#   awk -f hide.awk names="lab1.far lab2.empty" lab=lab1 suite.c
# It reads the suites' form, as clang-format leaves it: an entry begins with `    {"name",` and ends
# with a line whose last characters are `},`; a function begins and ends in the first column.
FNR == 1 && NR == 1 {
    count = split(names, words, " ")
    for (i = 1; i <= count; i++) {
        if (index(words[i], lab ".") == 1) {
            hidden[substr(words[i], length(lab) + 2)] = 1
        }
    }
}
NR == FNR { # the first reading: which functions do the hidden entries name, and which do others
    if (match($0, /^    \{"[a-z0-9_]+",/)) {
        name = substr($0, 7, RLENGTH - 8)
        entry = ""
    }
    if (name != "") {
        entry = entry $0
        if ($0 ~ /\},$/) {
            if (match(entry, /(true|false),[ ]*[a-z0-9_]+/)) {
                run = substr(entry, RSTART, RLENGTH)
                sub(/.*,[ ]*/, "", run)
                if (name in hidden) { gone[run] = 1 } else { kept[run] = 1 }
            }
            name = ""
        }
    }
    next
}
match($0, /^    \{"[a-z0-9_]+",/) && substr($0, 7, RLENGTH - 8) in hidden { skip = 1 }
match($0, /^static void [a-z0-9_]+\(void\) \{$/) {
    run = substr($0, 13, RLENGTH - 20)
    if (run in gone && !(run in kept)) { skip = 2 }
}
!skip { print }
(skip == 1 && /\},$/) || (skip == 2 && /^\}/) { skip = 0 }
