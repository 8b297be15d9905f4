#!/usr/bin/env python3
"""Writes a GitHub Classroom workflow: one autograding step for each test of a chapter.

    tests/instructor/classroom.py build/grade ch02 > .github/workflows/classroom.yml

A step runs `make grade-ch02 LAB=1 TEST=name`, whose status is 0 when the test passes. A debugging
lab is one step, since its points are given for all its tests together. Hidden tests have none.
"""

import json
import subprocess
import sys
import tempfile

HEAD = """\
# Grades each push in GitHub Classroom. Made by `make handout CLASSROOM={number}`: do not edit.
name: Autograding Tests
on: [push, repository_dispatch]
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  run-autograding-tests:
    runs-on: ubuntu-24.04
    if: github.actor != 'github-classroom[bot]'
    steps:
      - name: Checkout code
        uses: actions/checkout@v4
      - name: Install what the grader needs, and build it
        run: sudo make deps && make build/grade
"""

STEP = """\
      - name: {name}
        id: {id}
        uses: classroom-resources/autograding-command-grader@v1
        with:
          test-name: {name}
          command: make grade-{chapter} {words}
          timeout: 5
          max-score: {points:g}
"""

TAIL = """\
      - name: Autograding Reporter
        uses: classroom-resources/autograding-grading-reporter@v1
        env:
{variables}
        with:
          runners: {runners}
"""


def steps_of(chapter, report):
    """The steps as a list of dictionaries for STEP."""
    steps = []
    for lab in report['chapters'][0]['labs']:
        words = '' if lab['id'] == 'questions' else 'LAB=%s ' % lab['id'][3:]
        if lab['debugging']:
            steps.append({'id': lab['id'], 'words': words.strip(), 'points': lab['points'],
                          'name': '"%s %s"' % (chapter, lab['id'])})
            continue
        steps += [{'id': '%s_%s' % (lab['id'], test['name']), 'points': test['points'],
                   'words': words + 'TEST=' + test['name'],
                   'name': '"%s %s: %s"' % (chapter, lab['id'], test['name'])}
                  for test in lab['tests'] if test['points'] > 0]
    return steps


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    grader, chapter = sys.argv[1:]
    with tempfile.TemporaryDirectory() as nothing:  # nobody's labs are to be graded
        made = subprocess.run([grader, '--from', nothing, '--format', 'json', chapter],
                              stdout=subprocess.PIPE, check=False)
    if made.returncode not in (0, 1):
        sys.exit('classroom: %s could not list the tests of %s' % (grader, chapter))
    steps = steps_of(chapter, json.loads(made.stdout.decode('utf-8')))
    print(HEAD.format(number=chapter[2:]), end='')
    for step in steps:
        print(STEP.format(chapter=chapter, **step), end='')
    print(TAIL.format(runners=','.join(step['id'] for step in steps), variables='\n'.join(
        '          %s_RESULTS: "${{steps.%s.outputs.result}}"' % (step['id'].upper(), step['id'])
        for step in steps)), end='')


if __name__ == '__main__':
    main()
