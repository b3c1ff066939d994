// Rows that were written, taken from the dataset or chosen as a file are sent to the model.
import { hold, request as fetched, send, show } from "./request.js";

const form = document.getElementById("try"), answer = document.getElementById("try-answer"), error = document.getElementById("try-error");
const [method, task, rows, file, take, more, fresh, note, unknown] = ["method", "task", "rows", "file", "take", "more", "new", "note", "unknown"].map(name => document.getElementById(`try-${name}`));
const CSV = "text/csv", PARQUET = "application/vnd.apache.parquet";
const MAX_SHOWN = 100, N_TAKEN = 5, MAX_READ_BYTES = 65536, N_HEADER_LINES = 3;

function isParquet(data) { return data?.name.toLowerCase().endsWith(".parquet"); }

function request(accept) {
  const [data] = file.files;
  const type = isParquet(data) ? PARQUET : CSV;
  const query = new URLSearchParams({ new_tasks: fresh.checked ? "common" : "refuse", ...(task.value && { task: task.value }) });
  const path = `${form.dataset.path}/${method.value.replaceAll("_", "-")}?${query}`;
  const headers = { "Content-Type": type, ...(accept && { Accept: accept }) };
  return [path, { body: data ?? `${rows.value}\n`, headers }];
}

function cell(value) {
  const text = `${value ?? ""}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Either rows or a file: choosing a file empties the rows, and writing rows drops the file.
function settle() { rows.required = !file.files.length; if (file.files.length) rows.value = ""; }
file.addEventListener("change", async () => {
  settle();
  const [data] = file.files;
  if (!data) return;
  // Parquet has the names of its columns at the end
  const has = isParquet(data) ? (await data.slice(-MAX_READ_BYTES).text()).includes(form.dataset.taskColumn) : divides(decode(await data.slice(0, MAX_READ_BYTES).arrayBuffer()));
  if (has) task.value = "";
});
rows.addEventListener("input", () => { file.value = ""; settle(); if (divides(rows.value)) task.value = ""; });

// Decodes CSV in the encodings that the service detects.
function decode(bytes) {
  const [first, second] = new Uint8Array(bytes);
  if (first + second === 0x1FD) return new TextDecoder(first === 0xFF ? "utf-16le" : "utf-16be").decode(bytes);
  try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true }); }
  catch { return new TextDecoder("windows-1252").decode(bytes); }
}

// Whether the header of CSV has a column for the task: such rows need no other choice of it.
function divides(text) {
  const header = text.split("\n", N_HEADER_LINES).join("\n").normalize("NFC");
  return [form.dataset.taskColumn, "task"].some(name => {
    const literal = name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
    return new RegExp(`(^|[,;\\t|])[\\s"]*${literal}[\\s"]*($|[,;\\t|])`, "m").test(header);
  });
}

async function attempt(button, act) {
  error.hidden = true;
  await hold(button, () => act().catch(failure => show(error, failure)));
}

take?.addEventListener("click", () => attempt(take, async () => {
  task.value ||= task.options[0].value;
  const { body } = await send("GET", `/v1/datasets/${take.dataset.dataset}/preview?rows=${N_TAKEN}&task=${encodeURIComponent(task.value)}`);
  const [preview] = body.tasks;
  const names = preview.columns.map(column => column.name);
  if (preview.n_features > names.length) throw new Error("The rows are too wide to be shown here; choose a file.");
  const lines = preview.rows.map(row => names.map(name => cell(row[name])).join(","));
  if (names.some((name, i) => name !== `${i}`)) lines.unshift(names.map(cell).join(","));
  file.value = "";
  rows.value = lines.join("\n");
  settle();
}));

async function save() {
  const response = await fetched(request()[0], { method: "POST", ...request(CSV)[1] });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = `${method.value}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

function offerAll(count) {
  more.replaceChildren();
  more.hidden = count <= MAX_SHOWN;
  if (more.hidden) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `Save all ${count.toLocaleString("en")} rows as CSV`;
  button.addEventListener("click", () => attempt(button, save));
  more.append(`The first ${MAX_SHOWN} are shown. `, button);
}

// Says which values of categories the training rows do not have.
function showUnknown(header) {
  unknown.hidden = header === null;
  if (unknown.hidden) return;
  const columns = Object.entries(JSON.parse(header)).map(([column, values]) => `${column}: ${values.join(", ")}`);
  unknown.textContent = `Not in the training rows, so answered without them: ${columns.join("; ")}.`;
}

form.addEventListener("submit", async event => {
  event.preventDefault();
  answer.hidden = more.hidden = note.hidden = unknown.hidden = true;
  await attempt(form.querySelector("button.primary"), async () => {
    const [path, options] = request();
    const { body: { outputs, new_tasks: newTasks = [] }, response } = await send("POST", path, options);
    note.hidden = !newTasks.length;
    note.textContent = `Answered by what its groups have in common, because it was not trained on them: ${newTasks.join(", ")}`;
    answer.textContent = outputs.slice(0, MAX_SHOWN).map(output => JSON.stringify(output)).join("\n");
    answer.hidden = false;
    showUnknown(response.headers.get("Sibling-Unknown-Categories"));
    offerAll(outputs.length);
  });
});
