// A file is sent with its options; the page shows the progress, and then the errors of the file.
import { hold, send, show } from "./request.js";
import { upload } from "./tus.js";

const form = document.getElementById("upload"), file = document.getElementById("file"), drop = document.getElementById("drop");
const status = document.getElementById("status"), sent = document.getElementById("sent"), errors = document.getElementById("errors");
const LISTS = ["target_column", "ignore_column", "column_kind", "missing_marker", "variables"];
const SIGNS = ["delimiter", "thousands"];
const RESUMABLE_BYTES = 4 * 2 ** 20;
const TYPES = JSON.parse(form.dataset.types);

// The name follows the file until the user writes a name.
let nameOfFile = "";
function chosen() {
  const name = form.elements.namedItem("name");
  if (!file.files.length || name.value !== nameOfFile) return;
  name.value = nameOfFile = file.files[0].name.replace(/\.[^.]*$/, "");
}
file.addEventListener("change", chosen);
// Beside the area, too: the browser would leave the page and open the file.
for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, event => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  drop.classList.toggle("over", kind === "dragover");
  if (kind === "drop") take(event.dataTransfer.files);
});

function take(files) {
  errors.hidden = true;
  if (files.length > 1) return show(errors, new Error(`A dataset is one file, but you dropped ${files.length}. Drop one; datasets can be combined later.`));
  file.files = files;
  chosen();
}

function query() {
  const params = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (typeof value !== "string" || !value) continue;
    const values = LISTS.includes(name) ? value.split(",") : [value];
    for (const part of values) if (SIGNS.includes(name) || part.trim()) params.append(name, SIGNS.includes(name) ? part : part.trim());
  }
  return params;
}

function typeOf(data) {
  const ending = Object.keys(TYPES).find(suffix => data.name.toLowerCase().endsWith(suffix));
  if (!ending) throw new Error(`The name of the file must end in ${Object.keys(TYPES).join(", ")}. If ${data.name} is such a file, rename it.`);
  return TYPES[ending];
}

// Errors name options as programs do; they are fields of this page.
function explain() {
  const fields = [...form.elements].filter(field => field.name && new RegExp(`\\b${field.name}=`).test(errors.textContent));
  for (const field of fields) {
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

form.addEventListener("submit", async event => {
  event.preventDefault();
  errors.hidden = true;
  sent.hidden = false;
  sent.removeAttribute("value");
  status.textContent = "Sending the file.";
  await hold(form.querySelector("button"), async () => {
    try { return `/datasets/${await put(file.files[0])}`; } catch (error) {
      show(errors, error);
      explain();
      status.textContent = "No dataset was stored.";
      sent.hidden = true;
    }
  });
});
