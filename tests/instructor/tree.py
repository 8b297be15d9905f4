"""The grading tree: what the grader needs of the course, without solutions and without mutants.

It is made once for a chapter and a state of its suites, with everything compiled that all
submissions share. Submissions are graded in it, each with a folder of its own for what is written.
"""

import fcntl
import os
import shutil
import subprocess

from collect import digest
from results import write_whole

COMMON = ('common', 'common/simt', 'tests/grade/simt')


def course_files(root, chapter):
    """The files of the grading tree, as sorted paths below root. A lab's file is not among them."""
    folders = COMMON + ('tests/grade/' + chapter,)
    files = [os.path.join(folder, name) for folder in folders
             if os.path.isdir(os.path.join(root, folder))
             for name in os.listdir(os.path.join(root, folder))]
    files += ['tests/grade/' + name for name in os.listdir(os.path.join(root, 'tests/grade'))
              if name.endswith('.h') or name == 'harness.c']
    exercises = 'exercises/' + chapter
    files += [os.path.join(exercises, name) for name in os.listdir(os.path.join(root, exercises))
              if name.endswith('.h')]
    return sorted(file for file in files if os.path.isfile(os.path.join(root, file))
                  and not file.endswith(('~', '.mutant')))


def contents(folder, files):
    """Names and bytes of the files, for digest."""
    for name in files:
        yield name
        with open(os.path.join(folder, name), 'rb') as file:
            yield file.read()


def all_files(folder):
    """Every file below the folder, sorted, as paths below it."""
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def fingerprint(folder):
    """A hash of all that lies in the folder."""
    return digest(contents(folder, all_files(folder)))


class Tree:
    """A grading tree that is ready to use."""

    def __init__(self, work, path, key):
        self.work = work  # the folder that holds trees and what submissions write
        self.path = path
        self.key = key

    def expected(self):
        """The fingerprint that it had when it was made."""
        with open(self.path + '.made', encoding='ascii') as file:
            return file.read()

    def intact(self):
        return fingerprint(self.path) == self.expected()


def hide_suites(tree, chapter):
    """Empties the suites, which are compiled by now: the grader reads their names and times alone.

    What else lies there becomes readable to root alone, when this is root's run.
    """
    folder = os.path.join(tree, 'tests/grade', chapter)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(('.c', '.h')):
            time = os.stat(path)
            os.truncate(path, 0)
            os.utime(path, ns=(time.st_atime_ns, time.st_mtime_ns))
        elif os.geteuid() == 0:
            os.chmod(path, 0o600)


def build(root, grader, chapter, tree):
    """Copies the files to `tree` and compiles what the submissions share."""
    for name in course_files(root, chapter):
        os.makedirs(os.path.join(tree, os.path.dirname(name)), exist_ok=True)
        shutil.copy2(os.path.join(root, name), os.path.join(tree, name))  # with its time
    exercises = os.path.join('exercises', chapter)
    for name in os.listdir(os.path.join(root, exercises)):
        if name.startswith('lab') and not name.endswith('.h'):
            open(os.path.join(tree, exercises, name), 'w').close()  # the grader reads its name
    shutil.copy(grader, os.path.join(tree, 'grade'))
    os.makedirs(os.path.join(tree, 'none'))
    # What is compiled already is taken over; the grader compiles again what is older than its
    # source.
    compiled = os.path.join(os.path.dirname(grader), 'grade.d')
    for kind in ('sanitized', 'plain'):
        if os.path.isdir(os.path.join(compiled, kind)):
            shutil.copytree(os.path.join(compiled, kind), os.path.join(tree, 'build/grade.d', kind),
                            ignore=lambda at, names: [
                                name for name in names if os.path.basename(at) == 'grade' and
                                name.startswith('ch') and name != chapter])
    environment = dict(os.environ, BUILD='build', MAKEFLAGS='')
    made = subprocess.run(['./grade', '--from', 'none', '--format', 'json', chapter], cwd=tree,
                          env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    if made.returncode != 1:
        raise SystemExit('gradebook: the suites of %s do not build; make grade-%s shows why\n%s' % (
            chapter, chapter, made.stderr.decode('utf-8', 'replace')))
    hide_suites(tree, chapter)
    for name in all_files(tree):
        path = os.path.join(tree, name)
        os.chmod(path, os.stat(path).st_mode & ~0o222)


def remove(path):
    """Removes what is there, read-only folders and very deep ones as well."""
    for words in (['chmod', '-R', 'u+rwX', '--', path], ['rm', '-rf', '--', path]):
        subprocess.run(words, check=False, stderr=subprocess.DEVNULL)


def prepare(root, grader, chapter, work):
    """The tree for the chapter as it is now, made unless it is there. Two at a time take turns."""
    if not os.path.isfile(grader):
        raise SystemExit('gradebook: there is no %s; `make %s` builds it' % (
            grader, os.path.relpath(grader, root)))
    with open(grader, 'rb') as file:
        program = file.read()
    key = digest([program, os.environ.get('CC', ''), os.environ.get('TRACE_CC', '')] +
                 list(contents(root, course_files(root, chapter))))[:16]
    path = os.path.join(work, '%s-%s' % (chapter, key))
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, 'lock'), 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isfile(path + '.made'):
            remove(path)
            os.makedirs(path)
            build(root, grader, chapter, path)
            write_whole(path + '.made', fingerprint(path))
    return Tree(work, path, key)
