// The columns of a file that was looked at: what each is for, as a sentence and as a table, both of
// which change it. A column is known by its name.
const $ = id => document.getElementById(id);
const form = $("upload"), task = form.elements.task_column, target = form.elements.target_column, dialog = $("column");
const [role, kind] = ["role", "column_kind"].map(name => dialog.querySelector(`[name="${name}"]`));
const ONE = ["task_column", "group_column", "weight_column"];
let found = null, open = null;

export function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const named = name => found.columns.find(column => column.name === name);
const having = wanted => found.columns.filter(column => column.role === wanted);
const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

// Takes what the service has found; roles and kinds that were chosen before are kept.
export function setFound(inspection) {
  const before = found?.columns.map(column => column.name).join("\0") === inspection.columns.map(column => column.name).join("\0") ? found : null;
  found = inspection;
  for (const [i, column] of found.columns.entries()) {
    const isProposed = { [found.task_column]: "task_column", [found.target_column]: "target_column" };
    column.role = before?.columns[i].role ?? isProposed[column.name] ?? (column.is_id || column.kind === null ? "ignore_column" : "feature");
    column.declared = before?.columns[i].declared ?? "";
  }
  $("sentence").hidden = !found.columns.length;
  $("tasks").replaceChildren(...found.tasks.slice(0, 20).map(one => make("li", `${one.name}: ${count(one.n_samples, "row")}, ${count(one.n_features, "column")}, ${one.target === "none" ? "nothing to predict" : `${one.target} to predict`}`)));
  draw();
}

// The options of the upload that the roles and kinds are.
export function options() {
  const pairs = [];
  for (const column of found?.columns ?? []) {
    if (column.role !== "feature" && !(column.role === "ignore_column" && column.kind === null && !column.reason)) pairs.push([column.role, column.name]);
    if (column.declared && column.role !== "ignore_column") pairs.push(["column_kind", `${column.name}:${column.declared}`]);
  }
  return pairs;
}

export function kinds() { return options().filter(([name]) => name === "column_kind"); }

// Whether something is there to predict; files of arrays have their targets by name.
export function hasTarget() { return having("target_column").length > 0 || (found?.tasks ?? []).some(one => one.target !== "none"); }

function setRole(column, wanted) {
  const hasGroups = having("task_column").length > 0 || wanted === "task_column";
  const isAlone = ONE.includes(wanted) || (wanted === "target_column" && hasGroups);
  for (const other of isAlone ? having(wanted) : []) other.role = other.kind === null ? "ignore_column" : "feature";
  if (wanted === "task_column") for (const other of having("target_column").slice(1)) other.role = "feature";
  column.role = wanted;
}

function pick(select, wanted) {
  select.addEventListener("change", () => {
    for (const column of having(wanted)) column.role = column.kind === null ? "ignore_column" : "feature";
    if (select.value) setRole(named(select.value), wanted);
    draw();
  });
}
pick(task, "task_column");
pick(target, "target_column");

function draw() {
  drawSentence();
  drawAdvice();
  drawTable();
  form.dispatchEvent(new Event("roles"));
}

function drawSentence() {
  const [group] = having("task_column"), targets = having("target_column");
  $("size").textContent = `${count(found.n_samples, "row")}.`;
  const names = [...new Set([...found.task_columns, ...(group ? [group.name] : [])])];
  const mustDivide = names.includes("task"); // the service takes this name for the groups in any case
  task.replaceChildren(...names.map(name => make("option", name, { value: name })), ...mustDivide ? [] : [make("option", "(no column: one group)", { value: "" })]);
  task.value = group?.name ?? "";
  const choices = found.columns.filter(column => column.role !== "task_column").map(({ name }) => make("option", name, { value: name }));
  const several = make("option", targets.length > 1 ? count(targets.length, "column") : "(nothing)", { value: "" });
  target.replaceChildren(...targets.length === 1 ? [] : [several], ...choices);
  target.value = targets.length === 1 ? targets[0].name : "";
  const beyond = found.n_columns - found.columns.length;
  $("features").textContent = count(having("feature").length + beyond, "other column");
}

function drawAdvice() {
  const [group] = having("task_column"), advice = $("advice");
  advice.classList.toggle("warning", !group && having("target_column").length < 2);
  if (group?.groups) {
    const { n, smallest, largest } = group.groups, size = smallest === largest ? count(smallest, "row") : `${smallest} to ${count(largest, "row")}`;
    advice.textContent = `${group.name} has ${count(n, "different value")}, with ${size} each. Each ${group.name} that is learned alone has only its own rows to learn from; together they may help each other.${having("target_column").map(column => share(column, group)).join("")}`;
  } else if (group) {
    advice.textContent = `Some rows have no value of ${group.name}, or a different one each, so that it does not say which belong together. Choose another column, or fill in the values.`;
  } else if (having("target_column").length > 1) {
    advice.textContent = "Each of the columns to predict is learned from the same rows; they may help each other.";
  } else {
    advice.textContent = "These rows form one group; then nothing can be learned together. If they come from several places, persons or machines, choose the column that says which above. If there is none, add it to the file and drop the file here again. A best model can be found in any case.";
  }
}

const TITLES = { task_column: "group", target_column: "predict", group_column: "kept together", weight_column: "weight" };
const KINDS = { number: "number", category: "category", boolean: "yes or no", date: "date" };

function label(column) {
  if (TITLES[column.role]) return TITLES[column.role];
  if (column.role === "ignore_column") return column.reason ? "cannot be read" : column.is_id ? "left out: numbers the rows" : column.kind === null && !column.n_distinct ? "left out: no values" : column.kind === null ? `left out: ${count(column.n_distinct, "different text")}` : "left out";
  const shown = KINDS[column.declared.slice(0, 4)] ?? KINDS[column.declared] ?? KINDS[column.kind] ?? column.declared;
  return column.kind === "category" && !column.declared ? `category · ${column.n_distinct}` : shown;
}

// How often the rarer of two values is, or "yes"; and for how many groups it never is, or always.
function share(column, { name, groups }) {
  const ends = { boolean: ["no", "yes"], category: column.values, number: [column.min, column.max] }[column.kind] ?? [], counts = [column.counts[0], column.counts.at(-1)];
  if (ends.length !== 2 || column.n_distinct !== 2) return "";
  const i = column.kind === "boolean" || counts[1] < counts[0] ? 1 : 0, percent = 100 * counts[i] / (counts[0] + counts[1]);
  const without = groups.without[column.name] ?? [0, 0], always = without[1 - i], never = without[i];
  const said = [`In ${percent < 1 ? "fewer than 1" : Math.round(percent)} % of the rows, ${column.name} is ${ends[i]}`];
  if (never) said.push(`for ${never} of the ${groups.n} values of ${name} it never is`);
  if (always) said.push(`for ${always} of the ${groups.n} values of ${name} it always is`);
  return ` ${said.join("; ")}.`;
}

function missing(column) { return column.missing ? ` · ${column.missing < 0.01 ? "< 1" : Math.round(100 * column.missing)} % missing` : ""; }

// Buttons stay while their labels change, so that the focus stays with them.
let drawn = null;
function drawTable() {
  if (drawn !== found) drawRows();
  drawn = found;
  for (const [i, column] of found.columns.entries()) {
    const chip = $("rows").tHead.rows[0].cells[i].querySelector(".chip");
    chip.textContent = label(column) + missing(column);
    chip.className = `chip ${column.role}`;
  }
}

function drawRows() {
  const head = make("tr", "");
  head.append(...found.columns.map(column => {
    const th = make("th", "", { scope: "col", class: side(column) }), button = make("button", "", { type: "button", "data-column": column.name });
    button.append(make("span", column.name), " ", make("span", "", { class: "chip" }));
    th.append(button);
    return th;
  }));
  $("rows").tHead.replaceChildren(head);
  $("rows").tBodies[0].replaceChildren(...found.rows.map(row => {
    const tr = make("tr", "");
    tr.append(...found.columns.map(column => make("td", cell(row[column.name]), { class: side(column) })));
    return tr;
  }));
  const columns = found.n_columns > found.columns.length ? ` The first ${found.columns.length} of ${found.n_columns} columns.` : "";
  $("shown").textContent = `First ${found.rows.length} of ${count(found.n_samples, "row")}${found.rows.length > 8 ? ", in a table that scrolls" : ""}.${columns} Press a column to change what it is.`;
}

function side(column) { return column.kind === "number" ? "is-number" : ""; }

function cell(value) {
  if (value === null) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return `${value}`.replace(/T00:00:00$/, "");
}

$("rows").addEventListener("click", ({ target: clicked }) => {
  const button = clicked.closest("[data-column]");
  if (button) ask(named(button.dataset.column));
});
$("features").addEventListener("click", () => $("rows").querySelector("[data-column]")?.focus());

function ask(column) {
  open = column;
  $("column-name").textContent = column.name;
  const range = column.min === null ? "" : `, from ${cell(column.min)} to ${cell(column.max)}`;
  $("column-facts").textContent = [`${count(column.n_distinct, "different value")}${range}${missing(column).replace(" ·", ",")}.`, column.reason ?? ""].join(" ");
  role.value = column.role;
  kind.value = column.declared;
  dialog.showModal();
}
role.addEventListener("change", () => { setRole(open, role.value); draw(); });
kind.addEventListener("change", () => {
  open.declared = kind.value;
  if (open.kind === null && kind.value && open.role === "ignore_column") { setRole(open, "feature"); role.value = "feature"; }
  draw();
});
