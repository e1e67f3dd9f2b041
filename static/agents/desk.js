// The list asks for itself (htmx); this says so in the title and to a screen reader.

const root = document.querySelector("[data-desk]");
const announce = root.querySelector("[data-announce]");

const waiting = () => document.getElementById("desk-list").dataset.waiting;
let shown = waiting();

document.body.addEventListener("htmx:afterSwap", () => {
  const count = waiting();
  if (count === shown) return;
  shown = count;
  document.title = count === "0" ? root.dataset.title : `(${count}) ${root.dataset.title}`;
  announce.textContent = root.dataset.changed;
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) document.body.dispatchEvent(new CustomEvent("desk:refresh"));
});
