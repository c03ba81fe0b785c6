// wasi.js - the part of WASI that tilec asks for (preview 1): arguments, a clock, and files in memory.
"use strict";

const WASI_OK = 0, WASI_BADF = 8, WASI_EXIST = 20, WASI_INVAL = 28, WASI_ISDIR = 31, WASI_NOENT = 44, WASI_NOSYS = 52;
const DIRECTORY = 3, REGULAR = 4, ROOT = 3; // the handle of the only folder, "/"

class Exit {
  constructor(code) { this.code = code; }
}

// Runs a module with `args` on `files` (a Map of names to Uint8Array, which is changed).  Gives {code, out, err}; the code of an
// instance that was stopped (no memory, a fault) is -1, and err says why.
function runWasi(module, args, files) {
  const bytes = new TextEncoder(), text = new TextDecoder();
  const said = [[], []]; // pieces of standard output and standard error
  const open = new Map([[ROOT, {folder: true}]]);
  let memory, next = ROOT + 1;
  const view = () => new DataView(memory.buffer);
  const part = (at, n) => new Uint8Array(memory.buffer, at, n);
  const nameAt = (at, n) => text.decode(part(at, n).slice()).replace(/^(\.?\/)+/, "").replace(/^\.$/, "");
  const isFolder = name => name === "" || name === "tmp";

  function strings(list, at, buffer) {
    for (const one of list) {
      view().setUint32(at, buffer, true);
      part(buffer, one.length).set(one);
      at += 4;
      buffer += one.length;
    }
    return WASI_OK;
  }

  const words = args.map(word => bytes.encode(word + "\0"));
  function stat(at, folder, size) {
    part(at, 64).fill(0);
    view().setUint8(at + 16, folder ? DIRECTORY : REGULAR);
    view().setBigUint64(at + 24, 1n, true);
    view().setBigUint64(at + 32, BigInt(size), true);
    return WASI_OK;
  }

  function vectors(at, n) {
    const list = [];
    for (let k = 0; k < n; k++)
      list.push(part(view().getUint32(at + 8 * k, true), view().getUint32(at + 8 * k + 4, true)));
    return list;
  }

  function append(file, piece) { // at the file's place; the buffer is twice as long as it must be, since pieces are short
    const had = files.get(file.name) || new Uint8Array(0), end = file.at + piece.length;
    let all = had;
    if (end > had.buffer.byteLength || (end > had.length && had.byteOffset > 0)) {
      all = new Uint8Array(new ArrayBuffer(2 * end), 0, Math.max(end, had.length));
      all.set(had);
    } else if (end > had.length) {
      all = new Uint8Array(had.buffer, 0, end);
    }
    all.set(piece, file.at);
    file.at = end;
    files.set(file.name, all);
  }

  const calls = {
    args_sizes_get(n, size) {
      view().setUint32(n, words.length, true);
      view().setUint32(size, words.reduce((sum, word) => sum + word.length, 0), true);
      return WASI_OK;
    },
    args_get: (at, buffer) => strings(words, at, buffer),
    environ_sizes_get(n, size) {
      view().setUint32(n, 0, true);
      view().setUint32(size, 0, true);
      return WASI_OK;
    },
    environ_get: () => WASI_OK,
    clock_time_get(id, precision, at) {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return WASI_OK;
    },
    fd_close: fd => open.delete(fd) || fd < ROOT ? WASI_OK : WASI_BADF,
    fd_fdstat_get(fd, at) {
      if (fd >= ROOT && !open.has(fd))
        return WASI_BADF;
      part(at, 24).fill(0);
      view().setUint8(at, fd === ROOT ? DIRECTORY : REGULAR);
      part(at + 8, 16).fill(255); // all rights
      return WASI_OK;
    },
    fd_fdstat_set_flags: () => WASI_OK,
    fd_prestat_get(fd, at) {
      if (fd !== ROOT)
        return WASI_BADF;
      view().setUint32(at, 0, true);
      view().setUint32(at + 4, 1, true);
      return WASI_OK;
    },
    fd_prestat_dir_name(fd, at) {
      part(at, 1).set(bytes.encode("/"));
      return fd === ROOT ? WASI_OK : WASI_BADF;
    },
    fd_read(fd, at, n, read) {
      const file = open.get(fd);
      let done = 0;
      if (fd >= ROOT && (!file || file.folder))
        return WASI_BADF;
      for (const to of file ? vectors(at, n) : []) { // standard input is empty
        const from = (files.get(file.name) || new Uint8Array(0)).subarray(file.at, file.at + to.length);
        to.set(from);
        file.at += from.length;
        done += from.length;
      }
      view().setUint32(read, done, true);
      return WASI_OK;
    },
    fd_write(fd, at, n, written) {
      const file = open.get(fd);
      let done = 0;
      if (fd === 0 || (fd >= ROOT && (!file || file.folder)))
        return WASI_BADF;
      for (const from of vectors(at, n)) {
        if (file)
          append(file, from);
        else
          said[fd - 1].push(from.slice());
        done += from.length;
      }
      view().setUint32(written, done, true);
      return WASI_OK;
    },
    fd_seek(fd, offset, whence, at) {
      const file = open.get(fd);
      if (!file || file.folder)
        return WASI_BADF;
      const from = [0, file.at, (files.get(file.name) || "").length][whence];
      if (from === undefined || from + Number(offset) < 0)
        return WASI_INVAL;
      file.at = from + Number(offset);
      view().setBigUint64(at, BigInt(file.at), true);
      return WASI_OK;
    },
    path_filestat_get(fd, flags, path, n, at) {
      const name = nameAt(path, n);
      return isFolder(name) ? stat(at, true, 0) : files.has(name) ? stat(at, false, files.get(name).length) : WASI_NOENT;
    },
    fd_filestat_get(fd, at) {
      const file = open.get(fd);
      return file && !file.folder ? stat(at, false, (files.get(file.name) || "").length) : stat(at, fd === ROOT, 0);
    },
    path_open(fd, look, path, n, flags, rights, inherited, fdflags, at) {
      const name = nameAt(path, n), there = files.has(name);
      if (isFolder(name) && (flags & 1))
        return WASI_ISDIR;
      if (!there && !isFolder(name) && !(flags & 1))
        return WASI_NOENT;
      if (there && (flags & 5) === 5)
        return WASI_EXIST;
      if (!isFolder(name) && (!there || (flags & 8)))
        files.set(name, new Uint8Array(0));
      open.set(next, {name, at: 0, folder: isFolder(name)});
      view().setUint32(at, next++, true);
      return WASI_OK;
    },
    path_rename(fd, path, n, to, newPath, m) {
      const name = nameAt(path, n);
      if (!files.has(name))
        return WASI_NOENT;
      files.set(nameAt(newPath, m), files.get(name));
      files.delete(name);
      return WASI_OK;
    },
    path_unlink_file: (fd, path, n) => files.delete(nameAt(path, n)) ? WASI_OK : WASI_NOENT,
    proc_exit(code) { throw new Exit(code); },
  };

  const asked = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module))
    (asked[from] = asked[from] || {})[name] = calls[name] || (() => WASI_NOSYS);
  let code = 0;
  try {
    const instance = new WebAssembly.Instance(module, asked);
    memory = instance.exports.memory;
    instance.exports._start();
  } catch (stop) {
    code = stop instanceof Exit ? stop.code : -1;
    if (code === -1)
      said[1].push(bytes.encode(`tilec: error: stopped, out of memory or by a fault: ${stop}\n`));
  }
  const joined = said.map(pieces => {
    const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return text.decode(all);
  });
  return {code, out: joined[0], err: joined[1]};
}
