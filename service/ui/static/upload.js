// A file is sent with its options; progress while it is sent, and all that is wrong with it.
import { hold, send, show } from "./request.js";
import { upload } from "./tus.js";

const form = document.getElementById("upload"), file = document.getElementById("file"), drop = document.getElementById("drop");
const status = document.getElementById("status"), sent = document.getElementById("sent"), errors = document.getElementById("errors");
const LISTS = ["target_column", "ignore_column", "column_kind", "missing_marker"];
const RESUMABLE_BYTES = 4 * 2 ** 20;
const TYPES = JSON.parse(form.dataset.types);

function chosen() {
  const name = form.elements.namedItem("name");
  if (file.files.length && !name.value) name.value = file.files[0].name.replace(/\.[^.]*$/, "");
}
file.addEventListener("change", chosen);
for (const kind of ["dragover", "dragleave", "drop"]) drop.addEventListener(kind, event => {
  event.preventDefault();
  drop.classList.toggle("over", kind === "dragover");
  if (kind === "drop" && event.dataTransfer.files.length) { file.files = event.dataTransfer.files; chosen(); }
});

function query() {
  const found = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (typeof value !== "string" || !value) continue;
    const values = LISTS.includes(name) ? value.split(",") : [value];
    for (const one of values) if (name === "delimiter" || one.trim()) found.append(name, name === "delimiter" ? one : one.trim());
  }
  return found;
}

function typeOf(data) {
  const ending = Object.keys(TYPES).find(one => data.name.toLowerCase().endsWith(one));
  return TYPES[ending] ?? (data.type || "text/csv");
}

// A small file is sent at once, so that all that is wrong with it comes with the response.
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
    try { location.assign(`/datasets/${await put(file.files[0])}`); } catch (error) {
      show(errors, error);
      status.textContent = "No dataset was stored.";
      sent.hidden = true;
    }
  });
});
