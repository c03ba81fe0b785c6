"""disk.py - the cache on disk: compiled code, by a digest of all that it was made from.

The folder is $TILEC_CACHE_DIR, else $XDG_CACHE_HOME/tilec, else ~/.cache/tilec; TILEC_CACHE_DIR=off keeps
nothing.  TILEC_CACHE_MB (256) is what it may grow to; what was not used for longest goes first.

Many processes may use it: an entry is written beside its place and renamed, so whoever opens it finds all
of it, and a digest at its head says so.  What cannot be read or written is no error: it is compiled again.
"""
import contextlib
import hashlib
import os
import tempfile

DIGEST_BYTES = 32


def folder():
    """Where the entries are; None: nowhere."""
    chosen = os.environ.get("TILEC_CACHE_DIR")
    if chosen == "off":
        return None
    if chosen:
        return chosen
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tilec")


def limit():
    """Bytes that the folder may have."""
    try:
        return int(float(os.environ.get("TILEC_CACHE_MB", "256")) * 2**20)
    except ValueError:
        return 256 * 2**20


def digest(*parts):
    """A name for what is made of these strings and bytes."""
    sum_ = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        sum_.update(len(data).to_bytes(8, "little") + data)
    return sum_.hexdigest()


def get(key):
    """The bytes of an entry; None when there is none that is whole."""
    at = folder()
    if at is None:
        return None
    path = os.path.join(at, key)
    try:
        with open(path, "rb") as file:
            data = file.read()
        if hashlib.sha256(data[DIGEST_BYTES:]).digest() != data[:DIGEST_BYTES]:
            os.unlink(path)
            return None
        os.utime(path)  # it was used now
        return data[DIGEST_BYTES:]
    except OSError:
        return None


def put(key, data):
    """Keeps an entry, and what was used last beside it within the limit."""
    at = folder()
    if at is None or len(data) > limit():
        return
    name = None
    try:
        os.makedirs(at, mode=0o700, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=at, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(name, os.path.join(at, key))
        name = None
        trim(at)
    except OSError:
        pass
    finally:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)


def trim(at):
    """Removes what was not used for longest until the rest is within the limit."""
    entries = []
    for entry in os.scandir(at):
        with contextlib.suppress(OSError):  # another process removed it
            state = entry.stat()
            entries.append((state.st_mtime, state.st_size, entry.path))
    total, most = sum(size for _, size, _ in entries), limit()
    for _, size, path in sorted(entries):
        if total <= most:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
