"""The page at `/`: a form for the kind of input that a model takes, and its answer, drawn. All of it is here."""

from __future__ import annotations

import base64
import hashlib

_STYLE = """
:root{color-scheme:light dark;--line:#8886;--bar:#1f77b4}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0 0 1rem}
form,section{border:1px solid var(--line);border-radius:.5rem;padding:1rem;margin:0 0 1rem}
label{display:block;margin:.5rem 0 .2rem;font-weight:600}
input,select,textarea,button{font:inherit;box-sizing:border-box;max-width:100%;padding:.35rem .5rem}
input[type=text],textarea{width:100%}
textarea{min-height:6rem}
button{margin-top:1rem;padding:.45rem 1.4rem}
.columns{display:grid;grid-template-columns:repeat(auto-fill,minmax(14rem,1fr));gap:0 1rem}
#error{color:#d62728;white-space:pre-wrap}
#drop.over{outline:2px dashed var(--bar)}
img{max-width:100%}audio{width:100%}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid var(--line)}
td.number{text-align:right;font-variant-numeric:tabular-nums}
meter{width:8rem;vertical-align:middle}
pre{white-space:pre-wrap;overflow-wrap:anywhere;max-height:24rem;overflow:auto}
.note{opacity:.75;font-size:.9rem}
"""

_SCRIPT = r"""
"use strict";
const $ = id => document.getElementById(id);
const make = (tag, text, more) =>
  Object.assign(document.createElement(tag), text === undefined ? {} : {textContent: text}, more || {});
let models = [], shown = null, starting = false;
const token = () => $("token").value.trim();
const ask = (path, options) => {
  options = options || {};
  options.headers = Object.assign({}, options.headers, token() ? {Authorization: "Bearer " + token()} : {});
  return fetch(path, options);
};
const fail = text => { $("error").textContent = text; };
async function said(answer) {
  const text = await answer.text();
  let value;
  try { value = JSON.parse(text); } catch { throw new Error(answer.status + " " + text.slice(0, 300)); }
  if (!answer.ok) {
    if (answer.status === 401) $("access").hidden = false;
    throw new Error(value.error || String(answer.status));
  }
  return value;
}
function fields(model) {
  const place = $("fields");
  place.replaceChildren();
  shown = model;
  const alone = "takes arrays alone: POST /v2/models/" + model.model + "/infer";
  $("about").textContent = model.takes === null ? alone : "takes " + (model.about || model.takes);
  $("send").disabled = model.takes === null;
  if (model.takes === null) return;
  const sound = model.takes === "recording";
  if (model.content) {
    place.append(make("label", sound ? "Recording" : "File", {htmlFor: "file"}));
    const accept = sound ? "audio/*" : model.takes === "image" ? "image/*,.pdf" : "";
    const file = make("input", undefined, {type: "file", id: "file", required: true, accept});
    file.onchange = () => preview(file.files[0], sound);
    place.append(file, make("div", undefined, {id: "preview"}));
  } else if (model.columns.length) {
    const grid = make("div", undefined, {className: "columns"});
    for (const name of model.columns) {
      const cell = make("div");
      const id = "column-" + name;
      const box = make("input", undefined, {type: "text", id});
      box.dataset.column = name;
      cell.append(make("label", name, {htmlFor: id}), box);
      grid.append(cell);
    }
    place.append(grid);
  } else {
    place.append(make("label", model.takes[0].toUpperCase() + model.takes.slice(1), {htmlFor: "text"}));
    place.append(make("textarea", undefined, {id: "text", required: true}));
  }
  const number = (id, text, more) => place.append(
    make("label", text, {htmlFor: id}), make("input", undefined, Object.assign({type: "number", id}, more)));
  if (model.ranks) number("topk", "How many answers", {min: 1, placeholder: "as the model says"});
  if (model.least !== null) number("score", "Lowest score", {min: 0, max: 1, step: "any", placeholder: model.least});
}
function preview(file, sound) {
  const place = $("preview");
  place.replaceChildren();
  if (!file) return;
  const url = URL.createObjectURL(file);
  if (sound) place.append(make("audio", undefined, {controls: true, src: url}));
  else if (file.type.startsWith("image/"))
    place.append(make("img", undefined, {src: url, alt: file.name, style: "max-height:16rem"}));
}
async function submit(event) {
  event.preventDefault();
  if (!shown) return start();
  fail("");
  $("send").disabled = true;
  const query = new URLSearchParams({model: shown.model, draw: "1"});
  for (const name of ["topk", "score"]) if ($(name) && $(name).value) query.set(name, $(name).value);
  const began = performance.now();
  try {
    let body, kind = "application/json";
    if (shown.content) {
      body = $("file").files[0];
      kind = "application/octet-stream";
      query.set("name", body.name);
    } else {
      let item = shown.columns.length ? {} : $("text").value;
      for (const box of document.querySelectorAll("[data-column]"))
        if (box.value !== "") item[box.dataset.column] = box.value;
      body = JSON.stringify({inputs: [item]});
    }
    const answer = await ask("/predict?" + query, {method: "POST", body, headers: {"Content-Type": kind}});
    draw(await said(answer), performance.now() - began);
  } catch (error) { fail(error.message); }
  $("send").disabled = false;
}
function cell(name, value) {
  const td = make("td");
  if (typeof value === "number") {
    td.className = "number";
    if (/score|probability/.test(name) && value >= 0 && value <= 1)
      td.append(make("meter", undefined, {min: 0, max: 1, value}), " ");
    td.append(Number.isInteger(value) ? String(value) : value.toPrecision(4));
  } else td.textContent = typeof value === "string" ? value : JSON.stringify(value);
  return td;
}
function draw(answers, took) {
  const place = $("answers");
  place.replaceChildren(make("p", took.toFixed(0) + " ms, there and back", {className: "note"}));
  for (const answer of answers) {
    place.append(make("h2", answer.input, {style: "font-size:1.1rem"}));
    if (answer.error) { place.append(make("p", answer.error)); continue; }
    if (answer.drawing) {
      const src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(answer.drawing);
      place.append(make("img", undefined, {alt: "the answer, drawn", className: "drawing", src}));
    }
    const rows = answer.rows || [];
    if (rows.length) {
      const names = [...new Set(rows.flatMap(row => Object.keys(row)))];
      const table = make("table"), head = make("tr");
      for (const name of names) head.append(make("th", name));
      table.append(head);
      for (const row of rows) {
        const line = make("tr");
        for (const name of names) line.append(cell(name, row[name] === undefined ? "" : row[name]));
        table.append(line);
      }
      place.append(table);
    } else place.append(make("p", "nothing found"));
    const raw = make("details");
    const {drawing, rows: _, ...rest} = answer;
    raw.append(make("summary", "JSON"), make("pre", JSON.stringify(rest, null, 1)));
    place.append(raw);
  }
  place.hidden = false;
}
async function start() {
  if (starting || shown) return;
  starting = true;
  try {
    models = await said(await ask("/predict"));
    fail("");
    const choice = $("model");
    choice.replaceChildren();
    models.forEach((model, i) => choice.append(make("option", model.model, {value: i})));
    choice.onchange = () => fields(models[choice.value]);
    fields(models[0]);
    document.body.dataset.ready = "yes";
  } catch (error) { fail(error.message); }
  starting = false;
}
$("form").onsubmit = submit;
$("token").onchange = start;
start();
"""

_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_HASH}'; style-src 'unsafe-inline'; img-src data: blob:; "
    "media-src blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: the script above runs, and no other."""

PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>pdl serve</title><style>{_STYLE}</style></head>
<body>
<h1>Ask a model</h1>
<form id="form">
<div id="access" hidden><label for="token">Token</label><input type="password" id="token" autocomplete="off"></div>
<label for="model">Model</label><select id="model"></select>
<p id="about" class="note"></p>
<div id="fields"></div>
<button id="send">Ask</button>
<p id="error" role="alert"></p>
</form>
<section id="answers" aria-live="polite" hidden></section>
<p class="note">The same for programs: <code>POST /predict</code>, <code>/v2</code> (Open Inference Protocol),
<code>/metrics</code>.</p>
<script>{_SCRIPT}</script>
</body></html>
"""
