// The page of a run while it is under way: asks for the same page again and puts in what has changed. So every word
// is the server's, and the browser counts nothing. It pauses while nobody looks, and goes slower where answers are slow.
"use strict";

const PARTS = ["run-progress", "run-times", "run-causes", "receipts"];
const EVERY = 2000;
const LONGEST = 30_000;

const run = document.getElementById("run");
const refresh = document.getElementById("refresh");
const told = Object.fromEntries(PARTS.map((id) => [id, null]));
let pause = EVERY;
let timer = null;
let asking = false;

function plan() {
  window.clearTimeout(timer);
  if (!document.hidden && run.hasAttribute("data-live")) timer = window.setTimeout(look, pause);
}

async function look() {
  if (asking) return;
  asking = true;
  const asked = performance.now();
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (response.redirected || response.status === 404) return lost(); // signed out: nothing more comes of asking
    if (!response.ok) throw new Error(`answered ${response.status}`);
    show(new DOMParser().parseFromString(await response.text(), "text/html"));
    refresh.hidden = true;
    pause = Math.min(Math.max(EVERY, 10 * (performance.now() - asked)), LONGEST);
  } catch {
    refresh.hidden = false; // the numbers stand as they last were; the reader may ask as well
    pause = Math.min(pause * 1.6, LONGEST);
  } finally {
    asking = false;
  }
  plan();
}

function show(page) {
  const now = page.getElementById("run");
  for (const id of PARTS) put(id, page.getElementById(id));
  if (now.dataset.state !== run.dataset.state || !now.hasAttribute("data-live")) {
    document.getElementById("announcer").textContent = run.querySelector(".slip-state").textContent.trim();
  }
  run.dataset.state = now.dataset.state;
  run.toggleAttribute("data-live", now.hasAttribute("data-live"));
}

// Focus stays where it is: on the same link, if it was in a part that is replaced.
function put(id, now) {
  const html = now.innerHTML;
  if (told[id] === html) return;
  told[id] = html;
  const part = document.getElementById(id);
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  part.replaceChildren(...now.childNodes);
  localTimes(part);
  if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function lost() {
  run.removeAttribute("data-live");
  refresh.hidden = false;
}

refresh.hidden = true;
document.addEventListener("visibilitychange", () => {
  window.clearTimeout(timer);
  if (!document.hidden && run.hasAttribute("data-live")) look();
});
plan();
