// The page of a monitor: start to watch, send files with true values, and renew the model.
import { dropInto, hold, send, show, typeOf } from "./request.js";

async function attempt(event, change) {
  event.preventDefault();
  const form = event.target, error = form.querySelector(".error");
  error.hidden = true;
  await hold(form.querySelector("button"), () => change(form).catch(failure => show(error, named(failure, form))));
}

// A failure whose place is the label of a field, not a path in the request.
function named(failure, form) {
  const [first] = failure.body?.errors ?? [], label = form.elements[first?.pointer?.slice(1)]?.labels[0].textContent;
  return label ? new Error(`${label}: ${first.detail}.`) : failure;
}

document.getElementById("monitor")?.addEventListener("submit", event => attempt(event, async form => {
  if (form.dataset.version) await send("PUT", form.dataset.path.replace(/\/monitor$/, ""), { json: { version: Number(form.dataset.version) } });
  const lines = form.querySelector("#never").value.split("\n").map(line => line.trim());
  await send("PUT", form.dataset.path, { json: {
    share: Number(form.querySelector("#share").value) / 100,
    days: Number(form.querySelector("#days").value),
    never_keep: lines.filter(Boolean),
  } });
  location.reload();
}));

document.getElementById("renewal-rule")?.addEventListener("submit", event => attempt(event, async form => {
  const number = name => form.elements[name].value === "" ? null : Number(form.elements[name].value);
  if (!["rows", "alarm_days", "cron"].some(name => form.elements[name].value.trim())) throw new Error("Fill in at least one of the first three fields, which say when to train.");
  await send("PUT", form.dataset.path, { json: {
    ...JSON.parse(form.dataset.rule),  // what the page does not show stays
    rows: number("rows"),
    alarm_days: number("alarm_days"),
    cron: form.elements.cron.value.trim() || null,
    promote: form.elements.promote.value,
  } });
  location.reload();
}));

// Puts new content in the place of old; what was unfolded stays so.
function replace(old, next) {
  const were = old.querySelectorAll("details");
  next.querySelectorAll("details").forEach((details, i) => { details.open = were[i]?.open ?? false; });
  old.replaceWith(next);
}

const feedback = document.getElementById("feedback");
const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

// What became of the rows of a file, in words: how many were taken, which were not, and why.
function said(file, body, { target, one }) {
  const unknown = Object.entries(body.unknown_tasks), refused = unknown.reduce((sum, [, n]) => sum + n, 0);
  const left = [
    [body.n_empty, `without ${target}`],
    [refused, `of a ${one} that the model does not know (${unknown.map(([name]) => name).join(", ")})`],
    [body.n_not_kept, "outside of the share that is kept"],
  ].filter(([n]) => n).map(([n, why]) => `${count(n, "row")} ${why}`);
  const texts = [`${file.name}: ${count(body.n_new + body.n_corrected + body.n_repeated, "row")} taken: ${body.n_new} new, ${body.n_corrected} corrected, ${body.n_repeated} known before.`];
  if (left.length) texts.push(`Not taken: ${left.join("; ")}.`);
  const labels = Object.entries(body.unknown_labels).map(([label, n]) => `${label} (${count(n, "row")})`);
  if (labels.length) texts.push(`No class of the model, so they count as wrong: ${labels.join(", ")}.`);
  if (body.n_unknown) texts.push(`Of ${count(body.n_unknown, "id")} no row is kept, such as ${body.unknown.slice(0, 3).join(", ")}: they count once a row with this id is predicted. Or choose a file with the other columns, too.`);
  return texts.join(" ");
}

feedback?.addEventListener("change", async () => {
  const input = feedback.elements.file, failed = feedback.querySelector(".error"), answer = document.getElementById("feedback-answer");
  if (!input.files.length) return;
  const [file] = input.files;
  failed.hidden = true;
  answer.textContent = `Predicting the rows of ${file.name}.`;
  try {
    const { body } = await send("POST", feedback.dataset.path, { body: file, headers: { "Content-Type": typeOf(file, JSON.parse(feedback.dataset.types)) } });
    answer.textContent = said(file, body, feedback.dataset);
    const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
    for (const id of ["headline", "lead", "report", "numbers"]) replace(document.getElementById(id), page.getElementById(id));
    const link = document.createElement("a");  // the form is below what has changed
    Object.assign(link, { href: "#headline", textContent: document.getElementById("headline").textContent });
    answer.append(" ", link);
  } catch (failure) { answer.textContent = ""; show(failed, failure); }
  input.value = "";  // the same file can be chosen again
});
if (feedback) dropInto(feedback.elements.file, document.getElementById("drop"));
