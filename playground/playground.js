// playground.js - the page: an editor, a worker that runs tilec on files in memory, and panes of what comes out.
"use strict";

const by = id => document.getElementById(id);
const source = by("source"), messages = by("messages"), state = by("state");
const FILE = "kernel.tile";

/* ---- the compiler, in a worker ---- */

const workerText = `${WASI_TEXT}
let module = null;
onmessage = async ({data}) => {
  if (data.packed) {
    const stream = new Response(data.packed).body.pipeThrough(new DecompressionStream("gzip"));
    module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
    postMessage({ready: true});
    return;
  }
  const files = new Map(data.files), done = runWasi(module, ["tilec", ...data.args], files);
  postMessage({id: data.id, ...done, files: [...files].map(([name, bytes]) => [name, bytes.slice()])});
};`;

const packed = Uint8Array.from(atob(WASM_TEXT), letter => letter.charCodeAt(0));
let worker = null, ready = null, jobs = new Map(), lastJob = 0;

function start() {
  worker = new Worker(URL.createObjectURL(new Blob([workerText], {type: "text/javascript"})));
  ready = new Promise(resolve => {
    worker.onmessage = ({data}) => {
      if (data.ready)
        resolve();
      else if (jobs.has(data.id)) {
        const finish = jobs.get(data.id);
        jobs.delete(data.id);
        finish({...data, files: new Map(data.files)});
      }
    };
  });
  worker.postMessage({packed});
}

// What is under way is of no use any more: the worker ends, and another one begins.
function stop() {
  if (jobs.size === 0)
    return;
  worker.terminate();
  jobs = new Map();
  start();
}

async function tilec(args, files) {
  await ready;
  return new Promise(resolve => {
    jobs.set(++lastJob, resolve);
    worker.postMessage({id: lastJob, args, files: [...files]});
  });
}

/* ---- what the page asks for ---- */

// Words as a shell has them: blanks divide, quotes keep.
const words = text => (text.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) || []).map(word => word.replace(/["']/g, ""));
const program = () => new Map([[FILE, new TextEncoder().encode(source.value)]]);
const chosen = () => ["-arch", by("target").value, ...words(by("options").value)];
// of a run, which has no target and no plan
const defines = () => {
  const all = words(by("options").value), kept = [];
  for (let k = 0; k < all.length; k++)
    if (all[k] === "-D" || all[k] === "--kernel")
      kept.push(all[k], all[++k]);
    else if (all[k].startsWith("-D") || all[k].startsWith("-W"))
      kept.push(all[k]);
  return kept;
};
const textOf = (done, name) => new TextDecoder().decode(done.files.get(name) || new Uint8Array(0));

const makers = {
  async ptx(pane) {
    const done = await tilec([FILE, ...chosen(), "-o", "out.ptx"], program());
    if (done.code === 0)
      showCode(pane.querySelector("pre"), textOf(done, "out.ptx"));
    return done;
  },
  async page(pane) {
    const done = await tilec([FILE, ...chosen(), "--emit=html", "-o", "out.html"], program());
    if (done.code === 0)
      pane.querySelector("iframe").srcdoc = textOf(done, "out.html");
    return done;
  },
  async schedule(pane) {
    const done = await tilec([FILE, ...chosen(), "--dump-schedule", "-o", "out.ptx"], program());
    if (done.code === 0)
      pane.querySelector("pre").textContent = done.out;
    return done;
  },
  run: runProgram,
};

// PTX, which opens on code: what stands before it is the metadata.  It stays where it is while a program is edited.
let codeOf = null;
function showCode(pre, text) {
  const lines = text.slice(0, Math.max(0, text.indexOf("\n.visible .entry"))).split("\n").length, of = by("examples").value;
  pre.textContent = text;
  if (codeOf !== of)
    pre.scrollTop = lines * parseFloat(getComputedStyle(pre).lineHeight);
  codeOf = of;
}

function show(done) {
  messages.replaceChildren();
  for (const line of done.err.split(/(?<=\n)/)) {
    const place = line.match(/^kernel\.tile:(\d+)(?::(\d+))?: (error|warning|note|remark)/);
    const span = document.createElement(place ? "a" : "span");
    span.textContent = line;
    const kind = line.match(/\b(error|warning|note|remark): /);
    span.className = kind ? kind[1] : "";
    if (place)
      span.onclick = () => goTo(Number(place[1]), Number(place[2] || 1));
    messages.append(span);
  }
  if (done.err === "")
    messages.textContent = "no errors, no warnings";
}

function goTo(line, column) {
  const lines = source.value.split("\n");
  const at = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
  source.focus();
  source.setSelectionRange(at, at);
}

let turn = 0;
async function make() {
  const own = ++turn, pane = document.querySelector(".pane.on"), begin = performance.now();
  stop();
  state.textContent = "working";
  const done = await makers[pane.id](pane);
  if (own !== turn)
    return;
  show(done);
  pane.classList.toggle("stale", done.code !== 0); // of the last program without errors
  document.body.dataset.code = done.code;
  document.body.dataset.turn = own;
  state.textContent = `${done.code === 0 ? "done" : "errors"}, ${Math.round(performance.now() - begin)} ms`;
}

/* ---- a run ---- */

// Names in `sizes`: what the field says, else 4; scalars 1.
async function runProgram(pane) {
  const files = program(), described = await tilec([FILE, ...defines(), "--plan=none", "--ignore-debug", "--emit=json", "-o", "out.json"], files);
  if (described.code !== 0)
    return described;
  const given = new Map(words(by("sizes").value).map(word => word.split("=")));
  const next = drawing(Number(by("seed").value)), args = [], made = new Set(), outputs = new Map();
  const value = name => Number(typeof name === "number" ? name : given.get(name) ?? 4);
  for (const kernel of JSON.parse(textOf(described, "out.json")).kernels) {
    // of a dimension that is an expression: no name of the program, and what follows from those
    const unnamed = name => kernel.tensors.some(tensor => name.startsWith(`${tensor.name}_dim`)) && (kernel.follows || {})[name];
    for (const name of kernel.sizes)
      if (unnamed(name))
        given.set(name, evaluate(unnamed(name), value));
      else
        args.push(`${name}=${value(name)}`);
    for (const scalar of kernel.scalars)
      args.push(`${scalar.name}=${given.get(scalar.name) ?? 1}`);
    for (const tensor of kernel.tensors) {
      if (!(tensor.dtype in TYPES))
        return {code: 1, err: `the page draws no numbers of ${tensor.dtype}\n`, out: ""};
      if (tensor.mode !== "in")
        outputs.set(tensor.name, tensor.dtype);
      if (tensor.mode === "in" && !made.has(tensor.name) && !outputs.has(tensor.name)) {
        files.set(`${tensor.name}.npy`, npyOf(tensor.dtype, tensor.shape.map(value), next));
        made.add(tensor.name);
      }
    }
  }
  const sets = [...new Set(args)].flatMap(set => ["--set", set]);
  const all = [FILE, ...defines(), ...sets, ...[...made].flatMap(name => ["--in", `${name}=${name}.npy`]),
               ...[...outputs.keys()].flatMap(name => ["--out", `${name}=${name}.out.npy`])];
  const done = await tilec(["run", ...all], files);
  const results = [...outputs].filter(([name]) => done.files.has(`${name}.out.npy`))
    .map(([name, type]) => shown(name, type, numbersOf(type, done.files.get(`${name}.out.npy`))));
  const printed = done.out.split("\n").filter(line => !/ in \w+\.out\.npy$/.test(line)).join("\n");
  pane.querySelector("pre").textContent = [`tilec run ${[...new Set(args)].join(" ")}`, printed.trim(), ...results].filter(Boolean).join("\n\n");
  return done;
}

/* ---- the editor ---- */

function number() {
  const n = source.value.split("\n").length;
  by("numbers").textContent = Array.from({length: n}, (_, k) => k + 1).join("\n");
  by("numbers").scrollTop = source.scrollTop;
}

let wait = null;
function changed() {
  number();
  clearTimeout(wait);
  wait = setTimeout(make, 500);
}

function open(name) {
  const example = EXAMPLES.find(one => one.name === name);
  source.value = example.text;
  by("options").value = example.options;
  by("sizes").value = example.sizes;
  number();
}

function pane(name) {
  for (const e of document.querySelectorAll("nav button"))
    e.classList.toggle("on", e.dataset.pane === name);
  for (const e of document.querySelectorAll(".pane"))
    e.classList.toggle("on", e.id === name);
  make();
}

for (const {name} of EXAMPLES)
  by("examples").append(new Option(name, name));
for (const name of TARGETS)
  by("target").append(new Option(name, name, name === "sm_90", name === "sm_90"));
by("examples").onchange = () => { open(by("examples").value); make(); };
by("target").onchange = make;
by("options").oninput = changed;
by("go").onclick = make;
by("sizes").onkeydown = event => { if (event.key === "Enter") make(); };
source.oninput = changed;
source.onscroll = () => { by("numbers").scrollTop = source.scrollTop; };
source.onkeydown = event => { // a tab is four blanks
  if (event.key === "Tab" && !event.shiftKey) {
    event.preventDefault();
    source.setRangeText("    ", source.selectionStart, source.selectionEnd, "end");
    changed();
  }
};
for (const e of document.querySelectorAll("nav button"))
  e.onclick = () => pane(e.dataset.pane);
by("link").onclick = () => {
  location.hash = encodeURIComponent(JSON.stringify({text: source.value, target: by("target").value, options: by("options").value,
                                                     sizes: by("sizes").value}));
  state.textContent = "the address has the program";
};

start();
open(EXAMPLES[0].name);
if (location.hash.length > 1) {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    source.value = kept.text;
    by("target").value = kept.target;
    by("options").value = kept.options;
    by("sizes").value = kept.sizes;
    number();
  } catch (fault) {
    state.textContent = "this address has no program";
  }
}
make();
