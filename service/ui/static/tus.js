// A file in parts, by the tus protocol 1.0.0: after an interruption, also of the browser, it goes on
// where it stopped. The address of an unfinished upload is remembered under its file and options.
import { Problem, pathOf } from "./request.js";

const PART_BYTES = 8 * 2 ** 20, MIN_WAIT_MS = 500, MAX_TRIES = 8;
const VERSION = { "Tus-Resumable": "1.0.0" };
const encode = text => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

export async function upload(file, type, query, onProgress) {
  const remembered = `upload ${file.name} ${file.size} ${file.lastModified} ${type} ${query}`;
  const create = async () => {
    const headers = { ...VERSION, "Upload-Length": file.size, "Upload-Metadata": `filetype ${encode(type)},tag ${encode(file.name.slice(0, 200))}` };
    const response = await checked(await fetch(pathOf(`/v1/uploads?${query}`), { method: "POST", headers }));
    localStorage.setItem(remembered, response.headers.get("Location"));
    return response.headers.get("Location");
  };
  let path = localStorage.getItem(remembered), offset = path === null ? null : await offsetOf(path);
  if (offset === null) { path = await create(); offset = 0; }
  let tries = 0;
  while (offset < file.size) {
    onProgress(offset / file.size, tries);
    try {
      offset = await send(path, file, offset, onProgress);
      tries = 0;
    } catch (error) {
      if (error instanceof Problem && error.body.status !== 409 && error.body.status < 500) { localStorage.removeItem(remembered); throw error; }
      if (++tries === MAX_TRIES) throw new Error("the connection broke; choose the same file again to go on where it stopped");
      onProgress(offset / file.size, tries);
      await sleep(MIN_WAIT_MS * 2 ** tries);
      offset = await offsetOf(path).catch(() => offset);
      if (offset === null) throw error;
    }
  }
  const { dataset_id: id } = await (await checked(await fetch(path))).json();
  localStorage.removeItem(remembered);
  return id;
}

async function checked(response) {
  if (!response.ok) throw new Problem(await response.json());
  return response;
}

// The number of bytes that have arrived; null if the upload no longer exists.
async function offsetOf(path) {
  const response = await fetch(path, { method: "HEAD", headers: VERSION });
  return response.ok ? Number(response.headers.get("Upload-Offset")) : null;
}

// XMLHttpRequest, since fetch does not say how much has been sent
function send(path, file, offset, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PATCH", path);
    const headers = { ...VERSION, "Upload-Offset": offset, "Content-Type": "application/offset+octet-stream" };
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", event => onProgress((offset + event.loaded) / file.size, 0));
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(Number(request.getResponseHeader("Upload-Offset")));
      else reject(new Problem(JSON.parse(request.responseText)));
    });
    request.addEventListener("error", () => reject(new Error("the connection broke")));
    request.send(file.slice(offset, offset + PART_BYTES));
  });
}
