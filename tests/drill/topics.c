// The list of topics: see drill.h.
#include "tests/drill/drill.h"
#include "tests/grade/numbers.h"

#include <string.h>

const Topic *const topics[TOPICS] = {
    &naive_topic, &compulsory_topic, &intensity_topic, &softmax_topic, &merge_topic,
    &waves_topic, &visible_topic,    &backward_topic,  &kv_topic,      &pages_topic,
};

int shape_count(const Topic *topic) {
    int count = 0;
    while (topic->shapes[count] != NULL) {
        count++;
    }
    return count;
}

int find_topic(const char *name) {
    for (int i = 0; i < TOPICS; i++) {
        if (strcmp(topics[i]->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_same(double a, double b) {
    return is_near(a, b, 1e-9); // what rounding leaves
}

// Leaves out mistakes that have no value of their own with these sizes, as 1 / alpha for alpha = 1.
static void drop_mistakes(Question *question) {
    int kept = 0;
    for (int i = 0; i < question->mistake_count; i++) {
        const Mistake mistake = question->mistakes[i];
        bool own = !is_same(mistake.value, question->value);
        for (int k = 0; k < kept; k++) {
            own = own && !is_same(mistake.value, question->mistakes[k].value);
        }
        if (own) {
            question->mistakes[kept++] = mistake;
        }
    }
    question->mistake_count = kept;
}

static bool accepts_a_mistake(const Question *question) {
    for (int i = 0; i < question->mistake_count; i++) {
        if (is_accepted(question, question->mistakes[i].value, question->unit.scale)) {
            return true;
        }
    }
    return false;
}

Question make_question(const Topic *topic, int shape, Draw *draw) {
    const int most_draws = 20;
    Question question;
    int draws = 0;
    do {
        question = (Question){0};
        draw->count = 0;
        topic->shapes[shape](&question, draw);
        drop_mistakes(&question);
        draws++;
    } while (draws < most_draws && (question.trivial || accepts_a_mistake(&question)));
    return question;
}
