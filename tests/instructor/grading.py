"""Grades one submission: collects its files, runs the grader under limits, makes the result."""

import json
import os
import re
import resource
import selectors
import signal
import socket
import subprocess
import time

import collect
import tree as trees
from collect import digest, printable
from confine import end_with_parent
from results import write_whole

OUTPUT_BYTES = 16 << 20  # of the grader's report
ERROR_BYTES = 64 << 10
FILE_BYTES = 256 << 20  # of one file
DISK_BYTES = 512 << 20  # of all files of a submission
DISK_FILES = 20000
PROCESSES = 2000  # long before that, the grader ends the test
TICK, DISK_TICK = 0.2, 1.0  # seconds between two looks

FORMAT = 1  # of the results; another number grades everything again


class Stopped(Exception):
    """A limit was reached; the text says which."""


# ---- processes ----------------------------------------------------------------------------------

def descendants():
    """The processes below this one: pid -> (resident bytes, processor seconds)."""
    children, facts = {}, {}
    page, ticks = os.sysconf('SC_PAGE_SIZE'), os.sysconf('SC_CLK_TCK')
    for name in os.listdir('/proc'):
        if not name.isdigit():
            continue
        try:
            with open('/proc/%s/stat' % name, 'rb') as file:
                fields = file.read().rsplit(b')', 1)[1].split()
        except (OSError, IndexError):
            continue  # it has ended
        children.setdefault(int(fields[1]), []).append(int(name))
        facts[int(name)] = (int(fields[21]) * page, sum(map(int, fields[11:15])) / ticks)
    found, waiting = {}, [os.getpid()]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            found[pid] = facts[pid]
            waiting.append(pid)
    return found


def end_descendants():
    """Kills every process below this one and reaps it; stopped ones first start no more."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for number in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL):
            for pid in descendants():
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def check_disk(folder):
    """Raises Stopped when what was written exceeds the limits."""
    total, count, waiting = 0, 0, [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    count += 1
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if count > DISK_FILES or total > DISK_BYTES:
                        raise Stopped('it wrote more than %d files or %d MiB' % (
                            DISK_FILES, DISK_BYTES >> 20))
        except OSError:
            pass  # removed meanwhile, or too deep to matter


class Limits:
    """Of one submission as a whole; the grader has its own for each test."""

    def __init__(self, seconds, memory, test_seconds=None):
        self.seconds = seconds  # wall time; processor time: twice as much
        self.memory = memory  # resident bytes
        self.test_seconds = test_seconds  # of one test; None: as the grader has it


def read_pipe(selector, key, kept, most):
    data = os.read(key.fd, 1 << 16)
    if not data:
        selector.unregister(key.fileobj)
    kept += data
    if len(kept) > most:
        raise Stopped('the grader printed more than %d KiB' % (most >> 10))


def look(slot, limits, start, state):
    """Compares what the submission uses with the limits."""
    now = time.monotonic()
    if now - start > limits.seconds:
        raise Stopped('not done after %g s' % limits.seconds)
    if now < state['next']:
        return
    state['next'] = now + TICK
    below = descendants()
    if sum(memory for memory, _ in below.values()) > limits.memory:
        raise Stopped('it used more than %d MiB of memory' % (limits.memory >> 20))
    if sum(cpu for _, cpu in below.values()) > 2 * limits.seconds:
        raise Stopped('it used more than %g s of processor time' % (2 * limits.seconds))
    if len(below) > PROCESSES:
        raise Stopped('it started more than %d processes' % PROCESSES)
    if now > state['disk']:
        state['disk'] = now + DISK_TICK
        check_disk(slot)


def run_limited(words, cwd, environment, slot, limits, prepare_child):
    """Runs the grader; returns (status, stdout, stderr). Nothing that it started is left."""
    parent = os.getpid()

    def start():
        os.setsid()
        end_with_parent(parent)  # or it would go on when a worker is killed
        seconds = int(2 * limits.seconds) + 1
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
        prepare_child()

    out, err = bytearray(), bytearray()
    begin = time.monotonic()
    state = {'next': begin + TICK, 'disk': begin + DISK_TICK}
    process = subprocess.Popen(words, cwd=cwd, env=environment, preexec_fn=start,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, (out, OUTPUT_BYTES))
            selector.register(process.stderr, selectors.EVENT_READ, (err, ERROR_BYTES))
            while selector.get_map():
                ended = process.poll() is not None  # before the look: it may write, then end
                ready = selector.select(0 if ended else 0.05)
                for key, _ in ready:
                    read_pipe(selector, key, *key.data)
                if ended and not ready:
                    break  # what still holds the pipes is no part of the grader
                look(slot, limits, begin, state)
        while process.poll() is None:
            time.sleep(0.002)
            look(slot, limits, begin, state)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        end_descendants()
        process.stdout.close()
        process.stderr.close()
    return process.returncode, bytes(out), bytes(err)


# ---- the grader ---------------------------------------------------------------------------------

def host():
    """This machine's name, without the `-` that ends it in a slot's name."""
    return socket.gethostname().replace('-', '_')


def make_slot(work, student):
    """A folder for what one submission's grading writes; trees.remove removes it."""
    slot = os.path.join(work, 'slots', '%s-%d-%s' % (host(), os.getpid(), student))
    trees.remove(slot)
    for name in ('build/grade.d', 'from', 'tmp'):
        os.makedirs(os.path.join(slot, name))
    return slot


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is somebody else's
    return True


def remove_old_slots(work):
    """Removes the slots of processes that were killed; those of other runs and machines stay."""
    slots = os.path.join(work, 'slots')
    for name in os.listdir(slots) if os.path.isdir(slots) else []:
        match = re.match(r'([^-]*)-([0-9]+)-', name)
        if match and match[1] == host() and not is_running(int(match[2])):
            trees.remove(os.path.join(slots, name))


def fill_slot(slot, seen_tree, tree, chapter, files, bound):
    """Puts the submission's files and a way to the shared objects into the slot."""
    os.makedirs(os.path.join(slot, 'from', chapter))
    for name, data in files.items():
        with open(os.path.join(slot, 'from', chapter, name), 'wb') as file:
            file.write(data)
    build = os.path.join(slot, 'build/grade.d')
    for name in os.listdir(os.path.join(tree, 'build/grade.d')):
        shared = os.path.join(tree, 'build/grade.d', name)
        if os.path.isdir(shared):
            target = (os.path.join(seen_tree, 'build/grade.d', name) if bound
                      else os.path.relpath(shared, build))
            os.symlink(target, os.path.join(build, name))


def environment_of(seen_slot):
    """The grader's environment: little, and nothing of the instructor's."""
    kept = {name: os.environ[name] for name in ('CC', 'TRACE_CC') if name in os.environ}
    path = os.environ.get('PATH', '/usr/bin:/bin')
    return dict(kept, PATH=path, LC_ALL='C', BUILD=os.path.join(seen_slot, 'build'),
                TMPDIR=os.path.join(seen_slot, 'tmp'), HOME='/nonexistent')


def read_report(path, shown):
    """The Gradescope report that the grader left, without the path `shown`; None: it left none."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), 'rb') as file:
            return json.loads(file.read(OUTPUT_BYTES).replace(shown, b'').decode('utf-8'))
    except (OSError, ValueError):
        return None


def run_grader(tree, confinement, job, files, limits):
    """Runs the grader on the files; returns (status, stdout, stderr, Gradescope's report).

    May raise Stopped.
    """
    slot = make_slot(tree.work, job.student)
    try:
        before, seen_tree, seen_slot, prepare_child = confinement.command(tree.path, slot)
        fill_slot(slot, seen_tree, tree.path, job.chapter.name, files, bool(confinement.bwrap))
        words = before + ['./grade', '--from', os.path.join(seen_slot, 'from'), '--format', 'json',
                          '--hidden', '--seed', job.student]
        if job.report:
            words += ['--also', 'gradescope=' + os.path.join(seen_slot, 'report.json')]
        if limits.test_seconds:
            words += ['--timeout', '%g' % limits.test_seconds]
        if job.submitted:
            words += ['--submitted', job.submitted]
        user = confinement.user()
        if user is not None:
            words += ['--user', str(user)]
        status, out, err = run_limited(words + [job.chapter.name], tree.path,
                                       environment_of(seen_slot), slot, limits, prepare_child)
        shown = os.path.join(seen_slot, 'from', '').encode()
        return (status, out.replace(shown, b''), err,
                read_report(os.path.join(slot, 'report.json'), shown) if job.report else None)
    finally:
        trees.remove(slot)


# ---- a result -----------------------------------------------------------------------------------

class Job:
    """A submission to grade: whose, where, of which chapter, handed in when ('' if not known)."""

    def __init__(self, student, path, chapter, submitted=''):
        self.student, self.path, self.chapter = student, path, chapter
        self.submitted = submitted
        self.report = None  # where a report for Gradescope goes


def parse_report(status, out, chapter):
    """The grader's report, which is the whole of its output; ValueError when it is not."""
    if status not in (0, 1):
        raise ValueError('the grader ended with status %d' % status)
    report = json.loads(out.decode('utf-8'))
    chapters = report['chapters']
    if len(chapters) != 1 or chapters[0]['name'] != chapter:
        raise ValueError('the report is of another chapter')
    return report


def result_of(job, status, **more):
    result = {'id': job.student, 'chapter': job.chapter.name, 'status': status, 'score': None,
              'points': None, 'submitted': job.submitted or None, 'notes': [], 'ignored': [],
              'labs': [], 'hash': None}
    result.update(more)
    return result


def take_report(result, report):
    """Copies what the grader says of the chapter into the result; its names are kept."""
    chapter = dict(report['chapters'][0])
    chapter.pop('name')
    result.update(chapter)
    result.update(score=report['score_after_lateness'], points=report['points'],
                  score_before_lateness=report['score'])


def grade(job, tree, confinement, limits, known):
    """Grades a submission. `known(hash)` returns a result that is still good, or None.

    Returns (result, whether it was known).
    """
    begin = time.monotonic()
    try:
        files, notes, ignored = collect.read_submission(job.path, job.chapter)
    except collect.Unreadable as error:
        return result_of(job, 'unreadable', notes=[str(error)]), False
    parts = [FORMAT, tree.key, job.student, job.submitted, limits.seconds, limits.memory,
             limits.test_seconds]
    for name in sorted(files):
        parts += [name, files[name]]
    key = digest(parts)
    if known(key) is not None:
        return known(key), True
    result = result_of(job, 'graded' if files else 'nothing', hash=key, notes=notes,
                       ignored=ignored)
    if not files:
        notes.append('no file of %s was found' % job.chapter.name)
    report, err = None, b''
    try:
        status, out, err, report = run_grader(tree, confinement, job, files, limits)
        take_report(result, parse_report(status, out, job.chapter.name))
    except Stopped as error:
        result.update(status='stopped', notes=notes + [str(error)])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        said = printable(err.decode('utf-8', 'replace').strip().replace('\n', '; '))
        result.update(status='failed', notes=notes + [printable(error), said])
    result['seconds'] = round(time.monotonic() - begin, 2)
    if job.report and result['status'] != 'failed':
        write_gradescope(job.report, report, result)
    return result, False


def write_gradescope(path, report, result):
    """Writes results.json: the grader's, with what was found in the submission put in front."""
    report = report or {'score': 0, 'visibility': 'visible', 'tests': []}
    notes = list(result['notes'])
    if result['ignored']:
        notes.append('not graded: ' + ', '.join(result['ignored']))
    report['output'] = '\n'.join(notes + [report.get('output') or ''])
    write_whole(path, json.dumps(report, indent=1, ensure_ascii=False) + '\n')
