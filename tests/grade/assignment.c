// What an assignment does to results: hidden tests are left out, points are counted as the file
// says, and random cases get a student's seed.
#include "tests/grade/assignment.h"

#include <stdlib.h>
#include <string.h>

uint64_t suite_seed;

const Assignment *assignment_of(const char *chapter) {
    static Assignment *known[100]; // by the chapter's number
    Assignment **place = &known[atoi(chapter + 2) % 100];

    if (*place == NULL) {
        *place = allocate(1, sizeof(Assignment));
        **place = read_assignment(chapter);
    }
    return *place;
}

// What the file says of a test; NULL when it does not name the lab.
static const PlannedTest *planned_test(const char *chapter, const char *lab, const char *test) {
    const Assignment *assignment = assignment_of(chapter);

    for (size_t i = 0; i < assignment->count; i++) {
        if (strcmp(assignment->tests[i].lab, lab) == 0 &&
            strcmp(assignment->tests[i].test, test) == 0) {
            return &assignment->tests[i];
        }
    }
    return NULL;
}

// ---- hidden tests -------------------------------------------------------------------------------

void drop_hidden(const char *chapter, LabResult *lab) {
    size_t kept = 0;

    lab->score = 0;
    lab->points = 0;
    for (size_t i = 0; i < lab->count; i++) {
        const PlannedTest *planned = planned_test(chapter, lab->id, lab->tests[i].name);

        lab->tests[i].hidden = planned != NULL && planned->hidden;
        if (lab->tests[i].hidden && !options.hidden) {
            test_free(&lab->tests[i]);
            lab->hidden++;
        } else {
            lab->score += lab->tests[i].score;
            lab->points += lab->tests[i].points;
            lab->tests[kept++] = lab->tests[i];
        }
    }
    lab->count = kept;
}

const char *show_hidden(const LabResult *lab) {
    static char text[64];

    snprintf(text, sizeof(text), "%zu hidden test%s graded by your instructor", lab->hidden,
             lab->hidden == 1 ? " is" : "s are");
    return text;
}

// ---- points -------------------------------------------------------------------------------------

void share_points(int worth, const int *points, int *shares, size_t count) {
    int64_t sum = 0;
    int left = worth;

    for (size_t i = 0; i < count; i++) {
        sum += points[i];
    }
    for (size_t i = 0; i < count; i++) {
        shares[i] = (int)((int64_t)worth * points[i] / sum);
        left -= shares[i];
    }
    for (; left > 0; left--) { // fewer than `count`, one for each of the largest remainders
        size_t best = 0;
        int64_t most = -1;

        for (size_t i = 0; i < count; i++) {
            const int64_t remainder = (int64_t)worth * points[i] - sum * shares[i];

            if (remainder > most) { // after its hundredth a remainder is below 0
                most = remainder;
                best = i;
            }
        }
        shares[best]++;
    }
}

const char *show_points(int hundredths) {
    static char texts[4][24];
    static size_t turn;
    char *text = texts[turn++ % 4];
    const int whole = hundredths / POINT;
    const int part = hundredths % POINT;

    if (part == 0) {
        snprintf(text, sizeof(texts[0]), "%d", whole);
    } else if (part % 10 == 0) {
        snprintf(text, sizeof(texts[0]), "%d.%d", whole, part / 10);
    } else {
        snprintf(text, sizeof(texts[0]), "%d.%02d", whole, part);
    }
    return text;
}

static void assign_lab(const char *chapter, LabResult *lab) {
    lab->worth = 0;
    lab->earned = 0;
    for (size_t i = 0; i < lab->count; i++) {
        TestResult *test = &lab->tests[i];
        const PlannedTest *planned = planned_test(chapter, lab->id, test->name);

        test->worth = planned != NULL ? planned->worth : POINT * test->points;
        test->earned = test->score > 0 ? test->worth : 0; // a test is passed or not
        lab->worth += test->worth;
        lab->earned += test->earned;
    }
}

void assign_chapter(ChapterResult *chapter) {
    const Assignment *assignment = assignment_of(chapter->name);

    chapter->worth = 0;
    chapter->earned = 0;
    for (size_t i = 0; i < chapter->count; i++) {
        assign_lab(chapter->name, &chapter->labs[i]);
        chapter->worth += chapter->labs[i].worth;
        chapter->earned += chapter->labs[i].earned;
    }
    chapter->seed = assignment->own_seeds ? options.seed : NULL;
    apply_lateness(assignment, chapter);
}

// ---- seeds --------------------------------------------------------------------------------------

// FNV-1a (Fowler, Noll, Vo), 64 bits.
uint64_t hash_seed(const char *text) {
    uint64_t hash = 0xCBF29CE484222325U;

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001B3U;
    }
    return hash != 0 ? hash : 1;
}

uint64_t chapter_seed(const char *chapter) {
    const bool own = options.seed != NULL && assignment_of(chapter)->own_seeds;

    return own ? hash_seed(options.seed) : 0;
}
