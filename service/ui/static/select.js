// Several rows of a list are selected, and then cancelled or deleted one after the other.
import { ask, hold, send } from "./request.js";

const bar = document.getElementById("selection"), all = () => document.getElementById("select-all");
const boxes = () => [...document.querySelectorAll("tbody [data-path]")];
const chosen = () => boxes().filter(box => box.checked);

function show() {
  const n = chosen().length;
  document.getElementById("selected").textContent = `${n} selected`;
  bar.hidden = !n && !document.getElementById("refused").children.length;
  for (const button of bar.querySelectorAll("button")) button.hidden = !n;
  if (all()) all().checked = n > 0 && n === boxes().length;
}

if (bar) document.addEventListener("change", ({ target }) => {
  if (target === all()) for (const box of boxes()) box.checked = target.checked;
  if (target === all() || target.matches("tbody [data-path]")) show();
});

bar?.addEventListener("click", async ({ target: button }) => {
  if (!button.dataset.each || !await ask(button.dataset.question)) return;
  const refused = document.getElementById("refused");
  refused.replaceChildren();
  await hold(button, async () => {
    let n = 0;
    for (const box of chosen()) {
      try {
        await send(button.dataset.each, `${box.dataset.path}${button.dataset.verb}`);
        box.checked = false;
        if (button.dataset.each === "DELETE") box.closest("tr").remove();
        n++;
      } catch (failure) {
        const line = document.createElement("li");
        line.textContent = `${box.closest("tr").querySelector("a").textContent}: ${failure.message}`;
        refused.append(line);
      }
    }
    show();
    document.getElementById("selected").textContent = `${n} ${button.dataset.done}${refused.children.length ? `, ${refused.children.length} refused:` : ""}`;
    bar.hidden = false;
  });
});
