// The commands for learners: what to do now, hints, watching, resetting, solutions. They work on
// exercises/ and on the scores that make progress remembers.
#ifndef TESTS_GRADE_LEARNER_H
#define TESTS_GRADE_LEARNER_H

#include "tests/grade/grader.h"

// ---- progress.c: what is remembered, in $BUILD/progress/ ----------------------------------------

// The number that $BUILD/progress/`file` remembers under this key; -1 when there is none.
int recall_number(const char *file, const char *key);
void remember_number(const char *file, const char *key, int number);

typedef struct Standing {
    char *id; // "lab1", "questions"
    char *title;
    int best; // best score so far; -1 when it was never graded
    int points;
} Standing;

// The labs of a chapter in order, then its questions. build_shared must have built the chapter.
typedef struct Standings {
    Standing *lab;
    size_t count;
    int score; // sum of the best scores
    int points;
} Standings;

Standings chapter_standings(const char *chapter);
void standings_free(Standings *standings);

// The first lab without full marks; NULL when there is none.
const Standing *first_open(const Standings *standings);

// ---- learner.c: naming a lab --------------------------------------------------------------------

// "ch05" for 5, 05, ch5 or ch05; other words are only copied. To be freed.
char *chapter_name(const char *word);

// The lab that a command works on.
typedef struct LabChoice {
    const char *chapter;
    char *id;    // "lab2", "questions"
    char *suite; // "lab2_alibi"; "questions"
    char *file;  // the learner's file, there or not
    char *words; // for a command line: "CH=05 LAB=2"
} LabChoice;

// The lab that options.lab names in the chapter `named`. Ends the program with what to write when
// that is NULL, or when the lab is not named or does not exist.
LabChoice choose_lab(const char *command, const char *named);
void choice_free(LabChoice *choice);

// What LAB= takes for a lab: "2" of "lab2", "questions". Points into `id`.
const char *lab_label(const char *id);

// ---- the commands; each returns the exit status -------------------------------------------------

// Grades the labs that `options` chooses, reports and remembers (main.c).
int grade(const Names *chapters);

// Says what to do now: the first lab without full marks.
int show_next(const Names *chapters);

// Shows the solution of a lab that has full marks, remembered or on the spot. 1: refused.
int show_solution(const char *chapter);

// Shows a lab's next hint, or with `again` those shown so far. 1: there are none.
int show_hint(const char *chapter, bool again);

// Puts a lab's file back to its untouched state, after a yes on the terminal or without asking
// when `yes`. The learner's file is kept as a backup. 1: not done.
int reset_lab(const char *chapter, bool yes);

// Grades a chapter's labs, or one lab, and again each time a file is saved, until Ctrl-C.
int watch(const char *chapter);

#endif
