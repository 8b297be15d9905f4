// The scores that are kept between runs: see drill.h.
#include "tests/drill/drill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 128, MOST_LINES = 1000, MOST_ASKED = 1000000000 };

// Reads "topic asked right". False when the line is not that.
static bool read_score(const char *line, Scores *scores) {
    char name[32], rest[2];
    long asked = 0, right = 0;
    if (sscanf(line, "%31s %9ld %9ld %1s", name, &asked, &right, rest) != 3) {
        return false;
    }
    const int topic = find_topic(name);
    if (topic < 0 || right < 0 || asked < right || asked >= MOST_ASKED) {
        return false;
    }
    scores->topic[topic] = (Score){(int)asked, (int)right};
    return true;
}

Scores scores_read(const char *path) {
    Scores scores = {0};
    char line[LINE_BYTES];
    int lines = 0, bad = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        if (errno != ENOENT && errno != ENOTDIR) {
            fprintf(stderr, "drill: %s: %s; its scores are not counted\n", path, strerror(errno));
        }
        return scores;
    }
    for (; lines < MOST_LINES && fgets(line, sizeof line, file) != NULL; lines++) {
        bad += !read_score(line, &scores);
    }
    if (ferror(file) || bad > 0) {
        fprintf(stderr,
                "drill: %s is damaged: %d of %d lines are no scores and are left out; the next\n"
                "  answer writes it anew\n",
                path, bad, lines);
    }
    fclose(file);
    return scores;
}

// Makes the folders above a file. False (errno set) when one cannot be made.
static bool make_folders(const char *path) {
    char *part = strdup(path);
    bool ok = part != NULL;
    for (char *slash = ok ? strchr(part + 1, '/') : NULL; ok && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        ok = mkdir(part, 0755) == 0 || errno == EEXIST;
        *slash = '/';
    }
    free(part);
    return ok;
}

bool scores_write(const char *path, const Scores *scores) {
    char temporary[4096];
    const int length = snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    if (path[0] == '\0' || length < 0 || (size_t)length >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return false;
    }
    FILE *file = make_folders(path) ? fopen(temporary, "we") : NULL;
    if (file == NULL) {
        return false;
    }
    for (int i = 0; i < TOPICS; i++) {
        const Score *score = &scores->topic[i];
        if (score->asked > 0) {
            fprintf(file, "%s %d %d\n", topics[i]->name, score->asked, score->right);
        }
    }
    bool ok = !ferror(file);
    ok = fclose(file) == 0 && ok;
    ok = ok && rename(temporary, path) == 0;
    if (!ok) {
        const int error = errno;
        unlink(temporary);
        errno = error;
    }
    return ok;
}

int score_weight(Score score) {
    const int wrong = score.asked - score.right;
    return 2 + (int)(10 * ((int64_t)wrong + 1) / ((int64_t)score.asked + 2));
}
