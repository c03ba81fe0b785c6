/* page_browser.c - what runs in the browser: the look of the page of --emit=html, and its
 * script. */
#include "compiler/report/page.h"

const char page_style[] =
    "body{font:14px sans-serif;margin:0 1em 2em;color:#222;background:#fff}"
    "h1{font-size:1.3em;margin:.6em 0 .2em}h2{font-size:1em;margin:.4em 0}p{margin:.2em 0 .6em;color:#555}"
    ".panes{display:flex;flex-wrap:wrap;gap:.6em}"
    ".pane{flex:1 1 13em;min-width:0}.lines{height:62vh;overflow:auto;border:1px solid #ccc;font:11px/1.45 monospace}"
    ".lines div,#remarks div div{white-space:pre;min-width:max-content;padding:0 .4em}.lines div[data-s]{cursor:pointer}"
    ".lines b{display:block;background:#eee;padding:.2em .4em;position:sticky;top:0}"
    ".lines i{display:inline-block;width:3em;color:#999;font-style:normal;text-align:right;margin-right:.8em}"
    ".lit{background:#ffe58a}.lit rect{stroke:#d00;stroke-width:2}.kept{background:#ffc94d}"
    ".wide{overflow-x:auto}pre,#remarks div{font:11px/1.45 monospace;margin:0}meter{width:20em;vertical-align:middle}"
    ".memory text{font:11px monospace;fill:#222}.memory .room{fill:#f3f3f3}.memory .buffer{fill:#9dbfe0;stroke:#fff}"
    ".memory .over{fill:#e0c39d;stroke:#fff}.banks text{font:10px monospace;fill:#222}.banks .piece{fill:#dfe9f3}"
    ".banks .first{fill:#4f86b8}.banks .clash{fill:#d33}.banks .bad{fill:#c00}.banks .good{fill:#373}"
    ".roofline text{font:11px sans-serif;fill:#555}.roofline .grid{stroke:#eee}.roofline .roof{stroke:#1558a6;fill:none}"
    ".roofline .here{stroke:#c60;stroke-dasharray:2 3}.roofline .best{fill:#1558a6}.roofline .predicted{fill:#fff;stroke:#c60;stroke-width:2}"
    "table{border-collapse:collapse;margin:.4em 0 1em}td,th{text-align:left;padding:.15em 1em .15em 0;font-weight:normal}th{color:#777}"
    "#memory{overflow-x:auto}.bound td{color:#1558a6;font-weight:bold}"
    ".w1{color:#777}.w2{color:#2e7d32}.w3{color:#7a1fa2}.w4{color:#00695c}.w5{color:#b3541e}.w6{color:#1558a6}"
    ".bare{flex-basis:100%}.bare .lines{height:auto}.key{display:inline-block;width:1em;height:.8em;margin:0 .3em 0 1em}"
    ".key.buffer{background:#9dbfe0}.key.over{background:#e0c39d}.key.first{background:#4f86b8}.key.clash{background:#d33}.key.piece{background:#dfe9f3}"
    ".key.best{background:#1558a6;border-radius:50%;width:.8em}.key.predicted{border:2px solid #c60;border-radius:50%;width:.5em;height:.5em}"
    /* on a phone one pane is below the other */
    "@media(max-width:60em){body{margin:0 .4em 1em}.panes{display:block}.lines{height:auto;max-height:45vh}}";

/* Lines of one place in the source light up together; a click keeps them, and brings them into view
 * in every pane. */
const char page_script[] =
    /* colours: comments, strings, words, types, numbers, names of registers and values */
    "const rules={\n"
    " source:/(\\/\\/.*)|(\"[^\"]*\")|\\b(use|kernel|fn|let|var|for|in|out|inout|if|else|return|require|grid|load|store|print|"
    "assert|atomic_add|atomic_max|atomic_min|zeros|full|as|true|false|None|auto|while)\\b|"
    "\\b(bool|int|type|(?:i|u|f|bf|tf)\\d+|e\\dm\\d)\\b|\\b(\\d[\\w.]*)|(@\\w+)/g,\n"
    " 'tile-ir':/(\\/\\/.*)|(\"[^\"]*\")|(?<=^ *|= )([a-z]\\w+)(?= |$)|\\b((?:[fiu]|bf|tf)\\d+|e\\dm\\d)\\b|(?<![\\w%$.])(-?\\d[\\w.]*)|([%$]\\w+)/g,\n"
    " ptx:/(\\/\\/.*)|(\"[^\"]*\")|((?<=^\\s*(?:@!?%\\w+ )?)[a-z]\\w*)(?=[.; ])|(\\.[a-z]\\w*)|(?<![\\w%$.])(-?\\d[\\w.]*)|(%\\w+)/g,\n"
    " code:/(\\/\\*.*?\\*\\/)|(\"[^\"]*\")|((?<=\\*\\/ +(?:@!?U?P\\w+ )?)[A-Z]\\w*)|(\\.[A-Z]\\w*)|\\b(0x\\w+)|\\b(U?[RP]\\d+|U?RZ|U?PT)\\b/g};\n"
    "for(const id in rules)for(const line of document.querySelectorAll('#'+id+' .lines>div')){\n"
    " const node=line.lastChild,text=node&&node.nodeType===3?node.data:'';let from=0;const parts=[];\n"
    " for(const found of text.matchAll(rules[id])){const span=document.createElement('span');\n"
    "  span.className='w'+(1+found.slice(1).findIndex(part=>part!==undefined));\n"
    "  span.textContent=found[0];parts.push(text.slice(from,found.index),span);from=found.index+found[0].length}\n"
    " if(parts.length)node.replaceWith(...parts,text.slice(from))}\n"
    /* PTX opens on code: behind what is declared */
    "for(const box of document.querySelectorAll('#ptx .lines')){const first=box.querySelector('[data-s]');\n"
    " if(first)box.scrollTop=first.offsetTop-box.offsetTop-40}\n"
    "const at=new Map();\n"
    "for(const e of document.querySelectorAll('[data-s]'))at.set(e.dataset.s,[...(at.get(e.dataset.s)||[]),e]);\n"
    "let lit=[],kept=null;\n"
    "function light(key){for(const e of lit)e.classList.remove('lit');lit=at.get(key)||[];\n"
    " for(const e of lit)e.classList.add('lit')}\n"
    "function show(key,from){for(const box of document.querySelectorAll('.lines')){\n"
    " const e=lit.find(e=>box.contains(e));\n"
    " if(e&&!box.contains(from))box.scrollTop=e.offsetTop-box.offsetTop-box.clientHeight/3}}\n"
    "document.addEventListener('mouseover',event=>{const e=event.target.closest('[data-s]');\n"
    " if(e&&kept===null)light(e.dataset.s)});\n"
    "document.addEventListener('click',event=>{const e=event.target.closest('[data-s]'),key=e&&e.dataset.s;\n"
    " kept=key===kept?null:key;document.body.dataset.kept=kept||'';\n"
    " if(kept!==null){light(kept);show(kept,e)}});\n"
    "for(const e of document.querySelectorAll('#source [data-s]')){\n"
    " const all=at.get(e.dataset.s),count=id=>all.filter(l=>l.closest('#'+id)).length;\n"
    " e.title=count('tile-ir')+' operations, '+count('ptx')+' lines of PTX, '+count('code')+' of machine code'}\n";
