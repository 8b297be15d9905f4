// A session at the terminal: asks, judges, shows the reasoning, keeps the scores. See drill.h.
#include "tests/drill/drill.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES = 256 };

// ---- which topic --------------------------------------------------------------------------------

// What is drawn from while a session lasts.
typedef struct Deck {
    Draw draw;
    int left[TOPICS]; // topics that this round has still to ask
    int count;
    int last;               // the topic asked before, -1 at first
    unsigned asked[TOPICS]; // bit i: shape i came in this round of the topic's shapes
} Deck;

// Every topic once in each round, in a random order.
static int next_in_round(Deck *deck) {
    if (deck->count == 0) {
        for (int i = 0; i < TOPICS; i++) {
            deck->left[i] = i;
        }
        deck->count = TOPICS;
    }
    const int at = (int)draw_below(&deck->draw, deck->count);
    const int topic = deck->left[at];
    deck->left[at] = deck->left[--deck->count];
    return topic;
}

// Whether the topic's chapter is here: a student copy may have the first ones alone. Where none is,
// the drill runs elsewhere than in the course's folder, and every topic counts as here.
static bool is_here(int topic) {
    bool any = false;
    for (int i = 0; i < TOPICS; i++) {
        any = any || access(topics[i]->chapter, F_OK) == 0;
    }
    return !any || access(topics[topic]->chapter, F_OK) == 0;
}

static int weight_of(const Deck *deck, const Scores *all, int topic, bool again) {
    return (topic == deck->last && !again) || !is_here(topic) ? 0 : score_weight(all->topic[topic]);
}

// Topics with a low score more often, and never one twice in a row if there is another.
static int next_by_score(Deck *deck, const Scores *all) {
    int sum = 0, topic = 0;
    for (int i = 0; i < TOPICS; i++) {
        sum += weight_of(deck, all, i, false);
    }
    const bool again = sum == 0;
    for (int i = 0; again && i < TOPICS; i++) {
        sum += weight_of(deck, all, i, true);
    }
    int64_t at = draw_below(&deck->draw, sum);
    for (int i = 0; i < TOPICS; i++) {
        const int weight = weight_of(deck, all, i, again);
        if (at >= 0 && at < weight) {
            topic = i;
        }
        at -= weight;
    }
    return topic;
}

static int next_topic(const Session *session, Deck *deck, const Scores *all) {
    const int topic = session->topic >= 0 ? session->topic
                      : session->seeded   ? next_in_round(deck)
                                          : next_by_score(deck, all);
    deck->last = topic;
    return topic;
}

// A question of the topic; every shape comes once in each round of them, in a random order.
static Question next_question(Deck *deck, int topic) {
    const int count = shape_count(topics[topic]);
    unsigned *asked = &deck->asked[topic];
    if (*asked == (1U << count) - 1) {
        *asked = 0;
    }
    int shape = (int)draw_below(&deck->draw, count);
    while ((*asked >> shape & 1U) != 0) {
        shape = (shape + 1) % count;
    }
    *asked |= 1U << shape;
    return make_question(topics[topic], shape, &deck->draw);
}

// ---- one answer ---------------------------------------------------------------------------------

// The next line, without what surrounds it; false at the end of the input. Of a line that is too
// long the rest is dropped. A script's comments and empty lines are left out.
static bool read_answer(const Session *session, char *answer) {
    while (fgets(answer, ANSWER_BYTES, session->in) != NULL) {
        if (strchr(answer, '\n') == NULL) {
            for (int c = getc(session->in); c != EOF && c != '\n';) {
                c = getc(session->in);
            }
        }
        if (session->script) {
            answer[strcspn(answer, "#")] = '\0';
        }
        size_t first = 0, length = strlen(answer);
        while (length > 0 && isspace((unsigned char)answer[length - 1])) {
            answer[--length] = '\0';
        }
        while (isspace((unsigned char)answer[first])) {
            first++;
        }
        memmove(answer, answer + first, length - first + 1);
        if (!session->script || answer[0] != '\0') {
            return true;
        }
    }
    return false;
}

// "  answer in MiB> "
static void prompt(const Session *session, const Question *question) {
    const char *exactly = question->exact ? ", exactly" : "";
    if (question->unit.kind == KIND_PLAIN) {
        fprintf(session->out, "  a number%s> ", exactly);
    } else if (question->unit.kind == KIND_COUNT) {
        fprintf(session->out, "  %s%s> ", question->unit.name, exactly);
    } else {
        fprintf(session->out, "  answer in %s%s> ", question->unit.name, exactly);
    }
    fflush(session->out);
}

typedef enum Outcome { OUTCOME_RIGHT, OUTCOME_WRONG, OUTCOME_SHOWN, OUTCOME_END } Outcome;

static void tell(const Session *session, Paint paint, const char *head, const char *why) {
    fputs("  ", session->out);
    print_painted(session->out, session->colour, paint, head);
    fputc('\n', session->out);
    if (why[0] != '\0') {
        print_text(session->out, 2, 2, why);
    }
}

// Reads answers until one counts or the learner wants to see the reasoning or to end.
static Outcome take_answer(const Session *session, const Question *question) {
    char answer[ANSWER_BYTES], why[TEXT_BYTES];
    for (;;) {
        prompt(session, question);
        if (!read_answer(session, answer)) {
            fputc('\n', session->out);
            return OUTCOME_END;
        }
        if (session->echo) {
            fprintf(session->out, "%s\n", answer);
        }
        if (strcmp(answer, "q") == 0 || strcmp(answer, "quit") == 0) {
            return OUTCOME_END;
        }
        if (answer[0] == '\0' || strcmp(answer, "?") == 0) {
            return OUTCOME_SHOWN;
        }
        const Verdict verdict = judge(question, answer, why);
        if (verdict == ANSWER_RIGHT) {
            tell(session, PAINT_GOOD, "Right.", "");
            return OUTCOME_RIGHT;
        }
        if (verdict == ANSWER_WRONG || session->script) {
            tell(session, PAINT_BAD, "Wrong.", why);
            return OUTCOME_WRONG;
        }
        print_text(session->out, 2, 2, why);
    }
}

// ---- the session --------------------------------------------------------------------------------

// Counts an answer and keeps the scores; after the first failure to write they are kept no more.
static void count_answer(const Session *session, bool *keeps, Score *now, Score *all, bool right,
                         const Scores *scores) {
    now->asked++;
    now->right += right;
    all->asked++;
    all->right += right;
    if (*keeps && !scores_write(session->scores_path, scores)) {
        fprintf(stderr, "drill: %s: %s; the scores of this run are not kept\n",
                session->scores_path, strerror(errno));
        *keeps = false;
    }
}

static void print_head(const Session *session) {
    char text[TEXT_BYTES];
    const char *mix = session->topic >= 0 ? topics[session->topic]->title
                      : session->seeded   ? "all topics in turn"
                                          : "topics with a low score come more often";
    snprintf(text, sizeof text, "%d question%s, %s; seed", session->count,
             session->count == 1 ? "" : "s", mix);
    fprintf(session->out, "%s %llu\n", text, (unsigned long long)session->seed);
    print_text(
        session->out, 0, 0,
        "Two figures are enough; where it says \"exactly\", the whole number is wanted. A bare "
        "number is in the unit asked for; other prefixes may be typed (512 MiB = 537 MB). ? or "
        "an empty line shows the reasoning and counts nothing, q ends.");
}

// The topic of this run with the lowest share of right answers, -1 when all were right.
static int weakest(const Scores *now) {
    int found = -1;
    for (int i = 0; i < TOPICS; i++) {
        const Score *score = &now->topic[i];
        if (score->right < score->asked &&
            (found < 0 || (int64_t)score->right * now->topic[found].asked <
                              (int64_t)now->topic[found].right * score->asked)) {
            found = i;
        }
    }
    return found;
}

static void print_end(const Session *session, const Scores *now, const Scores *all) {
    char text[TEXT_BYTES];
    Score run = {0};
    for (int i = 0; i < TOPICS; i++) {
        run.asked += now->topic[i].asked;
        run.right += now->topic[i].right;
    }
    snprintf(text, sizeof text, "%d of %d right", run.right, run.asked);
    fputc('\n', session->out);
    print_painted(session->out, session->colour, PAINT_STRONG, text);
    fputs("\n", session->out);
    print_scores(session->out, session->colour, now, all);
    const int topic = weakest(now);
    if (topic >= 0) {
        snprintf(
            text, sizeof text,
            "Again: make drill TOPIC=%s. It is explained in %s/README.md, and the formula is in "
            "docs/drill.md.",
            topics[topic]->name, topics[topic]->chapter);
        print_text(session->out, 0, 0, text);
    }
}

bool run_session(const Session *session) {
    Deck deck = {.draw.state = session->seed, .last = -1};
    bool keeps = session->scores_path != NULL;
    Scores now = {0}, all = {0};
    int right = 0;
    if (keeps) {
        all = scores_read(session->scores_path);
    }
    print_head(session);
    for (int i = 0; i < session->count; i++) {
        const int topic = next_topic(session, &deck, &all);
        const Question question = next_question(&deck, topic);
        fprintf(session->out, "\n%d/%d  ", i + 1, session->count);
        print_painted(session->out, session->colour, PAINT_STRONG, topics[topic]->name);
        fputc('\n', session->out);
        print_text(session->out, 2, 2, question.text);
        const Outcome outcome = take_answer(session, &question);
        if (outcome == OUTCOME_END) {
            break;
        }
        if (outcome != OUTCOME_SHOWN) {
            right += outcome == OUTCOME_RIGHT;
            count_answer(session, &keeps, &now.topic[topic], &all.topic[topic],
                         outcome == OUTCOME_RIGHT, &all);
        }
        print_chain(session->out, &question);
    }
    print_end(session, &now, &all);
    fflush(session->out);
    return right == session->count;
}
