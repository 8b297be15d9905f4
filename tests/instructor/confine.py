"""What keeps a submission inside its folder: another user, bubblewrap, or Landlock.

bubblewrap (bwrap) gives it a file system with nothing but the system's programs, the grading tree
read-only and its own folder, and neither a network nor the sight of other processes. Without it,
Landlock, a part of Linux from 5.19 on, closes the file system to it in the same way; of the network
it closes TCP. When the gradebook is run by root, a submission also runs as a user of its own.
"""

import ctypes
import os
import shutil
import signal
import struct
import subprocess

SYSTEM = ('/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/etc/alternatives',
          '/etc/ld.so.cache', '/etc/ld.so.conf', '/etc/ld.so.conf.d')
FIRST_USER, USERS = 64000, 1000
CAPABILITIES = ('CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'KILL', 'SETGID', 'SETUID')

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38  # linux/prctl.h

libc = ctypes.CDLL(None, use_errno=True)


def no_new_privileges():
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), 'prctl')


def become_subreaper():
    """Orphans of a submission come back to this process, which can then end them."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(parent):
    """This process gets a SIGTERM when `parent`, which started it, is gone, however that ended.

    It ends here when that has happened before it could be asked for.
    """
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), 'prctl')
    if os.getppid() != parent:
        os._exit(1)


# ---- Landlock: the numbers are those of linux/landlock.h ----------------------------------------

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on all machines
RULESET_VERSION = 1  # a flag of CREATE_RULESET
PATH_BENEATH = 1  # a kind of rule
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
FILE_RIGHTS = {2: 14, 3: 15, 4: 15}  # how many a version knows; 16 from version 5 on
BIND_TCP, CONNECT_TCP = 1, 2  # from version 4 on
SCOPE_ABSTRACT_SOCKET, SCOPE_SIGNAL = 1, 2  # from version 6 on


def landlock_version():
    """The version of Landlock's interface; at most 0 when it is not there."""
    return libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), RULESET_VERSION)


def allow(ruleset, path, access):
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be allowed
    try:
        if not os.path.isdir(path):
            access &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
        rule = ctypes.create_string_buffer(struct.pack('=Qi', access, fd))
        if libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0) != 0:
            raise OSError(ctypes.get_errno(), 'landlock_add_rule: ' + path)
    finally:
        os.close(fd)


def landlock_ruleset(readable, writable):
    """A ruleset's descriptor: programs and files to read, folders to write to."""
    version = landlock_version()
    everything = (1 << FILE_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack('=QQQ', everything, BIND_TCP | CONNECT_TCP if version >= 4 else 0,
                             SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    buffer = ctypes.create_string_buffer(attributes)
    ruleset = libc.syscall(CREATE_RULESET, buffer, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), 'landlock_create_ruleset')
    os.set_inheritable(ruleset, False)
    for path in readable:
        allow(ruleset, path, EXECUTE | READ_FILE | READ_DIR)
    for path in writable:
        allow(ruleset, path, everything)
    return ruleset


# ---- which of them there is ---------------------------------------------------------------------

def compiler_folders():
    """Where CC and TRACE_CC are installed, when that is not among the system's folders."""
    found = []
    for name in (os.environ.get('CC') or 'gcc', os.environ.get('TRACE_CC') or 'gcc'):
        program = os.path.realpath(shutil.which(name.split()[0]) or '/usr/bin/gcc')
        if not program.startswith(SYSTEM):
            found.append(os.path.dirname(os.path.dirname(program)))
    return found


class Confinement:
    """How submissions are confined here. `want` is auto, bwrap, landlock or none."""

    def __init__(self, root, want):
        self.root = root  # the course, to be hidden even where its folder would be readable
        self.is_root = os.geteuid() == 0
        self.bwrap = None
        self.landlock = False
        self.reason = ''
        if want in ('auto', 'bwrap'):
            self.bwrap = shutil.which('bwrap')
            if self.bwrap is None:
                self.reason = 'bubblewrap is not installed (sudo apt-get install bubblewrap)'
            elif not self.bwrap_works():
                self.bwrap = None
        if want in ('auto', 'landlock') and self.bwrap is None:
            self.landlock = landlock_version() >= 2
            if not self.landlock:
                self.reason += '; ' * bool(self.reason) + 'this kernel has no Landlock'
        if want == 'bwrap' and self.bwrap is None or want == 'landlock' and not self.landlock:
            raise SystemExit('gradebook: --isolation %s: %s' % (want, self.reason))

    def bwrap_works(self):
        probe = subprocess.run(self.bwrap_words([]) + ['/bin/sh', '-c', ':'], check=False,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
        if probe.returncode != 0:
            lines = probe.stderr.decode('utf-8', 'replace').splitlines() or ['it fails']
            self.reason = 'bubblewrap does not work here (%s)' % lines[0]
        return probe.returncode == 0

    def bwrap_words(self, binds):
        words = [self.bwrap, '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts',
                 '--die-with-parent', '--new-session']
        if self.is_root:
            for capability in CAPABILITIES:
                words += ['--cap-add', 'CAP_' + capability]
        for path in list(SYSTEM) + compiler_folders():
            if os.path.islink(path):
                words += ['--symlink', os.readlink(path), path]
            elif os.path.exists(path):
                words += ['--ro-bind', path, path]
        if self.root.startswith(tuple(SYSTEM + ('/opt',))):
            words += ['--tmpfs', self.root]
        return words + ['--proc', '/proc', '--dev', '/dev', '--remount-ro', '/dev'] + binds

    def lines(self):
        """What protects and what does not, in words for the terminal."""
        user = ('as a user of its own' if self.is_root else
                'as you, since you are not root')
        if self.bwrap:
            how = 'bubblewrap confines it: no network, a read-only tree'
        elif self.landlock:
            how = 'Landlock confines it: it can read the tree and write its own folder'
        else:
            how = 'the file system and the network are open to it'
        out = ['each submission runs ' + user, how]
        if self.reason and not self.bwrap:
            out.append(self.reason)
        if not self.bwrap and not self.landlock:
            out.append('grade only submissions of people you trust, or install bubblewrap')
        return out

    def user(self):
        """A user that nobody else is at the moment; None when this is not root's run."""
        if not self.is_root:
            return None
        busy = set()
        for name in os.listdir('/proc'):
            try:
                busy.add(os.stat('/proc/' + name).st_uid)
            except OSError:
                pass  # it has ended
        for i in range(USERS):
            user = FIRST_USER + (os.getpid() + i) % USERS
            if user not in busy:
                return user
        raise SystemExit('gradebook: all users from %d on are busy' % FIRST_USER)

    def command(self, tree, slot):
        """(words before the grader, its tree, its slot, what the child calls before it starts).

        The two folders are given as the grader sees them: relative ones can be reached by a user
        who may not enter the folders above.
        """
        if self.bwrap:
            binds = ['--ro-bind', tree, '/course', '--bind', slot, '/slot',
                     '--bind', os.path.join(slot, 'tmp'), '/tmp', '--chdir', '/course', '--']
            return self.bwrap_words(binds), '/course', '/slot', lambda: None
        seen = os.path.relpath(slot, tree)
        if not self.landlock:
            return [], '.', seen, no_new_privileges
        ruleset = landlock_ruleset(
            list(SYSTEM) + compiler_folders() + [tree, '/proc', '/sys/devices/system', '/dev/zero',
                                                 '/dev/random', '/dev/urandom'],
            [slot, '/dev/null'])

        def restrict():
            no_new_privileges()
            if libc.syscall(RESTRICT_SELF, ruleset, 0) != 0:
                os._exit(126)
        return [], '.', seen, restrict
