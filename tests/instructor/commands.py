"""The gradebook's commands: grade, one, prepare, merge. `gradebook` is the program."""

import argparse
import csv
import json
import os
import re
import signal
import sys

import collect
import grading
import results
import tree as trees
from confine import Confinement, become_subreaper, end_with_parent

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
DESCRIPTION = '''Grades a folder of submissions with the instructor's suites.
docs/instructor.md shows its use.'''
WORK = '.gradebook'  # in the results folder
ENDS = (signal.SIGINT, signal.SIGTERM)
KNOWN = 4  # the status of a worker that found its submission graded already


def chapter_name(word):
    """'ch02' for ch02, ch2, 02 or 2; other words stay."""
    match = re.fullmatch(r'(?:ch)?([0-9]{1,2})', word)
    return 'ch%02d' % int(match[1]) if match else word


def number(kind, form, least, most):
    """A type for argparse: the number that a text stands for, which lies between the two."""
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError('%s: expected %s' % (text, form))
        return value
    return parse


COUNT = number(int, 'a whole number from 1 on', 1, 1 << 20)
SECONDS = number(float, 'seconds above 0, at most a day', 1e-3, 86400)
TEST_SECONDS = number(float, 'seconds above 0, at most 3600', 1e-3, 3600)  # the grader's limit


def parse_words():
    parser = argparse.ArgumentParser(prog='gradebook', description=DESCRIPTION)
    commands = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument('--chapter', required=True, type=chapter_name, metavar='ch02')
    common.add_argument('--out', required=True, metavar='RESULTS',
                        help='the folder for the results, one JSON file a submission')
    common.add_argument('--isolation', choices=('auto', 'bwrap', 'landlock', 'none'),
                        default='auto', help='what confines a submission (default: the best here)')
    common.add_argument('--timeout', type=SECONDS, default=600, metavar='S',
                        help='seconds for a whole submission (default: 600)')
    common.add_argument('--memory', type=COUNT, default=3072, metavar='MIB',
                        help='resident memory of a whole submission (default: 3072)')
    common.add_argument('--test-timeout', type=TEST_SECONDS, metavar='S',
                        help="seconds for one test (default: the grader's)")
    common.add_argument('--course', default=HERE, metavar='DIR',
                        help='the course whose suites grade (default: that of this program)')
    common.add_argument('--grader', metavar='FILE', help='(default: build/grade of the course)')
    common.add_argument('--again', action='store_true', help='grade also what is graded already')
    common.add_argument('--times', metavar='FILE',
                        help='CSV with id and time of submission, as 2027-03-02T10:00')
    common.add_argument('--quiet', action='store_true', help='no line for each submission')
    grade = commands.add_parser('grade', parents=[common], help='grade a folder of submissions')
    grade.add_argument('--submissions', required=True, metavar='DIR',
                       help='folders, .zip, .tar, .tar.gz or .tgz files, named for the students')
    grade.add_argument('--jobs', type=COUNT, default=len(os.sched_getaffinity(0)),
                       metavar='N', help='submissions at a time (default: one a processor)')
    one = commands.add_parser('one', parents=[common], help='grade one submission')
    one.add_argument('submission', help='a folder or an archive')
    one.add_argument('--id', help="the student's id (default: from the submission's name)")
    one.add_argument('--submitted', default='', metavar='TIME')
    one.add_argument('--report', metavar='FILE',
                     help='write the results.json of Gradescope there, too')
    one.add_argument('--metadata', metavar='FILE',
                     help="Gradescope's submission_metadata.json: whose it is, and when it came")
    commands.add_parser('prepare', parents=[common], help='make the grading tree, grade nothing')
    merge = commands.add_parser('merge', help='make a CSV table of the results')
    merge.add_argument('results', metavar='RESULTS')
    merge.add_argument('--roster', metavar='FILE',
                       help="all students' ids, one a line, or a CSV with them in front")
    return parser.parse_args()


def say(text):
    print('gradebook: ' + text, file=sys.stderr, flush=True)


def listed(names):
    """The first names in a line."""
    return ', '.join(names[:8]) + (', ...' if len(names) > 8 else '')


def end(text):
    """Ends the program with status 2; see main."""
    raise SystemExit('gradebook: ' + text)


def read_file(option, path, read):
    """What `read` makes of the CSV file that the option names."""
    try:
        return read(path)
    except OSError as error:
        end('%s %s: %s' % (option, path, error.strerror))
    except (UnicodeDecodeError, csv.Error) as error:
        end('%s %s: not a CSV file in UTF-8: %s' % (option, path, error))
    except results.BadLine as error:
        end('%s %s:%d: %s' % (option, path, error.line, error))


def read_roster(path):
    return [row[0] for _, row in results.read_rows(path)]


def read_metadata(path):
    """(the first student's address, the time) of Gradescope's submission_metadata.json."""
    try:
        with open(path, encoding='utf-8') as file:
            data = json.load(file)
        if not results.is_moment(data['created_at']):
            raise ValueError('created_at is not a time')
        return data['users'][0]['email'], data['created_at']
    except (OSError, ValueError, LookupError, TypeError) as error:
        end('--metadata %s: %s' % (path, error))


def chapter_of(words):
    return collect.Chapter(os.path.realpath(words.course), words.chapter)


def is_inside(path, folder):
    """True when the path is the folder or lies in it."""
    folder = os.path.realpath(folder)
    return os.path.commonpath([os.path.realpath(path), folder]) == folder


def open_results(folder, chapter):
    """Makes the results folder unless it is there; what is there must be of the chapter."""
    try:
        os.makedirs(folder, exist_ok=True)
        others = sorted(results.chapters(folder) - {chapter})
    except OSError as error:
        end('--out %s: %s' % (folder, error.strerror))
    if not os.access(folder, os.W_OK | os.X_OK):
        end('--out %s: you may not write there' % folder)
    if others:
        end('--out %s: it has results of %s; name another folder for %s' % (
            folder, ', '.join(others), chapter))


class Gradebook:
    """What all submissions of a run share."""

    def __init__(self, words):
        self.words = words
        root = os.path.realpath(words.course)
        self.chapter = chapter_of(words)
        self.limits = grading.Limits(words.timeout, words.memory << 20, words.test_timeout)
        self.times = (read_file('--times', words.times, results.read_times) if words.times
                      else {})
        grader = words.grader or os.path.join(root, os.environ.get('BUILD') or 'build', 'grade')
        open_results(words.out, self.chapter.name)
        self.confinement = Confinement(root, words.isolation)
        self.tree = trees.prepare(root, grader, self.chapter.name,
                                  os.path.join(os.path.realpath(words.out), WORK))

    def job(self, student, path, submitted=''):
        return grading.Job(student, path, self.chapter, submitted or self.times.get(student, ''))

    def grade(self, job):
        """Grades a submission and writes its result. Returns (result, whether it was known)."""
        known = results.known(self.words.out, job.student)
        if self.words.again or job.report:
            known = lambda key: None
        result, old = grading.grade(job, self.tree, self.confinement, self.limits, known)
        if not old:
            result['isolation'] = ('bwrap' if self.confinement.bwrap else
                                   'landlock' if self.confinement.landlock else 'none')
            results.write(self.words.out, result)
        return result, old

    def check_tree(self):
        """Ends the run when a submission has changed the tree, so that no result rests on it."""
        if not self.tree.intact():
            os.unlink(self.tree.path + '.made')
            end('the grading tree was changed while submissions were graded; results since the\n'
                'last run are in doubt: install bubblewrap, then run the same command with --again')


def line_of(result, old):
    """A result in one line for the terminal."""
    score = 'no score' if result['score'] is None else '%s/%s' % (
        results.number(result['score']), results.number(result['points']))
    note = '' if result['status'] == 'graded' else '  %s: %s' % (
        result['status'], '; '.join(result['notes'])[:60])
    return '%-24s %-10s%s%s' % (result['id'], score, '  (known)' if old else '', note)


def interrupted(number, frame):
    raise SystemExit(130)


def work_on(book, job, parent):
    """In a process of its own: grades the submission and exits, 0 when it has a final result."""
    status = 3
    try:
        signal.signal(signal.SIGTERM, interrupted)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        end_with_parent(parent)  # when the gradebook itself is killed
        become_subreaper()
        result, old = book.grade(job)
        status = KNOWN if old else 0
    except SystemExit as error:
        if error.code != 130:
            print(error, file=sys.stderr, flush=True)
    except Exception as error:  # one submission must not stop the others
        results.write(book.words.out, grading.result_of(
            job, 'failed', notes=['%s: %s' % (type(error).__name__, collect.printable(error))]))
        status = 0
    finally:
        os._exit(status)


def report_one(book, job, status, done, count):
    """Says what came of the job whose worker ended with the status of os.wait."""
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    # A worker that died has left nothing: what is there is the result of an earlier run.
    result = results.read(book.words.out, job.student) if code in (0, KNOWN) else None
    if result is None:
        end_of_it = 'signal %d' % -code if code < 0 else 'exit status %d' % code
        result = grading.result_of(job, 'failed', notes=['its process ended: ' + end_of_it])
        results.write(book.words.out, result)
    if not book.words.quiet:
        print('[%*d/%d] %s' % (len(str(count)), done, count, line_of(result, code == KNOWN)),
              flush=True)


def grade_all(book, jobs, at_a_time):
    """Grades the jobs, `at_a_time` of them side by side, each in a process of its own."""
    running, done, own = {}, 0, os.getpid()
    waiting = list(reversed(jobs))
    for number in ENDS:
        signal.signal(number, interrupted)
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                job = waiting.pop()
                sys.stdout.flush()
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # none between fork and its note
                pid = os.fork()
                if pid == 0:
                    work_on(book, job, own)
                running[pid] = job
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
            pid, status = os.wait()
            done += 1
            report_one(book, running.pop(pid), status, done, len(jobs))
    except (KeyboardInterrupt, SystemExit):
        for pid in running:
            os.kill(pid, signal.SIGTERM)
        for pid in running:
            os.waitpid(pid, 0)
        say('interrupted after %d of %d; the same command goes on from there' % (done, len(jobs)))
        raise SystemExit(130)


def command_grade(words):
    try:
        found, others = collect.find_submissions(words.submissions)
    except OSError as error:
        end('--submissions %s: %s' % (words.submissions, error.strerror))
    if not found:
        end('--submissions %s: no folders and no archives are in it' % words.submissions)
    if is_inside(words.out, words.submissions):
        end('--out %s: it lies in the folder of submissions; name one outside' % words.out)
    book = Gradebook(words)
    grading.remove_old_slots(book.tree.work)
    for line in book.confinement.lines():
        say(line)
    if others:
        say('not submissions: ' + listed(others))
    nobody = sorted(set(book.times) - {student for student, _ in found})
    if nobody:
        say('--times %s: no submission of: %s' % (words.times, listed(nobody)))
    results.write_whole(os.path.join(words.out, WORK, 'students'),
                        ''.join(student + '\n' for student, _ in found))
    grade_all(book, [book.job(student, path) for student, path in found], words.jobs)
    book.check_tree()
    final = [results.read(words.out, student) for student, _ in found]
    doubtful = sorted(r['id'] for r in final if r is None or r['status'] in (
        'unreadable', 'stopped', 'failed'))
    print('%d submissions, %d graded, %d without a score%s' % (
        len(final), len(final) - len(doubtful), len(doubtful),
        ': ' + ', '.join(doubtful[:10]) if doubtful else ''))
    return 1 if doubtful else 0


def command_one(words):
    if not os.path.lexists(words.submission):
        end('%s: there is no such submission' % words.submission)
    if is_inside(words.out, words.submission):
        end('--out %s: it lies in the submission; name a folder outside' % words.out)
    if words.report and not os.path.isdir(os.path.dirname(os.path.abspath(words.report))):
        end('--report %s: there is no such folder' % words.report)
    if words.submitted and not results.is_moment(words.submitted):
        end('--submitted %s: expected %s' % (words.submitted, results.MOMENT_FORM))
    student = words.id or os.path.basename(os.path.normpath(words.submission))
    if words.metadata:
        student, words.submitted = read_metadata(words.metadata)
    student = collect.base_id(student)
    owners = collect.owners(words.submission, chapter_of(words))
    if len(owners) > 1 and not words.id and not words.metadata:
        end('%s looks like a whole class: there are files of %s in each of\n%s.\n'
            '`gradebook grade --submissions` grades a class. If it is the work of one student,\n'
            'say whose: --id NAME' % (words.submission, words.chapter, listed(owners[:9])))
    book = Gradebook(words)
    become_subreaper()
    signal.signal(signal.SIGTERM, interrupted)
    job = book.job(student, words.submission, words.submitted)
    job.report = words.report
    result, old = book.grade(job)
    book.check_tree()
    if not words.quiet:
        for line in book.confinement.lines():
            say(line)
        if result['status'] == 'graded':
            for note in result['notes'][:8] + ['...'] * (len(result['notes']) > 8):
                say(note)
        print(line_of(result, old))
    return 0 if result['status'] in ('graded', 'nothing') else 1


def command_prepare(words):
    book = Gradebook(words)
    print('the grading tree of %s is %s' % (words.chapter, book.tree.path))
    return 0


def command_merge(words):
    if not os.path.isdir(words.results):
        end('%s: there is no such folder of results' % words.results)
    chapters = sorted(results.chapters(words.results))
    if not chapters:
        end('%s: no results are in it; `gradebook grade --out %s` writes them' % (
            words.results, words.results))
    if len(chapters) > 1:
        end('%s: it has results of %s; a table is of one chapter' % (
            words.results, ' and '.join(chapters)))
    roster = read_file('--roster', words.roster, read_roster) if words.roster else []
    graded = os.path.join(words.results, WORK, 'students')
    if os.path.exists(graded):
        roster += read_roster(graded)
    without = results.merge(words.results, roster, sys.stdout)
    if without:
        say('%d student%s no score' % (without, ' has' if without == 1 else 's have'))
    return 0


def main(leave):
    """Runs the command. `leave` handles Ctrl-C before and after it."""
    os.umask(0o022)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        words = parse_words()
        return {'grade': command_grade, 'one': command_one, 'prepare': command_prepare,
                'merge': command_merge}[words.command](words)
    except SystemExit as error:
        if isinstance(error.code, int):
            raise
        print(error.code, file=sys.stderr, flush=True)  # a mistake in the command or the course
        return 2
    except KeyboardInterrupt:  # before the first submission; see grade_all
        say('interrupted')
        return 130
    except OSError as error:  # a full disk, for example
        say(str(error) if error.filename is None else '%s: %s' % (error.filename, error.strerror))
        return 2
    finally:
        signal.signal(signal.SIGINT, leave)
