// Grades again each time a lab's file is saved. inotify tells at once that something happened in
// the folder; what happened is read from the files themselves, twice a second in any case, which
// also serves where inotify is missing or blind (network folders, a folder that was replaced).
#include "tests/grade/learner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/inotify.h>
#endif

enum { LOOK_MS = 500, SETTLE_MS = 60, SETTLE_TURNS = 10, RULE = 80 };
enum { FULL = 0, LESS = 1, MISTAKE = 2 }; // grade()'s exit status; 2: nothing was graded

// What tells one state of a file from another: an editor writes it in place, or renames another
// file over it.
typedef struct FileState {
    bool exists;
    struct timespec modified;
    off_t size;
    ino_t inode;
} FileState;

typedef struct WatchedLab {
    LabChoice choice;
    int number; // for options.lab
    FileState state;
} WatchedLab;

typedef struct Watched {
    const char *chapter;
    int asked; // options.lab as given: one lab, or ALL_LABS
    WatchedLab *lab;
    size_t count;
} Watched;

// ---- files --------------------------------------------------------------------------------------

static FileState look_at(const char *path) {
    struct stat info;

    if (stat(path, &info) != 0) {
        return (FileState){0};
    }
    return (FileState){true, info.st_mtim, info.st_size, info.st_ino};
}

static bool is_same(const FileState *a, const FileState *b) {
    return a->exists == b->exists && a->size == b->size && a->inode == b->inode &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

// Waits until the file stands still, and exists again if an editor is about to replace it.
static FileState settle(const char *path) {
    FileState state = look_at(path);
    bool moving = true;

    for (int turn = 0; turn < SETTLE_TURNS && (moving || !state.exists); turn++) {
        FileState before = state;

        poll(NULL, 0, SETTLE_MS);
        state = look_at(path);
        moving = !is_same(&before, &state);
    }
    return state;
}

// Opens what wakes the wait when something is saved in the folder; -1 when there is no such thing.
static int open_notifier(const char *folder) {
#ifdef __linux__
    const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd >= 0) {
        inotify_add_watch(fd, folder, IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE);
    }
    return fd;
#else
    (void)folder;
    return -1;
#endif
}

// Waits for the notifier, or for half a second.
static void wait_a_while(int notifier) {
    struct pollfd fds = {notifier, POLLIN, 0};
    char events[4096];

    if (poll(&fds, 1, LOOK_MS) > 0) {
        while (read(notifier, events, sizeof(events)) > 0) {
        }
    }
}

// ---- grading ------------------------------------------------------------------------------------

// A line across the terminal with the time and what is graded; lab NULL: the whole chapter.
static void print_rule(const char *chapter, const WatchedLab *lab) {
    const time_t seconds = time(NULL);
    struct tm now;
    int used;

    localtime_r(&seconds, &now);
    printf("\n");
    used = printf("---- %02d:%02d:%02d  %s ", now.tm_hour, now.tm_min, now.tm_sec, chapter);
    if (lab != NULL) {
        used += printf("%s, %s ", lab->choice.id, base_name(lab->choice.file));
    }
    for (; used < RULE; used++) {
        putchar('-');
    }
    printf("\n\n");
}

// Grades in a process of its own, so that nothing that ends the grader ends the watch. Returns its
// exit status.
static int grade_apart(const Watched *watched, int lab) {
    int status = LESS;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child < 0) {
        die("fork: %s", strerror(errno));
    }
    if (child == 0) {
        char *name = copy_text(watched->chapter);
        const Names one = {&name, 1};

        options.lab = lab;
        status = grade(&one);
        free(name);
        exit(status); // through the exit handlers: this process's temporary files go
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        kill(child, SIGTERM);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : LESS;
}

// What comes after the labs that are complete, by the scores remembered.
static void print_next(const Watched *watched) {
    Standings standings = chapter_standings(watched->chapter);
    const Standing *next = first_open(&standings);

    write_score_line(stdout, watched->chapter, standings.score, standings.points,
                     "the chapter's best scores");
    if (next == NULL) {
        printf("The chapter is complete. What follows: make next\n");
    } else if (watched->asked == ALL_LABS) {
        printf("Next: %s, %s\n", next->id, next->title);
        for (size_t i = 0; i < watched->count; i++) {
            if (strcmp(watched->lab[i].choice.id, next->id) == 0) {
                printf("  %s\n", watched->lab[i].choice.file);
            }
        }
    } else {
        printf("Next: %s, %s: make watch CH=%s LAB=%s\n", next->id, next->title,
               watched->chapter + 2, lab_label(next->id));
    }
    standings_free(&standings);
}

// Grades one lab (NULL: the whole chapter) and says how to go on. Returns the exit status.
static int grade_once(const Watched *watched, const WatchedLab *lab) {
    int status;

    print_rule(watched->chapter, lab);
    status = grade_apart(watched, lab != NULL ? lab->number : ALL_LABS);
    if (was_interrupted() || status == MISTAKE) {
        return status;
    }
    printf("\n");
    if (status == FULL && options.test == NULL) {
        print_next(watched);
    } else if (status != FULL && lab != NULL) {
        printf("Stuck? make hint %s\n", lab->choice.words);
    }
    printf("Waiting for the next save in exercises/%s/; Ctrl-C ends.\n", watched->chapter);
    fflush(stdout);
    return status;
}

// ---- the watch ----------------------------------------------------------------------------------

static void add_lab(Watched *watched, int number) {
    WatchedLab *lab = &watched->lab[watched->count++];

    options.lab = number;
    lab->number = number;
    lab->choice = choose_lab("watch", watched->chapter);
    lab->state = look_at(lab->choice.file);
}

// The lab that was asked for, or all of the chapter.
static Watched watched_labs(const char *chapter) {
    bool questions;
    Names suites = chapter_suites(chapter, &questions);
    Watched watched = {chapter, options.lab, allocate(suites.count + 1, sizeof(WatchedLab)), 0};

    if (watched.asked != ALL_LABS) {
        add_lab(&watched, watched.asked);
    }
    for (size_t i = 0; i < suites.count && watched.asked == ALL_LABS; i++) {
        add_lab(&watched, atoi(suites.name[i] + 3));
    }
    if (questions && watched.asked == ALL_LABS) {
        add_lab(&watched, ONLY_QUESTIONS);
    }
    options.lab = watched.asked;
    names_free(&suites);
    return watched;
}

// Grades each lab whose file differs from what was graded last.
static void grade_saved(Watched *watched) {
    for (size_t i = 0; i < watched->count && !was_interrupted(); i++) {
        WatchedLab *lab = &watched->lab[i];
        FileState now = look_at(lab->choice.file);

        if (!is_same(&now, &lab->state)) {
            lab->state = settle(lab->choice.file);
            grade_once(watched, lab);
        }
    }
}

int watch(const char *chapter) {
    Watched watched;
    char *folder;
    int notifier;
    bool mistake; // in the command, or in the course: it has been told

    if (chapter == NULL) {
        die("make watch needs a chapter: make watch CH=01, or with a lab: make watch CH=01 LAB=1");
    }
    watched = watched_labs(chapter);
    folder = format_text("exercises/%s", chapter);
    notifier = open_notifier(folder);
    mistake = grade_once(&watched, watched.asked == ALL_LABS ? NULL : watched.lab) == MISTAKE &&
              !was_interrupted();
    while (!was_interrupted() && !mistake) {
        grade_saved(&watched);
        if (!was_interrupted()) {
            wait_a_while(notifier);
        }
    }
    if (!mistake) {
        printf("\nThe watch has ended. Where you stand: make progress\n");
    }
    for (size_t i = 0; i < watched.count; i++) {
        choice_free(&watched.lab[i].choice);
    }
    free(watched.lab);
    free(folder);
    if (notifier >= 0) {
        close(notifier);
    }
    return mistake ? MISTAKE : 0;
}
