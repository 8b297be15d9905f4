# Turns links to files that are not there into their text: [drill](drill.md) to drill.
#   awk -f unlink.awk GONE page.md     GONE lists the links' targets, one a line
FNR == NR { gone[$0] = 1; next }
{
    rest = $0
    line = ""
    while (match(rest, /\[[^][]*\]\([^)]*\)/)) {
        link = substr(rest, RSTART, RLENGTH)
        text = link
        sub(/\]\(.*/, "", text)
        target = substr(link, length(text) + 3)
        sub(/\)$/, "", target)
        sub(/#.*/, "", target)
        line = line substr(rest, 1, RSTART - 1) (target in gone ? substr(text, 2) : link)
        rest = substr(rest, RSTART + RLENGTH)
    }
    print line rest
}
