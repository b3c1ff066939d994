// Requests to the API, confirmation of actions, and error messages.

const SESSION_ENDED = 401, WAIT_S = 20;

// Where a proxy offers the service; this file is at /assets/VERSION/request.js below it.
const ROOT = new URL("../..", import.meta.url).pathname.slice(0, -1);

// A path of the service, as the browser asks for it.
export const pathOf = path => ROOT + path;

export class Problem extends Error {
  constructor(body) { super(body.detail); this.body = body; }
}

export async function send(method, path, { json, ...options } = {}) {
  const headers = { ...options.headers };
  if (json !== undefined) { headers["Content-Type"] = "application/json"; options.body = JSON.stringify(json); }
  const response = await request(path, { ...options, method, headers });
  return { body: response.status === 204 ? null : await response.json(), response };
}

// Returns a successful response, or throws an error.
export async function request(path, options) {
  let response;
  try { response = await fetch(pathOf(path), options); } catch { throw new Error("The service does not respond. Try again."); }
  if (response.ok) return response;
  const isProblem = response.headers.get("Content-Type")?.includes("json");
  throw new Problem(isProblem ? await response.json() : { detail: `The service responded with ${response.status}. Try again.` });
}

// A paragraph, in which backticks mark code.
function prose(text) {
  const paragraph = document.createElement("p");
  for (const [i, part] of text.split("`").entries()) {
    const node = document.createElement(i % 2 ? "code" : "span");
    node.textContent = part;
    paragraph.append(node);
  }
  return paragraph;
}

function signIn() {
  const paragraph = document.createElement("p"), link = document.createElement("a");
  link.href = pathOf(`/login?next=${encodeURIComponent(location.pathname.slice(ROOT.length) + location.search)}`);
  link.textContent = "Sign in";
  paragraph.append("Your session has ended. ", link, ".");
  return paragraph;
}

export function show(element, error) {
  const { status, code, detail, remedy, errors = [] } = error.body ?? { detail: error.message };
  const more = errors.map(entry => entry.detail).filter(text => !detail.includes(text));
  // the remedy of an invalid request tells programs how to read the response
  const texts = [detail, ...more, code === "invalid-request" ? "" : remedy];
  element.replaceChildren(...status === SESSION_ENDED ? [signIn()] : [...new Set(texts)].filter(Boolean).map(prose));
  element.hidden = false;
  element.scrollIntoView({ block: "nearest" });
}

// Runs an action of a button, which is disabled meanwhile; a disabled button loses the focus. The
// action may return the address of the next page: the button stays disabled until one comes back.
export async function hold(button, act) {
  const hadFocus = button === document.activeElement;
  button.disabled = true;
  let next;
  try { next = await act(); } finally { if (next === undefined) enable(button, hadFocus); }
  if (next === undefined) return;
  addEventListener("pageshow", () => enable(button, false), { once: true });
  location.assign(pathOf(next));
}

function enable(button, hadFocus) {
  button.disabled = false;
  if (hadFocus && document.activeElement === document.body) button.focus();
}

// Returns the media type of a file by how its name ends.
export function typeOf({ name }, types) {
  const ending = Object.keys(types).find(suffix => name.toLowerCase().endsWith(suffix));
  if (!ending) throw new Error(`The name of the file must end in ${Object.keys(types).join(", ")}. If ${name} is such a file, rename it.`);
  return types[ending];
}

// A file that is dropped anywhere on the page is that of the field.
export function dropInto(field, area) {
  for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, event => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    area.classList.toggle("over", kind === "dragover");
    if (kind !== "drop") return;
    field.files = event.dataTransfer.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

// Waits until an uploaded file is read; returns whether it can be trained on.
export async function untilRead(id) {
  for (;;) {
    const { body: { state } } = await send("GET", `/v1/datasets/${id}?wait=${WAIT_S}`);
    if (["ready", "rejected"].includes(state)) return state === "ready";
  }
}

// Resolves to whether the answer is yes; the focus returns to where it was.
export function ask(text) {
  const dialog = document.getElementById("question");
  document.getElementById("question-text").textContent = text;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise(resolve => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}
