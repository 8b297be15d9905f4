#!/usr/bin/env python3
"""Makes submissions that mean harm, for the tests of the gradebook.

    make_hostile.py DIR COURSE RESULTS PORT

They are for the small course of the unit tests: chapter 77 with lab1_sum.c, which has lab_add and
lab_fill. COURSE is where that course lies, RESULTS where the results will be: what the submissions
try to read and to change; at PORT of this machine somebody listens. Each is named for what it
tries. Honest ones for the same class are put into COURSE/fair.
"""

import io
import os
import sys
import tarfile
import zipfile

HEAD = r"""#include "labs.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <netinet/in.h>
"""
ADD = 'int lab_add(int a, int b) {\n    %s\n}\n'
FILL = 'void lab_fill(float *out, size_t count) {\n    %s\n}\n'
RIGHT_FILL = 'for (size_t i = 0; i < count; i++) { out[i] = (float)i; }'
RIGHT = HEAD + ADD % 'return a + b;' + FILL % RIGHT_FILL

COPY_LINES = """static const char *const paths[] = {%s};
"""
READ_ALL = """for (int i = 0; i < (int)(sizeof(paths) / sizeof(paths[0])); i++) {
        char byte;
        if (read(open(paths[i], O_RDONLY), &byte, 1) == 1) { return a + b; }
    }
    return -1;"""
WRITE_ALL = """for (int i = 0; i < (int)(sizeof(paths) / sizeof(paths[0])); i++) {
        int fd = open(paths[i], O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd >= 0 && write(fd, "harm", 4) == 4) { close(fd); }
        rename(paths[i], "/tmp/harm"); unlink(paths[i]);
    }
    return a + b;"""
FAKE = r"""const char fake[] = "{\"score\": 6, \"score_after_lateness\": 6, \"points\": 6, "
        "\"chapters\": [{\"name\": \"ch77\", \"score\": 6, \"points\": 6, \"labs\": []}]}\n";
    char path[64];
    for (int fd = 1; fd < 40; fd++) { if (write(fd, fake, sizeof(fake) - 1) < 0) { continue; } }
    for (int fd = 1; fd < 20; fd++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getppid(), fd);
        int out = open(path, O_WRONLY);
        if (out >= 0 && write(out, fake, sizeof(fake) - 1) > 0) { close(out); }
    }
    exit(a + b - 5);"""
CONNECT = """struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(%s)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? a + b : -1;"""


def macro_bomb():
    lines = ['#define M0 x +'] + ['#define M%d M%d M%d' % (i, i - 1, i - 1) for i in range(1, 31)]
    return '\n'.join(lines) + '\nint x;\nint bomb(void) { return M30 0; }\n' + RIGHT


def sources(course, results, port, full):
    """name -> the text of lab1_sum.c."""
    solution = course + '/solutions/ch77/lab1_sum.c'
    read = [solution, '../solutions/ch77/lab1_sum.c', '../../solutions/ch77/lab1_sum.c',
            course + '/tests/grade/ch77/lab1_sum.c', '/course/tests/grade/ch77/lab1_sum.c']
    write = [course + '/exercises/ch77/labs.h', course + '/tests/grade/ch77/lab1_sum.c',
             course + '/harm', results + '/honest.json', results + '/harm.json',
             course + '/fair/honest/ch77/lab1_sum.c', '/course/exercises/ch77/labs.h',
             '/course/grade', 'exercises/ch77/labs.h', '/tmp/harm-of-a-submission',
             '/dev/shm/harm-of-a-submission', '/var/tmp/harm-of-a-submission']
    listed = lambda paths: COPY_LINES % ', '.join('"%s"' % path for path in paths)
    texts = {
        'loop': HEAD + ADD % 'for (volatile int i = a + b; ; i++) {}' + FILL % RIGHT_FILL,
        'fork_bomb': HEAD + ADD % 'for (;;) { fork(); setsid(); }' + FILL % RIGHT_FILL,
        'output': HEAD + ADD % 'for (;;) { puts("0123456789012345678901234567890123456789"); }' +
                  FILL % RIGHT_FILL,
        'fake': HEAD + ADD % FAKE + FILL % RIGHT_FILL,
        'exits': RIGHT + '__attribute__((constructor)) static void at_start(void) { exit(0); }\n',
        'kills': HEAD + ADD % 'kill(-1, SIGKILL); kill(getppid(), SIGKILL); return a + b;' +
                 FILL % RIGHT_FILL,
        'includes_near': '#include "../../solutions/ch77/lab1_sum.c"\n',
        'includes_far': '#include "%s"\n' % solution,
        'embeds': RIGHT + '__asm__(".incbin \\"%s\\"");\n' % solution,
        'reads': HEAD + listed(read) + ADD % READ_ALL + FILL % RIGHT_FILL,
        'writes': HEAD + listed(write) + ADD % WRITE_ALL + FILL % RIGHT_FILL,
        'connects': HEAD + ADD % (CONNECT % port) + FILL % RIGHT_FILL,
        'huge': RIGHT + '/*' + 'x' * (2 << 20) + '*/\n',
        'object_bomb': RIGHT + 'char bomb[1UL << 40] = {1};\n',
        'garbage': bytes(range(256)).decode('latin-1') * 64,
    }
    if full:
        texts['macro_bomb'] = macro_bomb()
        texts['include_bomb'] = '#include __FILE__\n#include __FILE__\n' + RIGHT
        texts['memory'] = HEAD + ADD % (
            'for (size_t n = 1 << 24; ; ) { char *p = malloc(n); if (p) { memset(p, a + b, n); } }'
        ) + FILL % RIGHT_FILL
        texts['disk'] = HEAD + ADD % (
            'static char block[1 << 20]; char name[32];\n    for (int i = 0; ; i++) {'
            ' snprintf(name, sizeof(name), "f%d", i);'
            ' int fd = open(name, O_WRONLY | O_CREAT, 0600);'
            ' for (int k = 0; k < 15; k++) { if (write(fd, block, sizeof(block)) < 0) { break; } }'
            ' close(fd); }') + FILL % RIGHT_FILL
    return texts


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(text if isinstance(text, bytes) else text.encode('latin-1'))


def tar_entry(archive, name, kind, text=b'', link=''):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(text), link
    archive.addfile(info, io.BytesIO(text))


def archives(folder, course):
    right = RIGHT.encode()
    with zipfile.ZipFile(folder + '/zip_paths.zip', 'w') as archive:
        archive.writestr('../../honest/ch77/lab1_sum.c', 'harm')
        archive.writestr('/tmp/ch77/lab1_sum.c', 'harm')
        archive.writestr('C:\\ch77\\lab1_sum.c', 'harm')
        link = zipfile.ZipInfo('ch77/lab1_other.c')
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, course + '/solutions/ch77/lab1_sum.c')
        archive.writestr('ch77/lab1_sum.c', right)
    with tarfile.open(folder + '/tar_links.tar.gz', 'w:gz') as archive:
        tar_entry(archive, 'ch77/lab1_sum.c', tarfile.SYMTYPE,
                  link=course + '/solutions/ch77/lab1_sum.c')
        tar_entry(archive, 'ch77/lab1_hard.c', tarfile.LNKTYPE, link='/etc/passwd')
        tar_entry(archive, 'ch77/lab1_device.c', tarfile.CHRTYPE)
        tar_entry(archive, 'ch77/lab1_pipe.c', tarfile.FIFOTYPE)
        tar_entry(archive, '/ch77/lab1_sum.c', tarfile.REGTYPE, right)
        tar_entry(archive, 'ch77/../../honest/ch77/lab1_sum.c', tarfile.REGTYPE, b'harm')
    with zipfile.ZipFile(folder + '/zip_bomb.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('ch77/lab1_sum.c', bytes(80 << 20))
    with tarfile.open(folder + '/tar_bomb.tgz', 'w:gz', compresslevel=1) as archive:
        tar_entry(archive, 'ch77/lab1_sum.c', tarfile.REGTYPE, right)
        tar_entry(archive, 'film', tarfile.REGTYPE, bytes(80 << 20))
    with zipfile.ZipFile(folder + '/many.zip', 'w') as archive:
        for i in range(3000):
            archive.writestr('f%d' % i, '')
    put(folder + '/no_zip.zip', bytes(range(256)) * 16)
    put(folder + '/cut.tgz', b'\x1f\x8b\x08\x00' + b'\x00' * 64)
    os.makedirs(folder + '/linked/ch77')
    os.symlink(course + '/solutions/ch77/lab1_sum.c', folder + '/linked/ch77/lab1_sum.c')
    os.mkfifo(folder + '/linked/ch77/answers.txt')


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    folder, course, results, port = sys.argv[1:]
    full = bool(os.environ.get('TEST_FULL'))
    for name, text in sources(course, results, port, full).items():
        put('%s/%s/ch77/lab1_sum.c' % (folder, name), text)
    for name in ('honest', 'later'):
        put('%s/fair/%s/ch77/lab1_sum.c' % (course, name), RIGHT)
        put('%s/fair/%s/ch77/answers.txt' % (course, name), 'q1 = 512 MiB\nq2 = 3\n')
    archives(folder, course)


if __name__ == '__main__':
    main()
