// The page of a monitor: start to watch, send files with true values, and renew the model.
import { hold, send, show } from "./request.js";

const error = document.getElementById("action-error");

async function attempt(event, change) {
  event.preventDefault();
  error.hidden = true;
  const button = event.target.querySelector("button");
  await hold(button, () => change(event.target).catch(failure => show(error, failure)));
}

document.getElementById("monitor")?.addEventListener("submit", event => attempt(event, async form => {
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
  await send("PUT", form.dataset.path, { json: {
    ...JSON.parse(form.dataset.rule),  // what the page does not show stays
    rows: number("rows"),
    alarm_days: number("alarm_days"),
    cron: form.elements.cron.value.trim() || null,
    promote: form.elements.promote.value,
  } });
  location.reload();
}));

document.getElementById("feedback")?.addEventListener("submit", event => attempt(event, async form => {
  const file = form.elements.file.files[0], types = JSON.parse(form.dataset.types);
  const type = types[Object.keys(types).find(ending => file.name.toLowerCase().endsWith(ending))];
  const { body } = await send("POST", form.dataset.path, { body: file, headers: { "Content-Type": type } });
  const unknown = body.n_unknown ? ` ${body.n_unknown} ids have no row that is kept: ${body.unknown.join(", ")}.` : "";
  document.getElementById("feedback-answer").textContent =
    `${body.n_new} new, ${body.n_corrected} corrected, ${body.n_repeated} known before.${unknown}`;
}));
