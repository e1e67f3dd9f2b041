// The box to write in: grows, counts, sends on Enter; the stop button beside it.

import { config, t } from "./format.js";

const COUNT_FROM = 500;
const TALLEST = 200;

export function setUpComposer({ onText, onStop }) {
  const form = document.getElementById("composer");
  const field = document.getElementById("text");
  const send = document.getElementById("send");
  const stop = document.getElementById("stop");
  const count = document.getElementById("composer-count");
  let isBusy = false;

  function look() {
    const left = config.max_characters - [...field.value.trim()].length;
    send.disabled = isBusy || !field.value.trim() || left < 0;
    count.textContent = "";
    if (left < 0) count.textContent = t("too_long", { count: -left });
    else if (left < COUNT_FROM) count.textContent = t("characters_left", { count: left });
    count.classList.toggle("bad", left < 0);
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, TALLEST)}px`;
  }

  function submit() {
    look();
    if (send.disabled) return;
    const text = field.value.trim();
    field.value = "";
    look();
    onText(text);
    field.focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  field.addEventListener("input", look);
  const stopLabel = stop.querySelector(".visually-hidden");
  const stopText = stopLabel.textContent;
  stop.addEventListener("click", onStop);
  look();

  return {
    // While an answer is being stopped the button stays, and cannot be pressed again.
    setWorking(isWorking, isStopping) {
      stop.hidden = !isWorking;
      stop.classList.toggle("stopping", isStopping);
      stop.setAttribute("aria-disabled", String(isStopping));
      stopLabel.textContent = isStopping ? t("stopping") : stopText;
    },
    setBusy(busy) {
      isBusy = busy;
      look();
    },
    restore(text) {
      field.value = text;
      look();
    },
  };
}
