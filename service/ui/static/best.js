// Finds the best model for a dataset that has just been stored.
import { send, untilRead } from "./request.js";

// The name of the model: that of the data, in the letters that names of models have.
function modelOf(name) {
  const text = name.normalize("NFD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+|-+$/g, "");
  return text.slice(0, 100) || "model";
}

// Returns the address of the job, or of the dataset if it was rejected, which says why.
export async function findBest(id, name) {
  if (!await untilRead(id)) return `/datasets/${id}`;
  const { body } = await send("POST", "/v1/jobs", { json: { dataset_id: id, algorithm: "auto", model: modelOf(name) } });
  return `/jobs/${body.id}`;
}
