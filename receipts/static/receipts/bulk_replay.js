/* Follows a bulk replay: fetches the part of the page that moves until it has ended. Without it, the page reloads. */
"use strict";
(() => {
  const part = document.getElementById("progress");
  const PAUSE = 1500;

  async function look() {
    if (document.hidden) return setTimeout(look, PAUSE);
    try {
      const answer = await fetch(part.dataset.address + location.search, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return location.reload(); // signed out, or no longer allowed
      part.innerHTML = await answer.text();
    } catch {
      return setTimeout(look, PAUSE * 4); // out of reach: what is shown stays, and we ask again
    }
    const verdict = part.querySelector(".verdict");
    if ("finished" in verdict.dataset || "stopped" in verdict.dataset) document.getElementById("stop")?.remove();
    if (!("finished" in verdict.dataset)) setTimeout(look, PAUSE);
  }

  setTimeout(look, PAUSE);
})();
