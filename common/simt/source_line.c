// Where a code address stands in the source, and which variable lies at an address: asked of the
// program's own file, by addr2line and by reading its symbol table. Slow (tens of milliseconds), so
// only when there is something to tell.
#include "common/simt/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __linux__

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// The program or shared library that an address belongs to.
typedef struct Module {
    uintptr_t address; // looked for
    uintptr_t base;    // what addresses in its file must be moved by
    char path[4096];   // "" when there is none
} Module;

static int module_visit(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    Module *module = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD &&
            module->address - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz) {
            module->base = info->dlpi_addr;
            snprintf(module->path, sizeof module->path, "%s", info->dlpi_name);
            if (module->path[0] == '\0') { // the program itself
                ssize_t length = readlink("/proc/self/exe", module->path, sizeof module->path - 1);
                module->path[length < 0 ? 0 : length] = '\0';
            }
            return 1;
        }
    }
    return 0;
}

// On the heap: a fiber's stack is small. Freed by the caller.
static Module *module_find(const void *address) {
    Module *module = calloc(1, sizeof *module);
    if (module != NULL) {
        module->address = (uintptr_t)address;
        dl_iterate_phdr(module_visit, module);
    }
    return module;
}

// ---- lines --------------------------------------------------------------------------------------

// Starts addr2line with a pipe on its output. NULL: it cannot be run.
static FILE *addr2line_start(char *const *arguments, pid_t *child) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return NULL;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int problem = posix_spawnp(child, "addr2line", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *output = problem == 0 ? fdopen(ends[0], "r") : NULL;
    if (output == NULL) {
        close(ends[0]);
    }
    return output;
}

static void addr2line_wait(pid_t child) {
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

// Reads "path:line" or "path:line (discriminator 3)"; false where the line is not known.
static bool parse_place(char *text, SourceLine *place) {
    char *colon = strrchr(text, ':');
    if (colon == NULL || atoi(colon + 1) <= 0) {
        return false;
    }
    *colon = '\0';
    const char *slash = strrchr(text, '/');
    snprintf(place->file, sizeof place->file, "%s", slash == NULL ? text : slash + 1);
    place->line = atoi(colon + 1);
    return true;
}

// The frames of an inlined call come innermost first: the first outside the target's headers is the
// kernel's own.
static bool is_header_of_simt(const char *text) {
    return strstr(text, "common/simt/") != NULL && strstr(text, ".h:") != NULL;
}

// addr2line -a prints each address, then the frames at it.
static void read_places(FILE *output, int count, SourceLine *lines) {
    char *text = NULL;
    size_t room = 0;
    int at = -1;
    while (getline(&text, &room, output) > 0 || (ferror(output) && errno == EINTR)) {
        if (ferror(output)) {
            clearerr(output);
        } else if (strncmp(text, "0x", 2) == 0) {
            at++;
        } else if (at >= 0 && at < count && lines[at].line == 0 && !is_header_of_simt(text)) {
            parse_place(text, &lines[at]);
        }
    }
    free(text);
}

enum { ADDRESSES = 64, ADDRESS_TEXT = 24, FIXED_ARGUMENTS = 4 };

// The lines of at most ADDRESSES addresses, all of one module.
static void look_up(Module *module, const void *const *pcs, int count, SourceLine *lines) {
    char *arguments[FIXED_ARGUMENTS + ADDRESSES + 1] = {"addr2line", "-ai", "-e", module->path};
    char(*texts)[ADDRESS_TEXT] = calloc(ADDRESSES, sizeof *texts);
    for (int i = 0; texts != NULL && i < count; i++) {
        // The address that a call returns to: the call itself lies before.
        snprintf(texts[i], sizeof texts[i], "0x%zx",
                 (size_t)((uintptr_t)pcs[i] - module->base - 1));
        arguments[FIXED_ARGUMENTS + i] = texts[i];
    }
    pid_t child;
    FILE *output = texts == NULL ? NULL : addr2line_start(arguments, &child);
    if (output != NULL) {
        read_places(output, count, lines);
        fclose(output);
        addr2line_wait(child);
    }
    free(texts);
}

void simt_source_lines(const void *const *pcs, int count, SourceLine *lines) {
    memset(lines, 0, (size_t)count * sizeof *lines);
    for (int done = 0; done < count;) {
        Module *module = module_find(pcs[done]);
        if (module == NULL) {
            return;
        }
        int end = done + 1;
        while (end < count && end < done + ADDRESSES) {
            Module *next = module_find(pcs[end]);
            bool is_same = next != NULL && next->base == module->base;
            free(next);
            if (!is_same) {
                break;
            }
            end++;
        }
        if (module->path[0] != '\0') {
            look_up(module, pcs + done, end - done, lines + done);
        }
        free(module);
        done = end;
    }
}

// ---- variables ----------------------------------------------------------------------------------

typedef struct Image { // a program's file in memory
    const char *bytes;
    size_t size;
} Image;

static Image image_open(const char *path) {
    Image image = {NULL, 0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0 && status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            image = (Image){bytes, (size_t)status.st_size};
        }
    }
    if (file >= 0) {
        close(file);
    }
    return image;
}

// `count` elements at `offset`, or NULL where the file has not that many.
static const void *image_at(const Image *image, uint64_t offset, uint64_t count, size_t element) {
    bool fits = offset <= image->size && count <= (image->size - offset) / element;
    return fits ? image->bytes + offset : NULL;
}

// The name of the data object that covers `address` in the file's terms, by its symbol table.
static bool image_symbol(const Image *image, uintptr_t address, char *name, size_t name_bytes,
                         uintptr_t *start) {
    const ElfW(Ehdr) *header = image_at(image, 0, 1, sizeof *header);
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return false;
    }
    const ElfW(Shdr) *sections =
        image_at(image, header->e_shoff, header->e_shnum, sizeof *sections);
    for (int i = 0; sections != NULL && i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) {
            continue;
        }
        const ElfW(Shdr) *text = &sections[sections[i].sh_link];
        size_t count = sections[i].sh_size / sizeof(ElfW(Sym));
        const ElfW(Sym) *symbols = image_at(image, sections[i].sh_offset, count, sizeof *symbols);
        const char *names = image_at(image, text->sh_offset, text->sh_size, 1);
        for (size_t j = 0; symbols != NULL && names != NULL && j < count; j++) {
            if ((symbols[j].st_info & 0xF) == STT_OBJECT && symbols[j].st_name < text->sh_size &&
                address - symbols[j].st_value < symbols[j].st_size) {
                const char *found = names + symbols[j].st_name;
                snprintf(name, name_bytes, "%.*s", (int)strcspn(found, "."), found);
                *start = symbols[j].st_value;
                return true;
            }
        }
    }
    return false;
}

bool simt_symbol_at(const void *address, char *name, size_t name_bytes, const char **start) {
    Module *module = module_find(address);
    bool is_found = false;
    if (module != NULL && module->path[0] != '\0') {
        Image image = image_open(module->path);
        uintptr_t value = 0;
        if (image.bytes != NULL) {
            is_found =
                image_symbol(&image, (uintptr_t)address - module->base, name, name_bytes, &value);
            munmap((void *)(uintptr_t)image.bytes, image.size);
        }
        *start = (const char *)(value + module->base);
    }
    free(module);
    return is_found;
}

#else // other systems have other formats: places and names stay unknown

void simt_source_lines(const void *const *pcs, int count, SourceLine *lines) {
    (void)pcs;
    memset(lines, 0, (size_t)count * sizeof *lines);
}

bool simt_symbol_at(const void *address, char *name, size_t name_bytes, const char **start) {
    (void)address, (void)name, (void)name_bytes, (void)start;
    return false;
}

#endif

bool simt_source_line(const void *pc, char *file, size_t file_bytes, int *line) {
    SourceLine place;
    simt_source_lines(&pc, 1, &place);
    snprintf(file, file_bytes, "%s", place.file);
    *line = place.line;
    return place.line != 0;
}
