// The rows of a file come back with their predictions; a row that is typed has its own answer.
import { dropInto, hold, request, send, show, typeOf, untilRead } from "./request.js";

const $ = id => document.getElementById(id);
const page = $("predict"), file = $("file"), drop = $("drop"), error = $("error"), level = $("level"), task = $("task");
const { path, taskColumn, target, shown, one, many } = page.dataset, TYPES = JSON.parse(page.dataset.types);
const PREDICTED = ["prediction", "low", "high", "probability", "set", "remarks"];

dropInto(file, drop);
for (const field of [file, level, task]) field?.addEventListener("change", predict);

function query(more) {
  return new URLSearchParams({ new_tasks: "common", ...level && { level: level.value }, ...more });
}

function call(accept, more = {}) {
  const [data] = file.files, headers = { "Content-Type": typeOf(data, TYPES), Accept: accept };
  return request(`${path}/predictions?${query({ ...more, ...task.value && { task: task.value } })}`, { method: "POST", body: data, headers });
}

let newest = 0;
async function predict() {
  if (!file.files.length) return;
  const number = ++newest;
  error.hidden = true;
  $("lead").textContent = `Predicting the rows of ${file.files[0].name}.`;
  try {
    const found = await (await call("application/json", { rows: shown })).json();
    if (number === newest) draw(found);
  } catch (failure) {
    if (number !== newest) return;
    for (const id of ["result", "downloads", "unknown"]) $(id).hidden = true;
    $("lead").textContent = "Nothing was predicted.";
    offer(failure.body?.code === "unknown-task" ? `a new ${one}` : "");
    show(error, failure);
  }
}

const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

function draw(found) {
  const nNew = Object.values(found.new_tasks).reduce((sum, n) => sum + n, 0), names = Object.keys(found.new_tasks);
  $("heading").textContent = `${count(found.n_rows, "row")} predicted`;
  const source = task.value ? `All rows are taken for ${task.value}.` : `The ${one} of each row was taken from its column ${found.task_column}.`;
  const common = nNew ? ` ${count(found.n_rows - nNew, "row")} belong to known ${many}; ${count(nNew, "row")} of ${quoted(names)} got the common prediction.` : "";
  $("lead").textContent = source + common;
  warn(found, names);
  table(found);
  drop.classList.add("small");
  $("result").hidden = $("downloads").hidden = false;
}

function quoted(names) { return names.slice(0, 5).map(name => `“${name}”`).join(", ") + (names.length > 5 ? ` and ${names.length - 5} more` : ""); }

function warn({ unknown_categories: unknown, missing_columns: missing, far_values: far }, names) {
  const lines = missing.length ? [line(`The file has no ${quoted(missing)}, which counts as not known in all rows; the predictions are less exact.`)] : [];
  for (const [column, [low, high]] of Object.entries(far)) lines.push(line(`${column}: some values are far outside ${number(low)} to ${number(high)}, the range in the training data. Predictions for these rows are a guess.`));
  lines.push(...Object.entries(unknown).map(([column, values]) => line(`${column}: ${quoted(values)} was never seen in training and counts as unknown.`)));
  if (names.length) lines.push(line(`${quoted(names)} ${names.length === 1 ? "was" : "were"} not in the training data.`));
  offer(names.length ? quoted(names) : "");
  $("unknown").replaceChildren(...lines);
  $("unknown").hidden = !lines.length;
}

// Rows that are added can be predicted by any method, even one without a common prediction.
function offer(groups) {
  if (!$("add")) return;
  $("add").hidden = !groups;
  $("add-title").textContent = `Add ${groups} to the model`;
}

function line(text) {
  const paragraph = document.createElement("p");
  paragraph.textContent = text;
  return paragraph;
}

// What is predicted stands right behind the group, so that it is seen on a phone, too.
function table(found) {
  const at = Object.fromEntries(found.columns.slice(found.n_given).map((_, i) => [found.columns[found.n_given + i], found.n_given + i]));
  const place = name => at[name] ?? Object.entries(at).find(([column]) => column.replace(/_+$/, "") === name)?.[1];
  const has = name => place(name) !== undefined;
  const percent = `${Math.round(100 * (found.level ?? 0))} %`;
  const values = ["prediction", "low", "high"].filter(has).flatMap(name => found.rows.map(row => row[place(name)])), decimals = decimalsOf(values);
  const columns = [["row", (_, i) => i + 1, true], [found.columns[0], row => row[0]], [target, row => number(row[place("prediction")], decimals), typeof found.rows[0]?.[place("prediction")] === "number", true]];
  if (has("low")) columns.push([`${percent} interval`, row => interval(row[place("low")], row[place("high")], decimals)]);
  if (has("probability")) columns.push(["probability of the prediction", row => share(row[place("probability")]), true]);
  if (has("set")) columns.push([`classes that hold for ${percent}`, row => row[place("set")] ?? "not known"]);
  columns.push(["note", row => row[place("remarks")]]);
  for (let j = 1; j < found.n_given; j++) columns.push([found.columns[j], row => row[j] ?? "–", typeof found.rows[0]?.[j] === "number"]);
  const head = document.createElement("tr");
  head.append(...columns.map(([name, , isNumber]) => cell("th", name, isNumber)));
  $("rows").tHead.replaceChildren(head);
  $("rows").tBodies[0].replaceChildren(...found.rows.map((row, i) => {
    const tr = document.createElement("tr");
    tr.append(...columns.map(([, value, isNumber, isStrong]) => cell("td", value(row, i), isNumber, isStrong)));
    return tr;
  }));
  for (const bound of ["short", "tall"]) $("rows").parentElement.classList.toggle(bound, found.rows.length > 30);
  $("shown").textContent = found.rows.length < found.n_rows ? `The first ${found.rows.length} of ${count(found.n_rows, "row")}; the downloads have all.` : "";
}

function cell(tag, text, isNumber, isStrong) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (tag === "th") element.scope = "col";
  if (isNumber) element.className = "is-number";
  if (isStrong) element.classList.add("is-strong");
  return element;
}

// The decimals that give the largest of some numbers three digits.
function decimalsOf(values) {
  const largest = Math.max(0, ...values.filter(value => typeof value === "number").map(Math.abs));
  return largest ? Math.min(12, Math.max(0, 2 - Math.floor(Math.log10(largest)))) : 0;
}

function number(value, decimals = decimalsOf([value])) { return typeof value === "number" ? value.toFixed(decimals) : value ?? "–"; }
function interval(low, high, decimals = decimalsOf([low, high])) { return low === null || high === null ? "not known" : `${number(low, decimals)} to ${number(high, decimals)}`; }
function share(value) { return value === null ? "–" : value > 0.995 && value < 1 ? "> 99 %" : value > 0 && value < 0.005 ? "< 1 %" : `${Math.round(100 * value)} %`; }

$("downloads").addEventListener("click", async ({ target: button }) => {
  if (!button.dataset.type) return;
  error.hidden = true;
  await hold(button, async () => {
    try {
      const response = await call(button.dataset.type), link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = response.headers.get("Content-Disposition").match(/filename="([^"]*)"/)[1];
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (failure) { show(error, failure); }
  });
});

// Rows of new groups become data of their own, by which the model is adapted.
$("add-button")?.addEventListener("click", ({ target: button }) => {
  const [data] = $("add-file").files, failed = $("add-error"), { query: reading, model, version, algorithm } = $("add").dataset;
  failed.hidden = true;
  if (!data) return $("add-file").click();
  hold(button, async () => {
    try {
      const name = new URLSearchParams({ name: data.name.replace(/\.[^.]*$/, "").slice(0, 200) || "rows" });
      const { body: { id } } = await send("POST", `/v1/datasets?${reading}&${name}`, { body: data, headers: { "Content-Type": typeOf(data, TYPES) } });
      if (!await untilRead(id)) return `/datasets/${id}`; // says why
      const { body: job } = await send("POST", "/v1/jobs", { json: { dataset_id: id, algorithm, model, adapt: { model, version: Number(version) } } });
      return `/jobs/${job.id}`;
    } catch (failure) { show(failed, failure); }
  });
});

function record() {
  const row = { [taskColumn]: $("row-task").value };
  for (const field of document.querySelectorAll("#row [data-column]")) {
    row[field.dataset.column] = field.value === "" ? null : field.dataset.kind === "number" ? field.valueAsNumber : ["true", "false"].includes(field.value) ? field.value === "true" : field.value;
  }
  return row;
}

$("row")?.addEventListener("submit", event => {
  event.preventDefault();
  const answer = $("row-answer"), failed = $("row-error");
  failed.hidden = true;
  hold(event.target.querySelector("button"), async () => {
    try {
      const { body } = await send("POST", `${path}/predictions?${query({})}`, { json: { inputs: [record()] } });
      const found = Object.fromEntries(PREDICTED.map(name => [name, body.rows[0][body.columns.indexOf(name)]]));
      const parts = [`${target}: ${number(found.prediction)}`];
      if (found.low !== undefined) parts.push(`${Math.round(100 * body.level)} % interval ${interval(found.low, found.high)}`);
      if (found.probability !== undefined) parts.push(`probability of the prediction ${share(found.probability)}`);
      if (found.set !== undefined) parts.push(`classes that hold for ${Math.round(100 * body.level)} %: ${found.set ?? "not known"}`);
      answer.textContent = [...parts, found.remarks].filter(Boolean).join(", ");
    } catch (failure) { answer.textContent = ""; show(failed, failure); }
  });
});
