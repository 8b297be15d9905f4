"""The results folder: one JSON file for each submission, and the table made from them."""

import csv
import json
import os

from collect import base_id


def write_whole(path, text):
    """Writes a file so that it is never seen half written."""
    temporary = os.path.join(os.path.dirname(path), '.%s.%d' % (os.path.basename(path), os.getpid()))
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


def read_rows(path):
    """The rows of a CSV file, or the lines of a text file, with a student's id in front.

    The ids are written as those of submissions are. A first line that names the columns is left out.
    """
    with open(path, encoding='utf-8-sig', newline='') as file:
        table = [row for row in csv.reader(file) if row and row[0].strip()]
    if table and table[0][0].strip().lower() in ('id', 'student', 'name'):
        del table[0]
    return [[base_id(row[0].strip())] + row[1:] for row in table]


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
