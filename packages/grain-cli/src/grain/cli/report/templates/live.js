"use strict";
// The page is written again while the mission runs: load it again, and keep the reader's place. The
// browser itself keeps how far the page is scrolled.
(() => {
  const seconds = Number(document.currentScript.dataset.again);
  const folds = () => [...document.querySelectorAll("details")];

  function busy() {
    const selection = document.getSelection();
    return document.hidden || held || (selection && !selection.isCollapsed);
  }

  // What the reader holds or marks stays under the pointer; a page that is not seen can wait.
  let held = false;
  for (const [name, now] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) {
    window.addEventListener(name, () => { held = now; }, true);
  }
  let due = false;
  const look = () => {
    if (!due || busy()) return;
    window.dispatchEvent(new Event("keepplace")); // later, as at "pagehide", is too late for Chromium
    location.reload();
  };
  setTimeout(() => {
    due = true;
    look();
    setInterval(look, 500);
  }, seconds * 1000);
  document.addEventListener("visibilitychange", look);

  window.addEventListener("keepplace", () => {
    const open = folds().map((fold, at) => (fold.open ? at : -1)).filter((at) => at >= 0);
    const focus = document.activeElement ? document.activeElement.id : "";
    history.replaceState({ ...history.state, open, focus }, "");
  });
  const before = history.state;
  if (!before) return;
  const all = folds();
  for (const at of before.open || []) if (all[at]) all[at].open = true;
  const element = before.focus && document.getElementById(before.focus);
  if (element) element.focus({ preventScroll: true });
})();
