// What an assignment's settings mean for the tests of the labs that they name: every name is looked
// up in the suites, and points are shared.
#include "tests/grade/assignment.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 76 };

// Names as a list in lines of their own, to be freed.
static char *list_names(const Names *names) {
    Text text = {0};
    size_t column = 0;

    text_add(&text, "", 0);
    for (size_t i = 0; i < names->count; i++) {
        const size_t length = strlen(names->name[i]);

        column = column + 2 + length > WIDTH ? 0 : column;
        text_format(&text, "%s%s%s", i > 0 ? "," : "", column == 0 ? "\n  " : " ", names->name[i]);
        column = column == 0 ? 2 + length : column + 2 + length;
    }
    return text.data;
}

// The tests of the lab that the setting names, with the suite's points.
static LabResult named_lab(const Settings *settings, const char *chapter, const Setting *setting) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);
    Names labs = {0};
    LabResult lab = {0};

    for (size_t i = 0; i < suites.count; i++) {
        char *id = lab_id(suites.name[i]);

        if (strcmp(id, setting->lab) == 0) {
            lab = lab_table(chapter, suites.name[i]);
        }
        names_add(&labs, id);
        free(id);
    }
    if (questions) {
        names_add(&labs, "questions");
        if (strcmp(setting->lab, "questions") == 0) {
            lab = grade_questions_of(chapter, "exercises", NULL);
        }
    }
    if (lab.count == 0) {
        setting_mistake(settings->path, setting->line, "%s has no lab `%.40s`; it has:%s", chapter,
                        setting->lab, list_names(&labs));
    }
    names_free(&labs);
    names_free(&suites);
    return lab;
}

// The index of the setting's test in the lab.
static size_t named_test(const Settings *settings, const LabResult *lab, const Setting *setting) {
    Names tests = {0};

    for (size_t i = 0; i < lab->count; i++) {
        if (strcmp(lab->tests[i].name, setting->test) == 0) {
            names_free(&tests);
            return i;
        }
        names_add(&tests, lab->tests[i].name);
    }
    setting_mistake(settings->path, setting->line, "%s has no test `%.60s`; its tests are:%s",
                    setting->lab, setting->test, list_names(&tests));
}

// Gives the tests without points of their own what the lab's points leave to them.
static void share_rest(const Settings *settings, const Setting *setting, const LabResult *lab,
                       PlannedTest *planned, const bool *is_set) {
    int *points = allocate(lab->count, sizeof(int));
    int *shares = allocate(lab->count, sizeof(int));
    int rest = setting->worth;
    int sum = 0;

    for (size_t i = 0; i < lab->count; i++) {
        points[i] = is_set[i] ? 0 : lab->tests[i].points;
        rest -= is_set[i] ? planned[i].worth : 0;
        sum += points[i];
    }
    if (rest < 0 || (rest > 0 && sum == 0)) {
        setting_mistake(settings->path, setting->line,
                        "%s counts %s points, but its tests with points of their own\nadd up to %s",
                        setting->lab, show_points(setting->worth),
                        show_points(setting->worth - rest));
    }
    if (sum > 0) {
        share_points(rest, points, shares, lab->count);
    }
    for (size_t i = 0; i < lab->count; i++) {
        planned[i].worth = is_set[i] ? planned[i].worth : shares[i];
    }
    free(points);
    free(shares);
}

// Plans the tests of the lab that `settings[first]` is the first to name.
static void plan_lab(const Settings *settings, Assignment *assignment, size_t first) {
    const char *id = settings->setting[first].lab;
    LabResult lab = named_lab(settings, assignment->chapter, &settings->setting[first]);
    PlannedTest *planned = allocate(lab.count, sizeof(PlannedTest));
    bool *is_set = allocate(lab.count, sizeof(bool));
    const Setting *whole = NULL;
    const size_t questions = strcmp(id, "questions") == 0;

    for (size_t i = 0; i < lab.count; i++) {
        planned[i] = (PlannedTest){.lab = copy_text(id),
                                   .test = copy_text(lab.tests[i].name),
                                   .worth = POINT * lab.tests[i].points};
    }
    for (size_t s = first; s < settings->count; s++) {
        const Setting *setting = &settings->setting[s];
        size_t test;

        if (strcmp(setting->lab, id) != 0) {
            continue;
        }
        if (setting->test == NULL) {
            whole = setting;
            continue;
        }
        test = named_test(settings, &lab, setting);
        if (setting->worth >= 0) {
            planned[test].worth = setting->worth;
            is_set[test] = true;
        } else if (test == 0 && !questions) {
            setting_mistake(
                settings->path, setting->line,
                "`%s` is the first test of %s, on which others depend:\nhide another one",
                setting->test, id);
        } else {
            planned[test].hidden = true;
        }
    }
    if (whole != NULL) {
        share_rest(settings, whole, &lab, planned, is_set);
    }
    assignment->tests =
        realloc(assignment->tests, (assignment->count + lab.count) * sizeof(PlannedTest));
    if (assignment->tests == NULL) {
        die("out of memory");
    }
    memcpy(assignment->tests + assignment->count, planned, lab.count * sizeof(PlannedTest));
    assignment->count += lab.count;
    free(planned);
    free(is_set);
    lab_free(&lab);
}

static bool is_planned(const Assignment *assignment, const char *lab) {
    for (size_t i = 0; i < assignment->count; i++) {
        if (strcmp(assignment->tests[i].lab, lab) == 0) {
            return true;
        }
    }
    return false;
}

void plan_tests(Assignment *assignment, const Settings *settings) {
    for (size_t i = 0; i < settings->count; i++) {
        if (!is_planned(assignment, settings->setting[i].lab)) {
            plan_lab(settings, assignment, i);
        }
    }
}
