# Finds solution text in a student copy; its status is 1 when there is some.
#   awk -f leaks.awk solutions/*/lab*.c* copy=1 the copy's files
# A find is three lines in a row of a gap, blanks aside; single lines are often the same by chance.
# In exercises/ only a lab's own solution is looked for: what one lab asks for, a later one may
# give.
function squeeze(line) {
    gsub(/[ \t]/, "", line)
    return line
}
function base(path) {
    sub(/.*\//, "", path)
    return path
}
FNR == 1 { one = two = ""; gap = 0 }
!copy && /\/\/ GAP [0-9]+:/ { gap = 1; one = two = ""; next }
!copy && /\/\/ END [0-9]+/ { gap = 0 }
!copy && !gap { next }
{
    three = squeeze($0)
    if (length(three) < 8) {
        next
    }
    run = one "\n" two "\n" three
    if (!copy && one != "") {
        from[run] = from[run] " " base(FILENAME) " "
    } else if (copy && run in from &&
               (FILENAME !~ /exercises\// || index(from[run], " " base(FILENAME) " "))) {
        printf "%s:%d: as in the solution of%s\n", FILENAME, FNR, from[run]
        found = 1
    }
    one = two
    two = three
}
END { exit found }
