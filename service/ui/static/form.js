// The form of a job becomes a specification; errors of the service are shown at their fields.
import { hold, pathOf, send, show } from "./request.js";

const form = document.getElementById("job");
const errors = document.getElementById("errors"), status = document.getElementById("status");

function valueOf(field, text = field.value) {
  if (field.dataset.kind === "text" || field.dataset.kind === "choice") return text;
  if (field.type === "number") return field.valueAsNumber; // fields take .5, which JSON does not
  const example = field.dataset.search ? "Separate values by commas, as in 0.1, 1, 10, or write a range, as in {\"low\": 0.1, \"high\": 10}." : "Write it as in JSON, such as 3, \"text\" or [1, 2].";
  try { return JSON.parse(text); } catch { throw at(field, `'${text}' is not a value. ${example}`); }
}

// Values at their JSON pointers; parts that are not chosen, and options with their defaults, are left out.
function specification() {
  const spec = { dataset_id: form.dataset.dataset, algorithm: form.dataset.algorithm, params: {} };
  for (const box of form.querySelectorAll("[data-group]:checked")) spec[box.dataset.group] = {};
  for (const field of form.querySelectorAll("[data-path]")) {
    const isDefault = field.closest("[data-default]")?.dataset.default === field.value;
    if (field.value.trim() === "" || isDefault || field.matches(":disabled")) continue;
    const names = field.dataset.path.slice(1).split("/"), last = names.pop();
    names.reduce((part, name) => (part[name] ??= {}), spec)[last] = valueOf(field);
  }
  for (const field of form.querySelectorAll("[data-search]:enabled")) {
    const text = field.value.trim();
    if (!text) continue;
    const values = text.startsWith("{") ? valueOf(field, text) : text.split(",").map(part => valueOf(field, part.trim()));
    (spec.search.space ??= {})[field.dataset.search] = values;
    delete spec.params[field.dataset.search];
  }
  if (spec.search && !spec.search.space) throw at(form.querySelector("[data-search]:enabled"), "A search needs values of at least one parameter.");
  return spec;
}

function at(field, message) { return Object.assign(new Error(message), { field }); }

form?.addEventListener("change", ({ target }) => {
  if (target.dataset.group) document.getElementById(`group-${target.dataset.group}`).disabled = !target.checked;
});

function mark(failure) {
  const places = failure.field ? [failure.field] : (failure.body?.errors ?? []).map(entry => form.querySelector(`[data-path="${CSS.escape(entry.pointer ?? "")}"]`));
  const [first] = places.filter(Boolean);
  for (const field of places.filter(Boolean)) field.setAttribute("aria-invalid", "true");
  for (let fold = first?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  first?.focus();
  show(errors, failure);
}

async function submit(query, then) {
  errors.hidden = true;
  status.replaceChildren();
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  try { return then((await send("POST", `/v1/jobs${query}`, { json: specification() })).body); } catch (failure) { mark(failure); }
}

form?.addEventListener("submit", event => {
  event.preventDefault();
  hold(form.querySelector("button.primary"), () => submit("", job => `/jobs/${job.id}`));
});
// The request that the form would send.
const program = document.getElementById("program");
function write() {
  if (!program?.open) return;
  let text;
  try { text = JSON.stringify(specification()); } catch (failure) { text = failure.message; }
  program.querySelector("code").textContent = `curl '${location.origin}${pathOf("/v1/jobs")}' ${program.dataset.headers} \\\n  --data '${text.replaceAll("'", "'\\''")}'`;
}
program?.addEventListener("toggle", write);
form?.addEventListener("input", write);
const check = document.getElementById("check");
function expected(seconds) {
  if (seconds === null) return [];
  const [unit, name] = [[3600, "h"], [60, "min"], [1, "s"]].find(([size]) => seconds >= 2 * size || size === 1);
  return [`It is expected to take about ${Math.max(1, Math.round(seconds / unit))} ${name}.`];
}
check?.addEventListener("click", () => form.reportValidity() && hold(check, () => submit("?validate_only=true", valid => {
  status.textContent = ["The job can be submitted.", ...expected(valid.expected_s), ...valid.warnings].join(" ");
})));
