// The drill: questions on the card numbers with fresh sizes each time. A topic has several shapes
// of question; a shape draws its sizes, and writes the question, the right value, the chain of
// reasoning to it, and the wrong values that usual slips lead to.
#ifndef TESTS_DRILL_DRILL_H
#define TESTS_DRILL_DRILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TOPICS = 10,
    MOST_SHAPES = 8,
    MOST_PARAMS = 8,
    MOST_MISTAKES = 6,
    TEXT_BYTES = 800,
    CHAIN_BYTES = 1200,
    NUMBER_BYTES = 48,
    COLUMNS = 80
};

// ---- draw.c: sizes by chance --------------------------------------------------------------------

typedef struct Param {
    const char *name;
    int64_t value;
} Param;

// A series of numbers, the same on every machine for the same state (splitmix64), and what was
// drawn from it for one question.
typedef struct Draw {
    uint64_t state;
    const Param *fixed; // values for these names are taken from here instead, or NULL
    int fixed_count;
    Param drawn[MOST_PARAMS];
    int count;
} Draw;

uint64_t draw_bits(Draw *draw);
int64_t draw_below(Draw *draw, int64_t count); // 0 .. count - 1; leaves no record

// Each draws one value and records it under its name: from low to high, both included; a power of
// two from 2^low to 2^high; one of `count` values.
int64_t draw_range(Draw *draw, const char *name, int64_t low, int64_t high);
int64_t draw_power(Draw *draw, const char *name, int low, int high);
int64_t draw_one_of(Draw *draw, const char *name, const int64_t *values, int count);

// What was drawn under this name; `otherwise` when nothing was.
int64_t draw_value(const Draw *draw, const char *name, int64_t otherwise);

// ---- question.c: what a question is -------------------------------------------------------------

typedef enum Kind {
    KIND_BYTES,
    KIND_FLOP,
    KIND_INTENSITY, // FLOP/B
    KIND_TIME,      // base unit: seconds
    KIND_PERCENT,   // base unit: percent
    KIND_PLAIN,     // a number without a unit
    KIND_COUNT      // keys, blocks, ...
} Kind;

typedef struct Unit {
    const char *name; // "MiB"; of a count, what is counted, in the plural
    Kind kind;
    double scale; // in base units: bytes, FLOP, seconds, ...
} Unit;

typedef struct Mistake {
    double value;    // in base units
    const char *why; // what somebody who answers this has done
} Mistake;

typedef struct Question {
    char text[TEXT_BYTES];
    char chain[CHAIN_BYTES];         // a step a line, without the answer itself
    double value;                    // in base units
    bool exact;                      // the whole number itself is wanted, not two figures of it
    bool trivial;                    // these sizes need no work: others are to be drawn
    Unit unit;                       // that the answer is asked in
    Mistake mistakes[MOST_MISTAKES]; // none has the right value, or that of another one
    int mistake_count;
    bool cut; // a text did not fit
} Question;

// Adds a sentence to the question, a step to the chain (printf-style). Whole numbers need no commas
// here: print_text adds them.
void ask(Question *question, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reason(Question *question, const char *format, ...) __attribute__((format(printf, 2, 3)));
void expect_mistake(Question *question, double value, const char *why);

// The right value in base units. unit is a name that find_unit knows, or what is counted.
void answer_near(Question *question, double value, const char *unit);
void answer_exactly(Question *question, double value, const char *unit);

// KiB, MiB, GiB or TiB: the largest of which there is at least one; B below 1 KiB.
const char *bytes_unit(double bytes);

Unit find_unit(const char *name);

// Numbers as text, into `text` (NUMBER_BYTES); each returns text.
char *format_number(char *text, double value); // at least 3 figures: "0.335", "4.8", "5242880"
char *format_whole(char *text, double value);  // "67108864 = 2^26"; "12345"
char *format_answer(char *text, const Question *question); // "520 MiB"

// "8-bit", "16-bit", "32-bit" of 1, 2, 4 bytes.
const char *type_name(int64_t bytes);

// ---- answers.c: what a learner types ------------------------------------------------------------

typedef enum Verdict { ANSWER_RIGHT, ANSWER_WRONG, ANSWER_UNREADABLE } Verdict;

// Whether a value in base units is right when it is typed in units of `scale`.
bool is_accepted(const Question *question, double value, double scale);

// Judges "520", "545 MB", "1/3", "2^20 B". `why` (TEXT_BYTES) receives what is known of a wrong
// answer, or what to type instead of an unreadable one; empty when there is nothing to say.
Verdict judge(const Question *question, const char *answer, char *why);

// ---- topics_*.c ---------------------------------------------------------------------------------

typedef void (*Shape)(Question *question, Draw *draw);

typedef struct Topic {
    const char *name;              // "naive-bytes"
    const char *title;             // "bytes of naive attention"
    const char *chapter;           // where it is explained: "chapters/ch01_naive"
    Shape shapes[MOST_SHAPES + 1]; // NULL behind the last
} Topic;

extern const Topic naive_topic, compulsory_topic, intensity_topic, softmax_topic, merge_topic,
    waves_topic, visible_topic, backward_topic, kv_topic, pages_topic;

extern const Topic *const topics[TOPICS]; // topics.c, in the order of the chapters

int shape_count(const Topic *topic);
int find_topic(const char *name); // its place in topics, or -1

// A question of this topic and shape; draw->count starts at 0. Sizes with which a mistake would be
// taken for right are drawn anew, a limited number of times.
Question make_question(const Topic *topic, int shape, Draw *draw);

// ---- scores.c: what is kept between runs --------------------------------------------------------

typedef struct Score {
    int asked; // and answered, right or not
    int right;
} Score;

typedef struct Scores {
    Score topic[TOPICS];
} Scores;

// Reads a file with lines "topic asked right". Lines that are not that are left out, and a line on
// stderr says how many. A file that is not there has no scores.
Scores scores_read(const char *path);

// Writes the file, and makes its folder when that is missing. False (errno set) on an error.
bool scores_write(const char *path, const Scores *scores);

// How often a topic is to come, relative to others: 7 when it was never asked, down to 2 when all
// answers were right, up to 11 when all were wrong.
int score_weight(Score score);

// ---- show.c: the terminal -----------------------------------------------------------------------

// Prints a text, wrapped at COLUMNS, its first line indented by `first`, the others by `rest`.
// Whole numbers of four digits or more are given their commas.
void print_text(FILE *out, int first, int rest, const char *text);

typedef enum Paint { PAINT_GOOD, PAINT_BAD, PAINT_STRONG } Paint;

// Prints one word or phrase, in colour when `colour`.
void print_painted(FILE *out, bool colour, Paint paint, const char *text);

void print_chain(FILE *out, const Question *question);

// The table of topics that were asked now or ever: this run, all runs, a bar.
void print_scores(FILE *out, bool colour, const Scores *now, const Scores *all);

// ---- session.c ----------------------------------------------------------------------------------

typedef struct Session {
    FILE *in; // answers, a line each
    FILE *out;
    bool script; // in is a file of answers: comments and empty lines are left out, and what cannot
                 // be read is wrong, since the next line answers the next question
    bool echo;   // print the answers as they are read, since no terminal does
    bool colour;
    bool seeded; // topics do not depend on the scores
    uint64_t seed;
    int count;
    int topic;               // place in topics, or -1: mixed
    const char *scores_path; // NULL: keep none
} Session;

// Asks, judges, shows; keeps the scores after every answer. True when all questions were asked and
// all answers were right.
bool run_session(const Session *session);

#endif
