"""disk.py - the cache on disk: compiled code, by a digest of all that it was made from.

It is the folder `tilec-cache` in $TILEC_CACHE_DIR, else in $XDG_CACHE_HOME/tilec, else in ~/.cache/tilec;
TILEC_CACHE_DIR=off keeps nothing.  TILEC_CACHE_MB (256) is what it may grow to; what was not used for longest goes
first.  Only files are removed or replaced that have a name of the cache's and, at their head or their end, MARK.

Many processes may use it: an entry is written beside its place and renamed, so whoever opens it finds all
of it, and a digest behind MARK says so.  What cannot be read or written is no error: it is compiled again.  A
folder that can only be read serves what it has.
"""
import contextlib
import hashlib
import os
import re
import stat
import tempfile

OWN = "tilec-cache"  # the folder's name
MARK = b"tilec cache, 1\n"
DIGEST_BYTES = 32
USUAL_MB = 256
_NAMES = re.compile(r"tilec-[\w-]+(\.entry|\.so|\.new)")


def folder():
    """Where the entries are; None: nowhere."""
    chosen = os.environ.get("TILEC_CACHE_DIR")
    if chosen == "off":
        return None
    base = os.path.expanduser(chosen) if chosen else ""
    if not base:
        caches = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "")
        base = os.path.join(caches if os.path.isabs(caches) else os.path.expanduser("~/.cache"), "tilec")
    # a `~` that is left: there is no such user, or none at all
    return None if base.startswith("~") else os.path.join(base, OWN)


def place(key, kind=".entry"):
    """The path of an entry; None: there is no folder."""
    at = folder()
    return None if at is None else os.path.join(at, f"tilec-{key}{kind}")


def limit():
    """Bytes that the folder may have."""
    try:
        return int(float(os.environ.get("TILEC_CACHE_MB", USUAL_MB)) * 2**20)
    except (ValueError, OverflowError):
        return USUAL_MB * 2**20


def digest(*parts):
    """A name for what is made of these strings and bytes."""
    sum_ = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        sum_.update(len(data).to_bytes(8, "little") + data)
    return sum_.hexdigest()


def is_own(path):
    """Whether the cache made this file."""
    if not _NAMES.fullmatch(os.path.basename(path)) or not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    with open(path, "rb") as file:
        if file.read(len(MARK)) == MARK:
            return True
        file.seek(-min(len(MARK), os.path.getsize(path)), os.SEEK_END)
        return file.read() == MARK


def touch(path):
    """It was used now; where nothing can be written nothing is removed, either."""
    with contextlib.suppress(OSError):
        os.utime(path)


def get(key):
    """The bytes of an entry; None when there is none that is whole."""
    path = place(key)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            head, sum_, data = file.read(len(MARK)), file.read(DIGEST_BYTES), file.read()
    except OSError:
        return None
    if head == MARK and hashlib.sha256(data).digest() == sum_:
        touch(path)
        return data
    with contextlib.suppress(OSError):
        if is_own(path):
            os.unlink(path)
    return None


def fresh():
    """A new file beside the entries, open for writing, and its path."""
    at = folder()
    os.makedirs(at, mode=0o700, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=at, prefix="tilec-", suffix=".new")
    return os.fdopen(handle, "wb"), name


def put(key, data):
    """Keeps an entry, and what was used last beside it within the limit."""
    path, name = place(key), None
    if path is None or len(data) > limit():
        return
    try:
        if os.path.lexists(path) and not is_own(path):
            return
        file, name = fresh()
        with file:
            file.write(MARK + hashlib.sha256(data).digest() + data)
        os.replace(name, path)
        name = None
        trim()
    except OSError:
        pass
    finally:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)


def trim():
    """Removes what was not used for longest until the rest is within the limit."""
    entries = []
    for entry in os.scandir(folder()):
        with contextlib.suppress(OSError):  # another process removed it
            state = entry.stat(follow_symlinks=False)
            if _NAMES.fullmatch(entry.name):
                entries.append((state.st_mtime, state.st_size, entry.path))
    total, most = sum(size for _, size, _ in entries), limit()
    for _, size, path in sorted(entries):
        if total <= most:
            return
        with contextlib.suppress(OSError):
            if is_own(path):
                os.unlink(path)
                total -= size
