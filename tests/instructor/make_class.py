#!/usr/bin/env python3
"""Makes a class of synthetic submissions, to try the gradebook and to measure it.

    tests/instructor/make_class.py DIR ch02 200

Submission i is by turns: all solved, one lab with a known fault, half of the labs solved,
untouched, and a file that does not compile. They come as folders, zip and tar archives of several
shapes. DIR must be new; `DIR.csv` lists what each one is.
"""

import io
import os
import random
import re
import sys
import tarfile
import zipfile

KINDS = ('solved', 'fault', 'fault', 'half', 'untouched', 'broken')
SHAPES = ('folder/chNN', 'folder', 'zip/chNN', 'tgz', 'zip/deep', 'tar/exercises')


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def lab_files(folder):
    return {name: read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
            if re.match(r'(lab[0-9]+_.*\.cu?|answers\.txt)$', name)}


def plant(text, mutant):
    """The solution's text with the mutant's changes."""
    for change in mutant.split('--- was\n')[1:]:
        was, becomes = change.split('+++ becomes\n', 1)
        text = text.replace(was, becomes)
    return text


def make(kind, chapter, chance):
    """The files of a submission: name -> text, and a word about it."""
    solved, untouched = lab_files('solutions/' + chapter), lab_files('exercises/' + chapter)
    if kind == 'fault':
        folder = 'tests/mutants/' + chapter
        mutant = chance.choice(sorted(os.listdir(folder)))
        for name in solved:
            if name.startswith(mutant.split('_')[0] + '_'):
                solved[name] = plant(solved[name], read(os.path.join(folder, mutant)))
        return solved, mutant
    if kind == 'half':
        return {name: chance.choice((solved, untouched))[name] for name in solved}, kind
    if kind == 'broken':
        name = chance.choice(sorted(set(solved) - {'answers.txt'}))
        solved[name] = solved[name].replace('{', '', 1)
        return solved, name
    return (solved if kind == 'solved' else untouched), kind


def write(folder, student, shape, chapter, files):
    form, _, place = shape.partition('/')
    below = {'chNN': chapter + '/', '': '', 'deep': 'my work/' + chapter + '/',
             'exercises': 'exercises/' + chapter + '/'}[place]
    path = os.path.join(folder, student)
    if form == 'folder':
        os.makedirs(os.path.join(path, below))
        for name, text in files.items():
            with open(os.path.join(path, below, name), 'w', encoding='utf-8') as file:
                file.write(text)
    elif form == 'zip':
        with zipfile.ZipFile(path + '.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
            for name, text in files.items():
                archive.writestr(below + name, text)
    else:
        with tarfile.open('%s.%s' % (path, form), 'w:gz' if form == 'tgz' else 'w') as archive:
            for name, text in files.items():
                info = tarfile.TarInfo(below + name)
                info.size = len(text.encode())
                archive.addfile(info, io.BytesIO(text.encode()))


def main():
    if len(sys.argv) != 4 or not sys.argv[3].isdigit():
        sys.exit(__doc__)
    folder, chapter, count = sys.argv[1].rstrip('/'), sys.argv[2], int(sys.argv[3])
    if os.path.lexists(folder):
        sys.exit('make_class: %s is there already; name a new folder' % folder)
    if not os.path.isdir('solutions/' + chapter):
        sys.exit('make_class: there is no solutions/%s here; run it from the course\'s top folder\n'
                 'and name a chapter as ch02' % chapter)
    os.makedirs(folder)
    with open(folder + '.csv', 'w', encoding='utf-8') as table:
        table.write('id,kind,what\n')
        for i in range(count):
            kind = KINDS[i % len(KINDS)]
            files, what = make(kind, chapter, random.Random(i))
            student = 'student%03d' % (i + 1)
            write(folder, student, SHAPES[i // len(KINDS) % len(SHAPES)], chapter, files)
            table.write('%s,%s,%s\n' % (student, kind, what))


if __name__ == '__main__':
    main()
