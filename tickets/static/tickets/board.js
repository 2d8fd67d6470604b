// The board while somebody looks at it: asks for the same page again and puts in the cards that have changed. Every word
// is the server's. It waits while the reader types or has a menu open, and leaves focus and scroll where they are.
"use strict";

const EVERY = 4000;
const LONGEST = 60_000;
const OPEN = "details[open], select:focus, input:focus:not([type='hidden'])";

const board = document.getElementById("board");
const announcer = document.getElementById("announcer");
const stale = document.getElementById("stale");
const pauseButton = document.getElementById("pause");
let pause = EVERY;
let timer = null;
let asking = false;
let signedOut = false;

function paused() {
  return pauseButton.getAttribute("aria-pressed") === "true";
}

function busy() {
  return document.hidden || document.getElementById("main").querySelector(OPEN) !== null;
}

function plan() {
  window.clearTimeout(timer);
  if (!document.hidden && !paused() && !signedOut) timer = window.setTimeout(look, pause);
}

async function look() {
  if (asking || busy()) return plan();
  asking = true;
  const asked = performance.now();
  try {
    const headers = { Accept: "text/html", "If-None-Match": `"${board.dataset.version}"` };
    const response = await fetch(location.pathname + location.search, { headers, cache: "no-store" });
    if (response.redirected) signedOut = true;
    if (signedOut || (!response.ok && response.status !== 304)) throw new Error(`answered ${response.status}`);
    if (response.status !== 304) {
      const page = parse(await response.text());
      if (busy()) return; // somebody opened a menu meanwhile: the next look tells
      announce(show(page));
    }
    stale.hidden = true;
    pause = Math.min(Math.max(EVERY, 20 * (performance.now() - asked)), LONGEST);
  } catch {
    stale.hidden = false; // the cards stand as they last were; the reader may ask as well
    pause = Math.min(pause * 1.6, LONGEST);
  } finally {
    asking = false;
    plan();
  }
}

function parse(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

function announce(changed) {
  if (changed) announcer.textContent = changed === 1 ? "1 ticket changed" : `${changed} tickets changed`;
}

// Puts the page's news in; returns how many tickets changed, came or went. Those that only slid over the page's end,
// because others came or went, are not counted.
function show(page) {
  const place = keepPlace();
  const focus = keepFocus();
  const slid = slidOverTheEnd(page);
  const before = new Map([...board.querySelectorAll("[data-cards] > li")].map((card) => [card.id, card]));
  const after = new Set();
  const changed = new Set();
  for (const lane of page.querySelectorAll("[data-cards]")) {
    for (const card of lane.children) after.add(card.id);
  }
  for (const [id, card] of before) {
    if (after.has(id)) continue;
    card.remove();
    if (!slid.has(id)) changed.add(id);
  }
  for (const lane of page.querySelectorAll("[data-cards]")) {
    let at = document.getElementById(lane.id).firstElementChild;
    for (const fresh of [...lane.children]) {
      let card = before.get(fresh.id);
      if (card?.dataset.version === fresh.dataset.version) {
        copyAges(card, fresh);
      } else {
        if (card || !slid.has(fresh.id)) changed.add(fresh.id);
        const old = card;
        card = document.adoptNode(fresh);
        localTimes(card);
        if (at === old && old) at = old.nextElementSibling;
        if (old) old.remove();
      }
      if (card === at) at = at.nextElementSibling;
      else document.getElementById(lane.id).insertBefore(card, at);
    }
  }
  for (const part of page.querySelectorAll("[data-part]")) put(part);
  board.dataset.version = page.getElementById("board").dataset.version;
  restoreFocus(focus);
  restorePlace(place);
  return changed.size;
}

function slidOverTheEnd(page) {
  const slid = new Set();
  for (const lane of page.querySelectorAll("[data-cards]")) {
    const [now, then] = [lane, document.getElementById(lane.id)].map((list) => [...list.children].map((card) => card.id));
    const pages = lane.id.replace("cards-", "pages-");
    const goesOn = (from) => from.getElementById(pages).querySelector("[rel=next]") !== null;
    if (goesOn(document)) for (const id of trailing(now, then)) slid.add(id);
    if (goesOn(page)) for (const id of trailing(then, now)) slid.add(id);
  }
  return slid;
}

function trailing(ids, known) {
  return ids.slice(ids.findLastIndex((id) => known.includes(id)) + 1);
}

function copyAges(card, fresh) {
  const now = fresh.querySelectorAll("time");
  card.querySelectorAll("time").forEach((time, index) => {
    if (now[index] && time.textContent !== now[index].textContent) time.textContent = now[index].textContent;
  });
}

function put(fresh) {
  const part = document.getElementById(fresh.id);
  if (part && part.innerHTML !== fresh.innerHTML) part.replaceChildren(...fresh.childNodes);
}

// Scroll: the card that is looked at, which is the focused one or the first in sight, stays where it is on the screen.
function keepPlace() {
  const cards = [...board.querySelectorAll("[data-cards] > li")].map((card) => [card, card.getBoundingClientRect()]);
  const focused = document.activeElement?.closest?.("[data-cards] > li");
  return cards
    .filter(([, box]) => box.bottom > 0 && box.top < window.innerHeight)
    .sort(([one, a], [other, b]) => (other === focused) - (one === focused) || a.top - b.top)
    .map(([card, box]) => [card.id, box.top]);
}

function restorePlace(place) {
  if (window.scrollY === 0 && document.activeElement === document.body) return; // at the top: news belong in sight
  for (const [id, top] of place) {
    const card = document.getElementById(id);
    if (!card) continue;
    window.scrollBy({ top: card.getBoundingClientRect().top - top, behavior: "instant" });
    return;
  }
}

// Focus: on the same control of the same card or part, also where that was drawn anew; else on the card that follows.
function keepFocus() {
  const active = document.activeElement;
  const holder = active?.closest?.("[data-cards] > li, [data-part]");
  if (!holder || !document.getElementById("main").contains(active)) return null;
  const controls = [...holder.querySelectorAll("a, summary, button, select")];
  const following = holder.matches("li") ? [holder.nextElementSibling?.id, holder.previousElementSibling?.id] : [];
  return { active, id: holder.id, href: active.getAttribute("href"), index: controls.indexOf(active), following };
}

function restoreFocus(kept) {
  if (!kept || document.activeElement === kept.active) return;
  const holder = document.getElementById(kept.id);
  const same = kept.href && holder?.querySelector(`a[href="${CSS.escape(kept.href)}"]`);
  const target = same || holder?.querySelectorAll("a, summary, button, select")[kept.index] || besides(kept.following);
  target?.focus({ preventScroll: true });
}

function besides(ids) {
  const card = ids.map((id) => id && document.getElementById(id)).find(Boolean);
  return card ? card.querySelector(".row-title a") : document.getElementById("main");
}

// Moving without leaving: the form's own answer is the board as it is now, with a word on the card.
board.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches(".place form")) return;
  event.preventDefault();
  const button = form.querySelector("button");
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  try {
    const response = await fetch(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "text/html" } });
    const page = parse(await response.text());
    if (!response.ok || !page.getElementById("board")) throw new Error(`answered ${response.status}`);
    moved(form.closest("li").id, page);
  } catch {
    form.submit(); // the browser's own way shows what is the matter: a sign-in, an error page, no connection
  }
});

function moved(id, page) {
  const told = page.querySelector(".row-outcome, #outcome");
  for (const outcome of document.querySelectorAll(".row-outcome, #outcome")) outcome.remove();
  const old = document.getElementById(id);
  old.querySelector("details").open = false;
  old.removeAttribute("data-version"); // drawn anew in any case: it has a word on it
  show(page);
  const card = document.getElementById(id);
  if (card) {
    card.querySelector("summary").focus();
    card.scrollIntoView({ block: "nearest" });
  } else if (told) {
    board.before(told);
    told.focus();
  }
  announcer.textContent = told ? `${id}: ${told.textContent.replace(`${id}: `, "")}` : "";
}

board.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest("details[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

// One menu at a time: the others would hold the updates back, out of sight.
board.addEventListener("toggle", (event) => {
  if (!event.target.open) return;
  for (const menu of board.querySelectorAll("details[open]")) if (menu !== event.target) menu.open = false;
}, true);

pauseButton.hidden = false;
pauseButton.addEventListener("click", () => {
  const now = !paused();
  pauseButton.setAttribute("aria-pressed", String(now));
  if (now) window.clearTimeout(timer);
  else look();
});
document.addEventListener("visibilitychange", () => {
  window.clearTimeout(timer);
  if (!document.hidden && !paused() && !signedOut) look();
});
window.addEventListener("pageshow", (event) => { if (event.persisted) look(); });
plan();
