// What to do now, the solution after passing, and how the commands for learners name a lab.
#include "tests/grade/learner.h"

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

static const size_t solution_limit = 1 << 20;

// ---- naming a lab -------------------------------------------------------------------------------

char *chapter_name(const char *word) {
    const char *digits = word + (strncasecmp(word, "ch", 2) == 0 ? 2 : 0);
    const size_t length = strlen(digits);

    if (length < 1 || length > 2 || strspn(digits, "0123456789") != length) {
        return copy_text(word);
    }
    return format_text("ch%02d", atoi(digits));
}

const char *lab_label(const char *id) {
    return strncmp(id, "lab", 3) == 0 ? id + 3 : id;
}

// "0, 1, 2, questions". To be freed.
static char *list_labs(const Names *suites, bool questions) {
    Text text = {0};

    for (size_t i = 0; i < suites->count; i++) {
        text_format(&text, "%s%d", i > 0 ? ", " : "", atoi(suites->name[i] + 3));
    }
    text_format(&text, "%s", !questions ? "" : suites->count > 0 ? ", questions" : "questions");
    return text.data;
}

// The chapter; ends the program when none was named.
static const char *named_chapter(const char *command, const char *chapter) {
    if (chapter == NULL) {
        die("make %s needs a chapter and a lab: make %s CH=01 LAB=1", command, command);
    }
    return chapter;
}

// Ends the program: options.lab is none of the chapter's labs.
static _Noreturn void refuse_lab(const char *command, const char *chapter, const char *labs) {
    if (options.lab == ALL_LABS) {
        die("make %s CH=%s needs a lab as well: LAB= one of %s", command, chapter + 2, labs);
    }
    die("%s has no such lab; LAB= takes one of %s", chapter, labs);
}

// The suite that options.lab names, to be freed; ends the program when there is none.
static char *chosen_suite(const char *command, const char *chapter) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);

    for (size_t i = 0; i < suites.count; i++) {
        if (atoi(suites.name[i] + 3) == options.lab) {
            char *suite = copy_text(suites.name[i]);

            names_free(&suites);
            return suite;
        }
    }
    if (options.lab != ONLY_QUESTIONS || !questions) {
        refuse_lab(command, chapter, list_labs(&suites, questions));
    }
    names_free(&suites);
    return copy_text("questions");
}

LabChoice choose_lab(const char *command, const char *named) {
    const char *chapter = named_chapter(command, named);
    LabChoice choice = {.chapter = chapter};

    choice.suite = chosen_suite(command, chapter);
    choice.id = lab_id(choice.suite);
    choice.words = format_text("CH=%s LAB=%s", chapter + 2, lab_label(choice.id));
    if (options.lab == ONLY_QUESTIONS) {
        choice.file = format_text("%s/%s/answers.txt", options.from, chapter);
        return choice;
    }
    choice.file = lab_file(options.from, chapter, choice.suite);
    if (choice.file == NULL) {
        choice.file = format_text("%s/%s/%s%s", options.from, chapter, choice.suite,
                                  lab_suffix(chapter, choice.suite));
    }
    return choice;
}

void choice_free(LabChoice *choice) {
    free(choice->id);
    free(choice->suite);
    free(choice->file);
    free(choice->words);
    *choice = (LabChoice){0};
}

// ---- make next ----------------------------------------------------------------------------------

// The chapter's folder, "chapters/ch05_fused_cuda"; NULL when there is none. To be freed.
static char *lesson_folder(const char *chapter) {
    char *pattern = format_text("chapters/%s_*", chapter);
    glob_t found;
    char *folder = NULL;

    if (glob(pattern, 0, NULL, &found) == 0) {
        folder = copy_text(found.gl_pathv[0]);
        globfree(&found);
    }
    free(pattern);
    return folder;
}

// What comes before a chapter's labs.
static void show_chapter_steps(const char *chapter) {
    char *folder = lesson_folder(chapter);

    if (folder != NULL) {
        printf("  read     %s/README.md\n", folder);
        printf("  run      make %s && ./%s\n", chapter, chapter);
    }
    printf("  read     exercises/%s/README.md: what each lab asks for\n", chapter);
    free(folder);
}

// The first lab that is open, and how to go about it.
static void show_steps(const char *chapter, const Standings *standings, const Standing *lab) {
    const bool questions = strcmp(lab->id, "questions") == 0;
    LabChoice choice;

    options.lab = questions ? ONLY_QUESTIONS : atoi(lab->id + 3);
    choice = choose_lab("next", chapter);
    write_score_line(stdout, chapter, standings->score, standings->points, "");
    printf("\nNext: %s %s, %s\n", chapter, lab->id, questions ? "the numbers" : lab->title);
    if (lab->best < 0) {
        printf("  points   %d, not graded yet\n", lab->points);
    } else {
        printf("  points   %d of %d so far\n", lab->best, lab->points);
    }
    show_chapter_steps(chapter);
    printf("  edit     %s\n", choice.file);
    printf("  grade    make grade-%s LAB=%s\n", chapter, lab_label(lab->id));
    printf("  or       make watch %s    grades at each save\n", choice.words);
    printf("  stuck?   make hint %s\n", choice.words);
    choice_free(&choice);
}

int show_next(const Names *chapters) {
    int points = 0;

    for (size_t i = 0; i < chapters->count; i++) {
        const Names one = {&chapters->name[i], 1};
        Standings standings;
        const Standing *lab;

        build_shared(&one); // only what is needed: the first time it takes a while
        standings = chapter_standings(chapters->name[i]);
        lab = first_open(&standings);
        if (lab != NULL) {
            show_steps(chapters->name[i], &standings, lab);
            standings_free(&standings);
            return 0;
        }
        points += standings.points;
        standings_free(&standings);
    }
    printf("Well done: full marks in %s, %d points.\n",
           chapters->count == 1 ? chapters->name[0] : "every chapter", points);
    return 0;
}

// ---- make solution ------------------------------------------------------------------------------

// Whether the lab's best score is full marks; it is graded now when none such is remembered.
static bool has_passed(const LabChoice *choice, const Names *chapter) {
    Standings standings;
    bool passed = false;

    build_shared(chapter);
    standings = chapter_standings(choice->chapter);
    for (size_t i = 0; i < standings.count; i++) {
        const Standing *lab = &standings.lab[i];

        passed |= strcmp(lab->id, choice->id) == 0 && lab->best >= lab->points;
    }
    standings_free(&standings);
    return passed || grade(chapter) == 0;
}

int show_solution(const char *chapter) {
    LabChoice choice = choose_lab("solution", chapter);
    char *name = copy_text(chapter);
    const Names one = {&name, 1};
    const bool questions = options.lab == ONLY_QUESTIONS;
    char *path = questions ? format_text("solutions/%s/answers.txt", chapter)
                           : lab_file("solutions", chapter, choice.suite);
    char *text = path != NULL ? read_file(path, solution_limit) : NULL;
    int status = 1;

    if (text == NULL) {
        fprintf(stderr, "%s\n",
                directory_exists("solutions")
                    ? "There is no solution of this lab in solutions/."
                    : "This copy of the course has no solutions/: ask who gave it to you.");
    } else if (!has_passed(&choice, &one)) {
        fprintf(stderr,
                "\nThe solution is shown once %s %s has full marks. What is missing is above.\n"
                "A hint: make hint %s\n",
                chapter, choice.id, choice.words);
    } else {
        printf("%s %s, full marks. One solution, %s:\n\n%s", chapter, choice.id, path, text);
        printf("\nWhat differs from yours:\n  diff %s \\\n       %s\n", choice.file, path);
        status = 0;
    }
    free(text);
    free(path);
    free(name);
    choice_free(&choice);
    return status;
}
