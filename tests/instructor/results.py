"""The results folder: one JSON file for each submission, and the table made from them."""

import csv
import datetime
import json
import os
import re

from collect import base_id

# What the grader takes for a time; it lies in tests/grade/deadline.c.
MOMENT = re.compile(r'([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T|[ \t]+)(?:[01][0-9]|2[0-3]):[0-5][0-9]'
                    r'(?::(?:[0-5][0-9]|60)(?:\.[0-9]+)?)?'
                    r'[ \t]*(?:Z|[+-](?:0[0-9]|1[0-3]):?[0-5][0-9]|[+-]14:?00)?')
MOMENT_FORM = 'a time like 2027-03-02T10:00'


class BadLine(Exception):
    """A line of a CSV file is not as it should be; the text says why."""

    def __init__(self, line, text):
        Exception.__init__(self, text)
        self.line = line


def write_whole(path, text):
    """Writes a file so that it is never seen half written."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, '.%s.%d' % (name, os.getpid()))
    with open(temporary, 'w', encoding='utf-8') as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write(folder, result):
    write_whole(os.path.join(folder, result['id'] + '.json'),
                json.dumps(result, indent=1, ensure_ascii=False) + '\n')


def read(folder, student):
    """The result of a student; None when there is none, or one that was cut short."""
    try:
        with open(os.path.join(folder, student + '.json'), encoding='utf-8') as file:
            result = json.load(file)
        return result if result['id'] == student and 'status' in result else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def known(folder, student):
    """A function that returns the student's result if it is final and has the hash given."""
    result = read(folder, student)
    good = result is not None and result['status'] in ('graded', 'nothing')
    return lambda key: result if good and result.get('hash') == key else None


def students(folder):
    return sorted(name[:-len('.json')] for name in os.listdir(folder)
                  if name.endswith('.json') and not name.startswith('.'))


def chapters(folder):
    """The chapters that the folder has results of, as a set of names."""
    found = set()
    for student in students(folder):
        try:
            with open(os.path.join(folder, student + '.json'), 'rb') as file:
                match = re.search(rb'"chapter": "(ch[0-9]+)"', file.read(400))
        except OSError:
            continue
        if match:
            found.add(match[1].decode())
    return found


def read_rows(path):
    """The rows of a CSV file, or the lines of a text file, with a student's id in front.

    They come as (number of the line, row). The ids are written as those of submissions are. A first
    line that names the columns is left out.
    """
    with open(path, encoding='utf-8-sig', newline='') as file:
        reader = csv.reader(file)
        table = [(reader.line_num, row) for row in reader if row and row[0].strip()]
    if table and re.split('[;\t]', table[0][1][0])[0].strip().lower() in ('id', 'student', 'name'):
        names = table.pop(0)
        check_separator(*names)
    for line, row in table:
        check_separator(line, row)
    return [(line, [base_id(row[0].strip())] + row[1:]) for line, row in table]


def check_separator(line, row):
    if re.search('[;\t]', row[0].strip()):
        raise BadLine(line, 'expected commas between the columns')


def is_moment(text):
    """Whether the grader takes the text for a time."""
    match = MOMENT.fullmatch(text)
    try:
        return match is not None and datetime.date(*map(int, match[1].split('-'))).year >= 1970
    except ValueError:
        return False


def read_times(path):
    """The times of submission in a CSV file, from the students' ids. An empty time is none."""
    times, lines = {}, {}
    for line, row in read_rows(path):
        student, moment = row[0], ''.join(row[1:2]).strip()
        if len(row) < 2:
            raise BadLine(line, 'expected an id and a time, like alice,2027-03-02T10:00')
        if moment and not is_moment(moment):
            raise BadLine(line, '`%s`: expected %s' % (moment[:40], MOMENT_FORM))
        if student in lines:
            raise BadLine(line, '%s has a time in line %d already; leave one of the two' % (
                student, lines[student]))
        lines[student] = line
        if moment:
            times[student] = moment
    return times


def number(value):
    return '' if value is None else '%g' % round(value, 2)


def lateness(result):
    """"10 h late: 10 % off", or what else the grader says of the time; empty when nothing."""
    said, percent = result.get('lateness') or '', result.get('percent_off')
    return '%s: %s %% off' % (said, number(percent)) if percent else said


def rows(folder, roster):
    """The table: a list of columns, then one dictionary for each student."""
    results = {student: read(folder, student) for student in students(folder)}
    for student in roster:
        results.setdefault(student, None)
    labs = sorted({lab['id'] for result in results.values() if result for lab in result['labs']},
                  key=lambda name: (name == 'questions', name))
    table = []
    for student in sorted(results):
        result = results[student]
        row = {'id': student, 'status': 'missing'}
        if result is not None:
            scores = {lab['id']: lab for lab in result['labs']}
            row.update(status=result['status'], total=number(result['score']),
                       points=number(result['points']), late=lateness(result),
                       notes='; '.join(result['notes']))
            row.update({lab: number(scores[lab]['score']) for lab in labs if lab in scores})
        table.append(row)
    return ['id', 'total', 'points'] + labs + ['late', 'status', 'notes'], table


def safe(text):
    """A cell that no spreadsheet takes for a formula: what students write ends up in notes."""
    text = str(text)
    return "'" + text if text[:1] in ('=', '+', '-', '@') else text


def merge(folder, roster, out):
    """Writes the table as CSV. Returns how many students have no score."""
    columns, table = rows(folder, roster)
    writer = csv.DictWriter(out, columns, restval='', lineterminator='\n')
    writer.writeheader()
    for row in table:
        writer.writerow({key: safe(value) for key, value in row.items()})
    return sum(1 for row in table if not row.get('total'))
