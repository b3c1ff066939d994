// Buttons that change something after a question, and the form that sets an alias.
import { ask, hold, send, show } from "./request.js";

const error = document.getElementById("action-error");

// The error stands right below what the button is in, where the eye is.
async function attempt(button, change) {
  error.hidden = true;
  (button.closest(".title, .filters, .scroll, section") ?? error.previousElementSibling)?.after(error);
  await hold(button, () => change().catch(failure => show(error, failure)));
}

// One listener, as live pages replace their buttons.
document.addEventListener("click", async event => {
  const button = event.target.closest("button[data-method]");
  if (!button || !await ask(button.dataset.question)) return;
  await attempt(button, async () => {
    const { method, path, body } = button.dataset;
    await send(method, path, body ? { json: JSON.parse(body) } : {});
    if (button.dataset.next) return button.dataset.next;
    if (!document.body.dataset.live) location.reload();
    else document.getElementById("main").focus({ preventScroll: true }); // the button will be another one
  });
});

document.getElementById("alias")?.addEventListener("submit", event => {
  event.preventDefault();
  const form = event.target;
  const alias = new FormData(form).get("alias");
  const { model, version } = form.dataset;
  const path = `/v1/models/${encodeURIComponent(model)}/aliases/${encodeURIComponent(alias)}`;
  attempt(form.querySelector("button"), async () => {
    const { body } = await send("GET", `/v1/models/${encodeURIComponent(model)}/aliases?page_size=200`);
    const before = body.items.find(item => item.alias === alias);
    const headers = {};
    if (before) {
      if (!await ask(`Move ${alias} from version ${before.version} to version ${version}?`)) return;
      headers["If-Match"] = (await send("GET", path)).response.headers.get("ETag");
    }
    await send("PUT", path, { json: { version: Number(version) }, headers });
    location.reload();
  });
});
