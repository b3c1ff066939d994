// A new webhook is created, and its secret shown once; a test event is sent, and its outcome shown.
import { hold, send, show } from "./request.js";

const POLL_MS = 300, MAX_POLLS = 100;
const form = document.getElementById("webhook");

form?.addEventListener("submit", event => {
  event.preventDefault();
  const data = new FormData(form), types = data.getAll("types"), error = document.getElementById("webhook-error");
  const json = { url: data.get("url"), name: data.get("name") || null, types: types.length ? types : null };
  error.hidden = true;
  hold(form.querySelector("button"), async () => {
    try {
      const { body } = await send("POST", "/v1/webhooks", { json });
      document.getElementById("new-secret").textContent = body.secret;
      document.getElementById("new-href").pathname += `/${body.id}`;
      const notice = document.getElementById("new-webhook");
      notice.hidden = false;
      notice.focus();
      form.hidden = true;
    } catch (failure) { show(error, failure); }
  });
});

document.getElementById("test")?.addEventListener("click", ({ target }) => hold(target, async () => {
  try {
    const { path } = target.dataset, { body: { id } } = await send("POST", `${path}:test`);
    for (let i = 0; i < MAX_POLLS; i++) {
      const { body } = await send("GET", `${path}/deliveries/${id}`);
      if (body.state !== "pending") break;
      await new Promise(resolve => setTimeout(resolve, POLL_MS));
    }
    location.reload();
  } catch (failure) { show(document.getElementById("action-error"), failure); }
}));
