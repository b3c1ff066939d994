// Requests to the API, questions, and errors where they belong.

export class Problem extends Error {
  constructor(body) { super(body.detail); this.body = body; }
}

export async function send(method, path, { json, ...options } = {}) {
  const headers = { ...options.headers };
  if (json !== undefined) { headers["Content-Type"] = "application/json"; options.body = JSON.stringify(json); }
  const response = await fetch(path, { ...options, method, headers });
  const body = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Problem(body);
  return { body, response };
}

// A paragraph, in which backticks mark what a program has.
function prose(text) {
  const paragraph = document.createElement("p");
  for (const [i, part] of text.split("`").entries()) {
    const node = document.createElement(i % 2 ? "code" : "span");
    node.textContent = part;
    paragraph.append(node);
  }
  return paragraph;
}

export function show(element, error) {
  const { code, detail, remedy, errors = [] } = error.body ?? { detail: error.message };
  const more = errors.map(entry => entry.detail).filter(text => !detail.includes(text));
  // the remedy of an invalid request tells programs how to read the response
  const texts = [detail, ...more, code === "invalid-request" ? "" : remedy];
  element.replaceChildren(...[...new Set(texts)].filter(Boolean).map(prose));
  element.hidden = false;
  element.scrollIntoView({ block: "nearest" });
}

// Runs an action of a button, which is disabled meanwhile; a disabled button loses the focus.
export async function hold(button, act) {
  const hadFocus = button === document.activeElement;
  button.disabled = true;
  try { await act(); } finally {
    button.disabled = false;
    if (hadFocus && document.activeElement === document.body) button.focus();
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
