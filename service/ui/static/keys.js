// A new API key is created and shown once.
import { hold, request, send, show } from "./request.js";

const form = document.getElementById("key"), error = document.getElementById("key-error");
const shown = document.getElementById("new-key"), text = document.getElementById("new-key-text");

// the browser asks for a scope, as it does for other required fields
const scopes = form?.querySelectorAll("[name=scopes]") ?? [];
function check() { scopes[0]?.setCustomValidity([...scopes].some(box => box.checked) ? "" : "Choose at least one scope."); }
form?.addEventListener("change", ({ target }) => {
  const preset = document.getElementById("key-preset");
  if (target === preset && preset.value) for (const box of scopes) box.checked = preset.value.split(" ").includes(box.value);
  else if (target.name === "scopes" && preset) preset.value = "";
  check();
});
check();

form?.addEventListener("submit", async event => {
  event.preventDefault();
  const data = new FormData(form);
  const json = { name: data.get("name"), owner: data.get("owner") || null, scopes: data.getAll("scopes"), days: data.get("days") ? Number(data.get("days")) : null };
  error.hidden = true;
  await hold(form.querySelector("button"), async () => {
    try {
      const { body } = await send("POST", "/v1/keys", { json });
      text.textContent = body.key;
      shown.hidden = false;
      shown.focus();
      form.reset();
      check();
      await list();
    } catch (failure) { show(error, failure); }
  });
});

// Replaces the list by one with the new key; the secret stays on the page.
async function list() {
  const page = new DOMParser().parseFromString(await (await request(`/keys${location.search}`)).text(), "text/html");
  document.getElementById("keys").replaceWith(page.getElementById("keys"));
}

document.getElementById("copy-key")?.addEventListener("click", async event => {
  const range = document.createRange();
  range.selectNodeContents(text);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  await navigator.clipboard?.writeText(text.textContent);
  event.target.textContent = navigator.clipboard ? "Copied" : "Selected";
});
