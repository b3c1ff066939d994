// A file is looked at as soon as it is chosen; a button stores it, and goes on to the best model.
import { findBest } from "./best.js";
import { takeDropped } from "./dropped.js";
import { hasTarget, kinds, options, setFound } from "./columns.js";
import { hold, send, show } from "./request.js";
import { upload } from "./tus.js";

const $ = id => document.getElementById(id);
const form = $("upload"), file = $("file"), drop = $("drop"), status = $("status"), sent = $("sent"), errors = $("errors");
const LISTS = ["missing_marker", "variables"], SIGNS = ["delimiter", "thousands"];
const RESUMABLE_BYTES = 4 * 2 ** 20;
const TYPES = JSON.parse(form.dataset.types);
// Options after which the file is looked at again.
const READING = ["delimiter", "decimal", "thousands", "encoding", "missing_marker", "sheet", "variables"];

// Beside the area, too: the browser would leave the page and open the file.
for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, event => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  drop.classList.toggle("over", kind === "dragover");
  if (kind === "drop") take(event.dataTransfer.files);
});

function take(files) {
  errors.hidden = true;
  if (files.length !== 1) return show(errors, new Error(`A dataset is one file, but you dropped ${files.length}. Drop one; datasets can be combined later.`));
  const held = new DataTransfer(); // a list of files that a field takes
  held.items.add(files[0]);
  file.files = held.files;
  chosen();
}

// The name follows the file until the user writes a name.
let nameOfFile = "";
function chosen() {
  if (!file.files.length) return;
  const field = form.querySelector("[name=name]");
  if (field.value === nameOfFile) field.value = nameOfFile = file.files[0].name.replace(/\.[^.]*$/, "");
  inspect();
}
file.addEventListener("change", chosen);
form.addEventListener("change", ({ target }) => { if (READING.includes(target.name) && file.files.length) inspect(); });

function reading(names) {
  const params = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (!names.includes(name) || typeof value !== "string" || !value) continue;
    const values = LISTS.includes(name) ? value.split(",") : [value];
    for (const part of values) if (SIGNS.includes(name) || part.trim()) params.append(name, SIGNS.includes(name) ? part : part.trim());
  }
  return params;
}

function query() {
  const params = reading([...READING, "name", "target_kind"]);
  for (const [name, value] of options()) params.append(name, value);
  return params;
}

function typeOf(data) {
  const ending = Object.keys(TYPES).find(suffix => data.name.toLowerCase().endsWith(suffix));
  if (!ending) throw new Error(`The name of the file must end in ${Object.keys(TYPES).join(", ")}. If ${data.name} is such a file, rename it.`);
  return TYPES[ending];
}

// Only the answer for the newest choice is shown.
let newest = 0;
async function inspect() {
  const [data] = file.files, number = ++newest;
  errors.hidden = true;
  status.textContent = `Reading ${data.name}.`;
  try {
    const params = reading(READING);
    const { body } = await send("POST", `/v1/datasets:inspect?${params}`, { body: data, headers: { "Content-Type": typeOf(data) } });
    if (number !== newest) return;
    $("found").hidden = false;
    drop.classList.add("small");
    $("heading").textContent = body.columns.length ? "What should be predicted?" : "Data of several groups";
    $("summary").textContent = [`${data.name}, ${size(data.size)}`, body.format.split(",")[0], ...body.notes].join(" · ");
    setFound(body);
    status.textContent = "";
  } catch (error) {
    if (number !== newest) return;
    $("found").hidden = true;
    status.textContent = "";
    $("options").open = error.body !== undefined;
    fail(error);
  }
}

function size(bytes) { return bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} KB` : `${(bytes / 1e6).toFixed(1)} MB`; }

form.addEventListener("roles", () => { const best = $("best"); if (best) best.disabled = !hasTarget(); });
$("change").addEventListener("click", () => {
  $("options").open = true;
  form.querySelector("[name=delimiter]").focus();
});

// Errors name options as programs do; they are fields of this page.
function fail(error) {
  show(errors, error);
  for (const field of [...form.elements].filter(one => one.name && one.labels?.length && new RegExp(`\\b${one.name}=`).test(errors.textContent))) {
    for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    const hint = document.createElement("p"), label = field.labels[0].firstChild.textContent.trim();
    hint.textContent = `${field.name} is “${label}” on this page.`;
    errors.append(hint);
  }
}

// A small file is sent at once, so that the response has all its errors.
async function put(data) {
  const type = typeOf(data);
  if (data.size > RESUMABLE_BYTES) return upload(data, type, `${query()}`, report);
  const { body } = await send("POST", `/v1/datasets?${query()}`, { body: data, headers: { "Content-Type": type } });
  return body.id;
}

function report(share, tries) {
  sent.value = share;
  status.textContent = tries ? "The connection broke; trying again." : `${Math.floor(100 * share)} % sent`;
}

function store(button, then) {
  errors.hidden = true;
  sent.hidden = false;
  sent.removeAttribute("value");
  status.textContent = "Sending the file.";
  return hold(button, async () => {
    let stored = false;
    try {
      const id = await put(file.files[0]);
      stored = true;
      return await then(id);
    } catch (error) {
      fail(error);
      status.textContent = stored ? "The data are stored." : "Nothing was stored.";
      sent.hidden = true;
    }
  });
}

form.addEventListener("submit", event => {
  event.preventDefault();
  const best = $("best");
  if (best && !best.disabled && !$("found").hidden) store(best, id => findBest(id, form.querySelector("[name=name]").value));
});
$("store").addEventListener("click", () => { if (form.reportValidity()) store($("store"), id => `/datasets/${id}`); });

const before = await takeDropped();
if (before) take(before);
