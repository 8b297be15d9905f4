"""Takes a chapter's lab files out of a submission, which is a folder, a zip or a tar archive.

Only the files that the chapter asks for are read; nothing is ever unpacked. What else is there is
listed, and what an honest archive does not hold (links, devices, absolute paths, `..`) is refused
by its entry. Reading stops at fixed limits, so that a small file cannot fill the memory.
"""

import gzip
import hashlib
import os
import re
import stat
import tarfile
import zipfile

FILE_BYTES = 1 << 20  # of a lab file, the grader's own limit
TOTAL_BYTES = 16 << 20  # of all files that are taken
ARCHIVE_BYTES = 16 << 20  # of the archive itself
UNPACKED_BYTES = 64 << 20  # of a tar archive once it is unpacked
ENTRIES = 2000
LISTED = 20  # notes about single entries; more are counted
ENDINGS = ('.tar.gz', '.tgz', '.tar', '.zip')


class Unreadable(Exception):
    """The submission as a whole cannot be read; the text says why."""


def printable(text):
    """The text in one line, without control characters, at most 200 characters long."""
    return ''.join(c if c.isprintable() else '?' for c in str(text))[:200]


def base_id(name):
    """The student's id that a file or folder name gives: letters, digits and . _ @ + - only."""
    for ending in ENDINGS:
        if name.lower().endswith(ending):
            name = name[:-len(ending)]
            break
    return re.sub(r'[^A-Za-z0-9._@+-]', '_', name).lstrip('.-')[:100] or '_'


def find_submissions(folder):
    """The submissions of a folder as a sorted list of (id, path), and the names of other files.

    Two submissions whose names give the same id are told apart by a number behind it.
    """
    found, others, taken = [], [], set()
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        is_archive = stat.S_ISREG(mode) and name.lower().endswith(ENDINGS)
        if name.startswith('.') or not (stat.S_ISDIR(mode) or is_archive):
            others.append(printable(name))
            continue
        student, number = base_id(name), 2
        while student.lower() in taken:
            student, number = '%s-%d' % (base_id(name), number), number + 1
        taken.add(student.lower())
        found.append((student, path))
    return found, others


def path_parts(name):
    """The parts of an entry's path; some archives come with backslashes."""
    return [part for part in name.replace('\\', '/').split('/') if part not in ('', '.')]


class Chapter:
    """The file names that a chapter asks for, from exercises/chNN and its neighbours."""

    def __init__(self, root, name):
        self.name = name
        self.exact = {}  # 'lab1' -> 'lab1_sink_attention.c'
        self.foreign = set()  # the lab files of other chapters
        exercises = os.path.join(root, 'exercises')
        if not re.fullmatch(r'ch[0-9][0-9]', name) or not os.path.isdir(
                os.path.join(exercises, name)):
            raise SystemExit('gradebook: there is no chapter %s in exercises/; name one as ch02'
                             % printable(name))
        for folder in sorted(os.listdir(exercises)):
            for file in sorted(os.listdir(os.path.join(exercises, folder))):
                match = re.fullmatch(r'(lab[0-9]+)_[A-Za-z0-9_]+\.cu?', file)
                if match and folder == name:
                    self.exact[match[1]] = file
                elif match:
                    self.foreign.add(file)
        self.foreign -= set(self.exact.values())

    def lab_of(self, name):
        """'lab1' or 'answers' when the file is one that is asked for, else None."""
        if name == 'answers.txt':
            return 'answers'
        match = re.fullmatch(r'(lab[0-9]+)_[A-Za-z0-9_.-]+(\.cu?)', name)
        if not match or name in self.foreign or match[1] not in self.exact:
            return None
        same = os.path.splitext(self.exact[match[1]])[1] == match[2]
        return match[1] if same else None

    def place(self, parts):
        """How good a place for this chapter's files a path is, 0 the best; None: it is none."""
        folders = tuple(parts[:-1])
        if any(folder.startswith('.') for folder in folders):
            return None
        good = [(self.name,), ('exercises', self.name), ()]
        if folders in good:
            return good.index(folders)
        other = re.fullmatch(r'ch[0-9][0-9]', folders[0]) and folders[0] != self.name
        if folders[1:] in good and not other and folders[0] != 'exercises':
            return 3 + good.index(folders[1:])
        return None


class Collector:
    """Gathers the entries of one submission; see collect."""

    def __init__(self, chapter):
        self.chapter = chapter
        self.entries = 0
        self.total = 0
        self.found = {}  # path -> bytes
        self.notes = []
        self.refused = 0
        self.ignored = []

    def refuse(self, name, why):
        self.refused += 1
        if self.refused <= LISTED:
            self.notes.append('refused %s: %s' % (printable(name), why))

    def wants(self, name, size):
        """Counts an entry that is a regular file; True when its bytes are wanted."""
        self.entries += 1
        if self.entries > ENTRIES:
            raise Unreadable('it has more than %d entries' % ENTRIES)
        parts = path_parts(name)
        if re.match(r'[/\\]|[A-Za-z]:', name):
            self.refuse(name, 'an absolute path')
            return False
        if '..' in parts or not parts:
            self.refuse(name, '`..` in its path')
            return False
        if self.chapter.lab_of(parts[-1]) is None or self.chapter.place(parts) is None:
            self.ignored.append(printable('/'.join(parts)))
            return False
        if size > FILE_BYTES:
            self.refuse(name, 'larger than %d KiB' % (FILE_BYTES >> 10))
            return False
        return True

    def take(self, name, data):
        self.total += len(data)
        if len(data) > FILE_BYTES:
            self.refuse(name, 'larger than %d KiB' % (FILE_BYTES >> 10))
        elif self.total > TOTAL_BYTES:
            raise Unreadable('its lab files have more than %d MiB' % (TOTAL_BYTES >> 20))
        else:
            self.found['/'.join(path_parts(name))] = data

    def choose(self):
        """The best file for each lab: the exact name first, then the best place."""
        chosen = {}
        for path in sorted(self.found):
            name = path.rsplit('/', 1)[-1]
            lab = self.chapter.lab_of(name)
            rank = (name != self.chapter.exact.get(lab, name), self.chapter.place(path.split('/')))
            if lab not in chosen or rank < chosen[lab][0]:
                chosen[lab] = (rank, path)
        for path in sorted(self.found):
            lab = self.chapter.lab_of(path.rsplit('/', 1)[-1])
            if chosen[lab][1] != path:
                self.notes.append('%s: %s was graded, not %s' % (
                    lab, printable(chosen[lab][1]), printable(path)))
        return {'answers.txt' if lab == 'answers' else self.chapter.exact[lab]: self.found[path]
                for lab, (_, path) in chosen.items()}


def read_folder(top, collector):
    """Adds the regular files of a folder, down to where a lab may lie; follows no link."""
    waiting = [('', 0)]
    while waiting:
        below, depth = waiting.pop()
        with os.scandir(os.path.join(top, below)) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            name = below + entry.name
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                collector.refuse(name, 'a symbolic link')
            elif stat.S_ISDIR(mode):
                if depth < 3 and not entry.name.startswith('.'):
                    waiting.append((name + '/', depth + 1))
                else:
                    collector.ignored.append(printable(name + '/'))
            elif not stat.S_ISREG(mode):
                collector.refuse(name, 'not a regular file')
            elif collector.wants(name, entry.stat(follow_symlinks=False).st_size):
                fd = os.open(os.path.join(top, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                with os.fdopen(fd, 'rb') as file:
                    collector.take(name, file.read(FILE_BYTES + 1))


def read_zip(path, collector):
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            name = info.filename
            if info.is_dir():
                continue
            if kind not in (0, stat.S_IFREG):
                collector.refuse(name, 'a symbolic link' if kind == stat.S_IFLNK
                                 else 'not a regular file')
            elif collector.wants(name, info.file_size):
                if info.flag_bits & 1:
                    collector.refuse(name, 'encrypted')
                elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    collector.refuse(name, 'an unusual compression; use plain zip')
                else:
                    with archive.open(info) as file:
                        collector.take(name, file.read(FILE_BYTES + 1))


class Limited:
    """A file to read from, which gives at most UNPACKED_BYTES."""

    def __init__(self, file):
        self.file = file
        self.left = UNPACKED_BYTES

    def read(self, size=-1):
        data = self.file.read(min(size, 1 << 20) if size >= 0 else 1 << 20)
        self.left -= len(data)
        if self.left < 0:
            raise Unreadable('it unpacks to more than %d MiB' % (UNPACKED_BYTES >> 20))
        return data


def read_tar(path, collector):
    opener = open if path.lower().endswith('.tar') else gzip.open
    with opener(path, 'rb') as raw, tarfile.open(fileobj=Limited(raw), mode='r|') as archive:
        for info in archive:
            if info.isdir():
                continue
            if not info.isreg() or info.sparse:
                collector.refuse(info.name, 'a symbolic link' if info.issym() else 'a hard link'
                                 if info.islnk() else 'not a regular file')
            elif collector.wants(info.name, info.size):
                collector.take(info.name, archive.extractfile(info).read(FILE_BYTES + 1))


def read_submission(path, chapter):
    """Returns (files, notes, ignored): name in exercises/chNN -> bytes, and two lists of lines.

    Raises Unreadable when there is no making sense of it.
    """
    collector = Collector(chapter)
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise Unreadable('it is a symbolic link')
        if os.path.isdir(path):
            read_folder(path, collector)
        elif os.path.getsize(path) > ARCHIVE_BYTES:
            raise Unreadable('the archive is larger than %d MiB' % (ARCHIVE_BYTES >> 20))
        elif path.lower().endswith('.zip'):
            read_zip(path, collector)
        elif path.lower().endswith(ENDINGS):
            read_tar(path, collector)
        else:
            raise Unreadable('it is neither a folder nor one of: ' + ' '.join(ENDINGS))
    except Unreadable:
        raise
    except Exception as error:  # archives can be broken in more ways than their readers name
        raise Unreadable('%s: %s' % (type(error).__name__, printable(error)))
    files = collector.choose()
    notes = collector.notes
    if collector.refused > LISTED:
        notes.append('refused %d more entries' % (collector.refused - LISTED))
    ignored = collector.ignored[:LISTED]
    if len(collector.ignored) > LISTED:
        ignored.append('and %d more' % (len(collector.ignored) - LISTED))
    return files, notes, ignored


def owners(path, chapter):
    """The folders of `path` that each hold lab files of the chapter, when none lie further up.

    In a submission they are one folder, as a rule; in the folder of a class there are many.
    """
    collector = Collector(chapter)
    try:
        if os.path.islink(path) or not os.path.isdir(path):
            return []
        read_folder(path, collector)
    except (Unreadable, OSError):
        pass  # what was found so far tells enough
    places = [name.split('/') for name in collector.found]
    if any(chapter.place(parts) < 3 for parts in places):
        return []
    return sorted({printable(parts[0]) for parts in places})


def digest(parts):
    """A hash of texts and bytes, their borders included."""
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode('utf-8', 'surrogateescape')
        total.update(b'%d:' % len(data))
        total.update(data)
    return total.hexdigest()
