// A plot becomes interactive on request: Vega's bundle is large, so it is loaded only then. Expressions
// are interpreted (ast), as the policy of the page forbids programs made of text.

import { pathOf } from "./request.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const theme = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light";
};

const themed = href => `${pathOf(href)}${href.includes("?") ? "&" : "?"}theme=${theme()}`;

async function mount(figure, button) {
  const { href, vega } = figure.dataset;
  button.disabled = true;
  button.textContent = "Loading";
  try {
    const [response] = await Promise.all([fetch(themed(href), { headers: { Accept: "application/json" } }), import(pathOf(vega))]);
    if (!response.ok) throw new Error((await response.json()).detail);
    const place = document.createElement("div");
    place.className = "vega scroll";
    place.tabIndex = 0;
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", figure.querySelector("h3").textContent);
    const inner = document.createElement("div");
    place.append(inner);
    await window.vegaEmbed(inner, await response.json(), { ast: true, actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true } });
    figure.querySelector(".scroll").replaceWith(place);
    place.focus();
    button.remove();
  } catch (error) {
    button.textContent = `It could not be loaded (${error.message}). Try again`;
    button.disabled = false;
  }
}

// Images in the theme chosen on the page, where it differs from the theme of the system.
for (const figure of document.querySelectorAll("figure[data-href]")) {
  if (theme() === (system.matches ? "dark" : "light")) break;
  figure.querySelector("source").remove();
  figure.querySelector("img").src = themed(figure.dataset.href);
}

for (const figure of document.querySelectorAll("figure[data-vega]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Interactive";
  button.setAttribute("aria-label", `Interactive: ${figure.querySelector("h3").textContent}`);
  button.addEventListener("click", () => mount(figure, button));
  figure.append(button);
}
