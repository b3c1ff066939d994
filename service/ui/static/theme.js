// Colours of the system, or light or dark as chosen before. Not a module: it runs at once.
"use strict";
{
  const THEMES = ["system", "light", "dark"];
  const root = document.documentElement;
  const stored = localStorage.getItem("theme");
  let theme = THEMES.includes(stored) ? stored : "system";
  root.dataset.theme = theme;
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => { button.textContent = `Theme: ${theme}`; };
    button.hidden = false;
    button.addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      root.dataset.theme = theme;
      localStorage.setItem("theme", theme);
      show();
    });
    show();
  });
}
