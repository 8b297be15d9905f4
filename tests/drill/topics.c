// The list of topics: see drill.h.
#include "tests/drill/drill.h"

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

Question make_question(const Topic *topic, int shape, Draw *draw) {
    Question question = {0};
    draw->count = 0;
    topic->shapes[shape](&question, draw);
    return question;
}
