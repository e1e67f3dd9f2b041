// j and k walk the list, a and d go to a decision. No key decides by itself: Enter or a click does.

const dialog = document.getElementById("approval-keys");
const isOn = dialog.querySelector("[data-keys-on]");
const SETTING = "approvals.keys";

function rows() {
  return [...document.querySelectorAll("[data-approval]")];
}

function step(by) {
  const all = rows();
  const focused = all.indexOf(document.activeElement); // ahead of what is still being loaded
  const open = all.findIndex((row) => row.getAttribute("aria-current") === "true");
  const now = focused < 0 ? open : focused;
  const next = all[now < 0 ? 0 : Math.min(Math.max(now + by, 0), all.length - 1)];
  if (!next || all.indexOf(next) === now) return;
  next.scrollIntoView({ block: "nearest" });
  next.focus({ preventScroll: true });
  next.click();
}

function goTo(id) {
  const field = document.getElementById(id);
  field?.scrollIntoView({ block: "center" });
  field?.focus({ preventScroll: true });
  return Boolean(field);
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  a: () => goTo("approve-button"),
  d: () => goTo("deny-reason"),
};

function isWriting(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  if (dialog.open || isWriting(event.target)) return;
  if (event.key === "?") {
    event.preventDefault();
    dialog.showModal();
  } else if (isOn.checked && Object.hasOwn(KEYS, event.key)) {
    event.preventDefault(); // or the letter would land in the field that it leads to
    KEYS[event.key]();
  }
});

document.querySelector("[data-keys-open]").addEventListener("click", () => dialog.showModal());

// A browser may refuse to keep the choice; the keys then work until the page is left.
function kept(work) {
  try {
    return work();
  } catch {
    return null;
  }
}

isOn.checked = kept(() => localStorage.getItem(SETTING)) !== "off";
isOn.addEventListener("change", () => {
  kept(() => localStorage.setItem(SETTING, isOn.checked ? "on" : "off"));
});
