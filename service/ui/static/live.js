// One event stream for a page. When something changes, the page is read again, and elements that differ
// are replaced in place: focus, selection and scroll position stay. Lists announce their new rows.

import { pathOf } from "./request.js";

const MIN_INTERVAL_MS = 500, RETRY_MS = 2000;
const GONE = [401, 403, 404, 410];
const { dataset } = document.body;
// Elements in use, each with the element that replaces it later.
const waiting = new Map();
let timer = null, stream = null, took = 0, isSigningOut = false;

// Elements with the focus or a selection are not replaced.
function isInUse(element) {
  const selection = getSelection();
  return element.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(element, true));
}

function copy(from, to) {
  if (to.className !== from.className) to.className = from.className;
  waiting.delete(to);
  if (to.innerHTML === from.innerHTML) return;
  if (isInUse(to)) waiting.set(to, from);
  else to.innerHTML = from.innerHTML;
}

function settle() { for (const [to, from] of [...waiting]) copy(from, to); }
document.addEventListener("focusout", () => setTimeout(settle));
document.addEventListener("selectionchange", settle);

function copyRow(from, to) {
  if (to.cells.length !== from.cells.length) to.innerHTML = from.innerHTML;
  else [...to.cells].forEach((cell, i) => copy(from.cells[i], cell));
}

const rowsOf = element => new Map([...element.querySelectorAll("tr[data-key]")].map(row => [row.dataset.key, row]));

// Rows that are gone leave, new ones come, and all others stay the same elements.
function replaceRows(element, update) {
  const before = rowsOf(element), after = rowsOf(update);
  if (!before.size || !after.size) {
    if (element.innerHTML !== update.innerHTML && !isInUse(element)) element.innerHTML = update.innerHTML;
    return;
  }
  let next = before.values().next().value;
  const body = next.parentElement;
  for (const [key, row] of before) if (!after.has(key) && !isInUse(row)) { if (row === next) next = row.nextElementSibling; row.remove(); }
  for (const [key, row] of after) {
    if (before.has(key)) { copyRow(row, before.get(key)); next = before.get(key).nextElementSibling; }
    else body.insertBefore(document.importNode(row, true), next);
  }
}

// New rows are only counted, and rows that no longer belong to the list are dimmed.
function announce(element, update) {
  const before = rowsOf(element), after = rowsOf(update);
  const fresh = [...after.keys()].filter(key => !before.has(key)).length;
  const last = [...before.keys()].findLastIndex(key => after.has(key));
  [...before].forEach(([key, row], i) => {
    if (after.has(key)) copyRow(after.get(key), row);
    row.classList.toggle("is-gone", !after.has(key) && i < last);
  });
  const notice = document.getElementById("fresh");
  notice.hidden = !fresh;
  notice.querySelector("span").textContent = `${fresh} new`;
  notice.querySelector("button").onclick = () => {
    notice.hidden = true;
    element.tabIndex = -1;
    element.focus();
    element.innerHTML = update.innerHTML;
  };
}

function notify(text) {
  const notice = document.getElementById("connection");
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = !text;
}

async function refresh() {
  timer = null;
  const start = performance.now();
  const response = await fetch(location.href).catch(() => null);
  // the session has ended, or the resource of the page has been deleted
  if (response?.redirected || GONE.includes(response?.status)) {
    if (!isSigningOut) location.reload();
    return;
  }
  if (!response?.ok) {
    notify("The service does not respond. The page shows its last state until the service responds again.");
    timer ??= setTimeout(refresh, RETRY_MS);
    return;
  }
  notify("");
  if (stream?.readyState === EventSource.CLOSED) open();
  const read = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!read.body.dataset.live) {
    stream?.close();
    delete dataset.live;
    if (dataset.reload) { location.reload(); return; }
  }
  for (const element of document.querySelectorAll("[data-rows]")) {
    const update = read.querySelector(`[data-rows="${element.dataset.rows}"]`);
    if (update) (element.hasAttribute("data-announce") ? announce : replaceRows)(element, update);
  }
  const fresh = new Map([...read.querySelectorAll("[data-key]")].map(e => [e.dataset.key, e]));
  for (const element of document.querySelectorAll("[data-key]:not(tr)")) {
    const update = fresh.get(element.dataset.key);
    if (update && !element.querySelector("[data-key]")) copy(update, element);
  }
  took = performance.now() - start;
  if (!dataset.live) lead();
}

// The end of a job leads to its result, unless the reader is somewhere else on the page.
function lead() {
  const isFree = [document.body, document.getElementById("main")].includes(document.activeElement);
  if (isFree) document.querySelector("[data-focus] a")?.focus();
}

function plan() { timer ??= setTimeout(refresh, Math.max(MIN_INTERVAL_MS, 3 * took)); }

// A hidden page has no stream: browsers have few connections for each host.
function open() {
  if (!dataset.live || document.hidden) return;
  stream = new EventSource(pathOf(dataset.live));
  for (const kind of ["start", ...dataset.events.split(" ")]) stream.addEventListener(kind, plan);
  stream.addEventListener("error", plan);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stream?.close();
  else if (dataset.live) { open(); plan(); }
});
// The session ends before the browser has the answer, and reading the page again would take its place.
document.querySelector("form[action$='/logout']")?.addEventListener("submit", () => { isSigningOut = true; });
open();
// changes of a job between the reading of the page and the opening of the stream
if (dataset.live && document.querySelector(".state.queued, .state.submitted, .state.running, .state.waiting, .state.uploaded, .state.ingesting")) plan();
