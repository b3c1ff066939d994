// Finds the best model for a dataset that has just been stored.
import { send } from "./request.js";

const WAIT_S = 20;

// The name of the model: that of the data, in the letters that names of models have.
function modelOf(name) {
  const text = name.normalize("NFD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+|-+$/g, "");
  return text.slice(0, 100) || "model";
}

// Returns the address of the job, or of the dataset if it was rejected, which says why.
export async function findBest(id, name) {
  let state = "";
  while (state !== "ready") {
    const { body } = await send("GET", `/v1/datasets/${id}?wait=${WAIT_S}`);
    state = body.state;
    if (state === "rejected") return `/datasets/${id}`;
  }
  const { body } = await send("POST", "/v1/jobs", { json: { dataset_id: id, algorithm: "auto", model: modelOf(name) } });
  return `/jobs/${body.id}`;
}
