// A file that is dropped on any page is taken to the page for uploads, by way of a database of the
// browser, as a file cannot be part of an address.
const STORE = "dropped";

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("sibling", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function ask(mode, question) {
  const database = await opened();
  try {
    return await new Promise((resolve, reject) => {
      const request = question(database.transaction(STORE, mode).objectStore(STORE));
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  } finally { database.close(); }
}

// Returns the files that were dropped on the page before; they are taken once.
export async function takeDropped() {
  const files = await ask("readonly", store => store.get("files"));
  if (files) await ask("readwrite", store => store.delete("files"));
  return files;
}

const target = document.body.dataset.drop;
if (target) for (const kind of ["dragover", "drop"]) document.addEventListener(kind, async event => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault(); // the browser would leave the page and open the file
  if (kind === "dragover") return;
  const files = [...event.dataTransfer.files];
  await ask("readwrite", store => store.put(files, "files"));
  location.assign(target);
});
