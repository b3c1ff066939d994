// Stores the table that ships with the service, and finds the best model for it.
import { findBest } from "./best.js";
import { hold, request, send, show } from "./request.js";

// One listener, as live pages replace their buttons.
document.addEventListener("click", ({ target: button }) => {
  if (!button.matches("#sample")) return;
  const { href, query } = button.dataset, status = document.getElementById("sample-status");
  status.textContent = "Storing the table.";
  hold(button, async () => {
    try {
      const table = await (await request(href)).blob();
      const { body } = await send("POST", `/v1/datasets?${query}`, { body: table, headers: { "Content-Type": "text/csv" } });
      return await findBest(body.id, body.name);
    } catch (failure) {
      status.textContent = "";
      show(document.getElementById("action-error"), failure);
    }
  });
});
