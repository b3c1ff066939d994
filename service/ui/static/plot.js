// A plot becomes interactive on request: Vega's bundle is large, so it is loaded only then. Expressions
// are interpreted (ast), as the policy of the page forbids programs made of text.

import { hold, pathOf } from "./request.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const theme = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light";
};

const isNarrow = matchMedia("(max-width: 600px)");
const themed = href => `${pathOf(href)}${href.includes("?") ? "&" : "?"}theme=${theme()}${isNarrow.matches ? "&width=220" : ""}`;

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
  for (const source of figure.querySelectorAll("source")) source.remove();
  figure.querySelector("img").src = themed(figure.dataset.href);
}

const CSV = value => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

function csvOf({ datasets }) {
  const tables = Object.entries(datasets).filter(([, rows]) => rows.length);
  return tables.map(([name, rows]) => {
    const columns = [...new Set(rows.flatMap(Object.keys))];
    const lines = rows.map(row => columns.map(column => CSV(`${row[column] ?? ""}`)).join(","));
    return [...tables.length > 1 ? [`# ${name}`] : [], columns.map(CSV).join(","), ...lines].join("\n");
  }).join("\n\n");
}

// A file for a report: the plot with its title, or its data.
async function download({ href, title }, [ending, type]) {
  const path = `${pathOf(href).replace("title=false", "title=true")}&theme=light`;
  const response = await fetch(path, { headers: { Accept: type } });
  if (!response.ok) throw new Error((await response.json()).detail);
  const content = ending === "csv" ? new Blob([csvOf(await response.json())], { type: "text/csv" }) : await response.blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = `${title}.${ending}`;
  link.click();
  URL.revokeObjectURL(link.href);
}

for (const place of document.querySelectorAll(".downloads")) {
  for (const [label, ...form] of [["PNG", "png", "image/png"], ["SVG", "svg", "image/svg+xml"], ["Data", "csv", "application/json"]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-label", `Download ${label}: ${place.dataset.title}`);
    button.addEventListener("click", () => hold(button, () => download(place.dataset, form).catch(error => { button.textContent = `${label} failed: ${error.message}`; })));
    place.append(button);
  }
}

for (const figure of document.querySelectorAll("figure[data-vega]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Interactive";
  button.setAttribute("aria-label", `Interactive: ${figure.querySelector("h3").textContent}`);
  button.addEventListener("click", () => mount(figure, button));
  (figure.querySelector(".downloads") ?? figure).append(button);
}
