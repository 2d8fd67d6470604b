// The side panel: presses, shows the draft, and ends at the truth of the receipt row.
//
// Success is said of a row whose status is `applied`, and of nothing else: not of a stream's end, not of an HTTP status.
// A press keeps its key in this tab until its row is settled, so that a dropped socket, a reload, the back button and a
// second click all lead to the same row.
"use strict";

const api = (press) => `/api/v1/tickets/${config.ticket}/${press.what}`;
const said = (press) => config.words.tools[press.tool];
const panel = document.getElementById("panel");
const at = (name) => document.getElementById(`panel-${name}`);
const remember = (name, value) => put("sessionStorage", name, value);
const recall = (name) => get("sessionStorage", name);

// Not randomUUID: that exists on https and localhost only.
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// ── what the panel shows ────────────────────────────────────────────────────────────────────────────────────────

// Focus that stood on something which goes away stays in the panel.
function hide(element, hidden = true) {
  if (hidden && element.contains(document.activeElement)) panel.focus({ preventScroll: true });
  element.hidden = hidden;
}

// Each tool has its own words for the same states.
function show(press, state, { receipt = null, again = false } = {}) {
  panel.dataset.state = state;
  at("icon").setAttribute("href", `#icon-${state}`);
  const words = said(press).standings[state];
  at("audience").textContent = said(press).seen_by;
  at("audience").hidden = false;
  hide(at("cancel"), !press.receiptId || press !== current);
  at("words").textContent = state === "filed" && again ? `Already ${words.toLowerCase()}` : words;
  at("hint").hidden = true;
  const tail = at("receipt");
  tail.replaceChildren();
  if (!receipt) return;
  const link = document.createElement("a");
  link.href = `/receipts/${receipt.receipt_id}`;
  link.textContent = `receipt ${numberOf(receipt)}`;
  tail.append(" · ", link);
  if (receipt.settled_at) tail.append(` · ${localTime(new Date(receipt.settled_at), "clock")}`);
}

const numberOf = (receipt) => `R-${receipt.receipt_id.slice(-8)}`;

function showFields(fields, label) {
  at("draft").hidden = false;
  at("draft-label").textContent = label;
  const list = at("fields");
  const shown = Object.entries(fields).filter(([name, value]) => name !== "ticket_id" && typeof value === "string");
  for (const [name, text] of shown) {
    const field = at(name) || addField(list, name);
    if (field.textContent !== text) field.textContent = text;
  }
  const names = shown.map(([name]) => `panel-${name}`);
  for (const field of list.querySelectorAll("dd")) if (!names.includes(field.id)) field.parentElement.remove();
}

function addField(list, name) {
  const [group, label, value] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
  label.textContent = config.words.fields[name] || name;
  value.id = `panel-${name}`;
  value.dir = "auto";
  group.append(label, value);
  list.append(group);
  return value;
}

// `again`: what one click goes on with, where that is possible.
function showFailure({ sentence, owner, next_step }, press, again = null) {
  at("failure").hidden = false;
  at("sentence").textContent = sentence;
  at("owner").textContent = owner;
  at("next").textContent = next_step;
  hide(at("retry"), !again);
  retry = again;
  const form = document.getElementById(`by-hand-${press.what}`);
  at("by-hand").hidden = !form || Boolean(press.arguments);
  if (form) at("by-hand").querySelector("a").href = `#${form.id}`;
}

let retry = null;

function clearPanel() {
  at("moved").hidden = true;
  hide(at("failure"));
  at("draft").hidden = true;
  at("paused").hidden = true;
  at("cancel-said").textContent = "";
  at("fields").replaceChildren();
}

const clock = {
  timer: null,
  start(since) {
    this.stop();
    at("clock").hidden = false;
    const tick = () => {
      const elapsed = Math.max(0, (Date.now() - since) / 1000);
      at("progress").value = Math.min(elapsed, config.budgetSeconds);
      const over = elapsed > config.budgetSeconds; // a laptop that slept counts hours
      at("elapsed").textContent = `${over ? "more than " : Math.floor(elapsed)}${over ? "" : " s of "}${config.budgetSeconds} s`;
    };
    tick();
    this.timer = window.setInterval(tick, 500);
  },
  stop() {
    window.clearInterval(this.timer);
    at("clock").hidden = true;
  },
};

// ── one press ───────────────────────────────────────────────────────────────────────────────────────────────────

let current = null; // the press that this page is following; a newer one makes older followers fall silent

function busy(isBusy) {
  for (const button of document.querySelectorAll("form.press button")) button.setAttribute("aria-disabled", String(isBusy));
}

function begin(press) {
  current = press;
  remember("press", press);
  busy(true);
  clearPanel();
  if (!press.arguments) clock.start(press.pressedAt);
  panel.scrollIntoView({ block: "nearest" });
  return press;
}

function end() {
  current = null;
  busy(false);
  clock.stop();
  hide(at("cancel"));
  at("paused").hidden = true;
}

// The key makes it happen once. A press of another tab or time has none here: its receipt is continued by name.
async function send(press) {
  begin(press);
  show(press, "checking");
  const live = await livePlace();
  const line = new Line();
  try {
    const headers = { Accept: "text/event-stream, application/json;q=0.5" };
    const response = press.key
      ? await change(api(press), {
          method: "POST",
          headers: { ...headers, "Content-Type": "application/json", "Idempotency-Key": press.key },
          body: JSON.stringify(bodyOf(press)),
          signal: line.signal,
        })
      : await change(`/api/v1/receipts/${press.receiptId}/retry`, { method: "POST", headers, signal: line.signal });
    if (!response.ok) return refused(press, await problemOf(response));
    const again = response.headers.get("Idempotent-Replayed") === "true";
    return await receive(press, response, { again, live, line });
  } finally {
    line.end();
    if (live) live();
  }
}

function bodyOf(press) {
  if (press.arguments) return { arguments: press.arguments };
  return notes.has(press.what) ? { notes: press.notes } : {};
}

// ── lines to the server ─────────────────────────────────────────────────────────────────────────────────────────

const SILENCE = 25_000; // ms. The server says something every ten seconds; a line that is silent for longer is dead
const LIVE = 4; // of the six connections that a browser opens to a host: presses, notes and other tabs need the rest

// Nothing tells a browser that the other end is gone, or that the laptop slept: a silent line is hung up.
class Line {
  constructor() {
    this.control = new AbortController();
    this.heard();
  }

  get signal() {
    return this.control.signal;
  }

  heard() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.control.abort(), SILENCE);
  }

  end() {
    window.clearTimeout(this.timer);
    this.control.abort();
  }
}

// A place for one stream among this browser's tabs: a function that gives it back, or null where all are taken.
async function livePlace() {
  if (!navigator.locks) return document.hidden ? null : () => {}; // plain http: whoever is looked at
  for (let place = 0; place < LIVE; place += 1) {
    const giveBack = await new Promise((resolve) => {
      navigator.locks.request(`receipts:live:${place}`, { ifAvailable: true }, (lock) =>
        lock ? new Promise((done) => resolve(done)) : resolve(null),
      );
    });
    if (giveBack) return giveBack;
  }
  return null;
}

// Raises where the answer proves nothing about the row: a proxy's page, a ledger out of reach, a fault on the way.
async function problemOf(response) {
  const isJson = (response.headers.get("Content-Type") || "").includes("json");
  const problem = isJson ? await response.json() : {};
  const uncertain = response.status >= 500 && problem.code !== "overloaded" && !problem.receipt_id;
  if (!isJson || uncertain) throw new Error(`answered ${response.status}`);
  return problem;
}

async function receive(press, response, { again = false, live, line }) {
  let receipt = null;
  let ended = true;
  if ((response.headers.get("Content-Type") || "").startsWith("text/event-stream")) {
    ended = false;
    for await (const { name, data } of events(response.body, line)) {
      if (press !== current) return;
      ended = name === "end";
      if (name === "receipt") receipt = heard(press, data);
      else if (name === "draft") showFields(data.fields || {}, said(press).label_draft);
      else if (name === "decision") decided(press, receipt, data);
      if (!live && receipt && receipt.status === "pending") {
        pause(press);
        line.end(); // the attempt goes on: who hangs up changes nothing
        return watch(press);
      }
    }
  } else {
    receipt = heard(press, await response.json());
  }
  if (receipt && receipt.status !== "pending") return settle(press, receipt, again);
  // the stream has ended and the row has not: nothing is claimed. Without its own last word it was cut off
  if (ended) show(press, "complete", { receipt });
  else lost(press);
  line.end();
  if (live) live();
  return watch(press);
}

function heard(press, receipt) {
  if (press.receiptId !== receipt.receipt_id) {
    press.receiptId = receipt.receipt_id;
    remember("press", press);
  }
  if (receipt.status === "pending") {
    const state = underWay(press, receipt);
    show(press, state, { receipt });
    if (!press.announced) announce(said(press).standings[state]);
    press.announced = true;
  }
  return receipt;
}

// What the row says of an attempt that has not ended. What a person wrote is not drafted by anybody.
function underWay(press, receipt) {
  if (receipt.overdue) return "checking";
  return press.arguments ? "filing" : "drafting";
}

function decided(press, receipt, data) {
  showFields(data.proposed || data, said(press).label_draft);
  show(press, "filing", { receipt });
}

// Server-sent events of a fetch body: `event:` and `data:` lines, a blank line between events, comments dropped.
async function* events(body, line) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    line.heard();
    waiting += value;
    const blocks = waiting.split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: ?(.*)/s, 2)));
      if (fields.event && fields.data) yield { name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

// ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────────

function settle(press, receipt, again) {
  if (press !== current) return;
  end();
  remember("press", null);
  refresh();
  const byHand = writtenByHand(receipt);
  if (receipt.status === "applied") {
    show(press, "filed", { receipt, again });
    hide(at("failure"));
    const decision = config.words.decisions[receipt.result_ref];
    showFields(decision ? { decision } : receipt.arguments, said(press).label_done + (byHand ? ", written by hand" : ""));
    at("moved").hidden = !receipt.context_moved;
    announce(`${said(press).done}, ${numberOf(receipt)}${receipt.context_moved ? `. ${at("moved").textContent}` : ""}`);
    notes.get(press.what)?.filed(press.notes);
    hands.get(press.what)?.filed(press);
    return;
  }
  const why = (byHand && config.words.byHand[receipt.error_reason || receipt.error_code])
    || config.words.reasons[receipt.error_reason] || config.words.codes[receipt.error_code] || {
    sentence: `The reason is “${receipt.error_code}”.`, owner: "an operator", next_step: "Give the receipt to an operator.",
  };
  show(press, receipt.error_code === "outcome_unknown" ? "unknown" : "not_filed", { receipt });
  const retryable = receipt.outcome === "retryable";
  showFailure(why, press, retryable ? () => pressAgain(press) : null);
  if (retryable) remember("retryable", press);
  announce(`${at("words").textContent}. ${why.sentence} ${why.next_step}`);
}

// A model leaves its decision on the row, whatever became of it.
function writtenByHand(receipt) {
  if (receipt.model_decision || receipt.replay_of || !config.written.includes(receipt.tool)) return false;
  return Object.keys(receipt.arguments).length > 0 || ["fill_invalid", "arg_mismatch"].includes(receipt.error_code);
}

function pressAgain(press) {
  if (current) return;
  go({ ...press, pressedAt: Date.now(), announced: false });
}

// A refusal before any receipt, or about another one. Notes and key stay where the key can be used again.
function refused(press, problem) {
  if (press !== current) return;
  if (problem.code === "idempotency_in_flight" && problem.receipt_id) {
    press.receiptId = problem.receipt_id;
    remember("press", press);
    return watch(press);
  }
  end();
  remember("press", null);
  show(press, "not_filed", { receipt: problem.receipt_id ? { receipt_id: problem.receipt_id } : null });
  const signedOut = problem.status === 401;
  const known = config.words.codes[problem.code] || {};
  const again = problem.retryable || signedOut ? () => pressAgain(press) : null;
  showFailure(
    {
      sentence: signedOut ? "Signed out — sign in to continue. Your notes stay here." : sentenceOf(problem.detail),
      owner: problem.owner || known.owner || "you",
      next_step: problem.next_step || known.next_step || "",
    },
    press,
    again,
  );
  if (again) remember("retryable", press); // the same words continue with the same key
  if (signedOut) {
    const link = document.createElement("a");
    link.href = `/login?next=${encodeURIComponent(location.pathname)}`;
    link.textContent = "Sign in";
    at("next").replaceChildren(link);
  }
  announce(`${said(press).undone}. ${at("sentence").textContent}`);
}

// The wire quotes some details without capital and stop.
function sentenceOf(detail) {
  return detail.charAt(0).toUpperCase() + detail.slice(1) + (/[.!?]$/.test(detail) ? "" : ".");
}

// What the server lists of this ticket, as it is now. Focus stays where it is: on the same link, if it was in a list.
async function refresh() {
  try {
    const response = await fetch(location.pathname, { headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const id of ["ticket-head", "turns", "followups", "presses"]) {
      const list = document.getElementById(id);
      const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      list.replaceChildren(...page.getElementById(id).children);
      localTimes(list);
      if (focused) list.querySelector(`a[href="${focused}"]`)?.focus();
    }
  } catch {
    // the next look at the page shows them
  }
}

// The connection broke, or the stream ended early: ask the row. Without a receipt yet, the same key asks for us.
async function watch(press) {
  for (let pause = 1; press === current; pause = Math.min(pause * 1.6, 10)) {
    await wakeAfter(pause);
    if (press !== current) return;
    try {
      if (!press.receiptId) return await send(press);
      const response = await fetch(`/api/v1/receipts/${press.receiptId}`, {
        headers: { Accept: "application/json" },
        signal: AbortSignal.timeout(SILENCE),
      });
      if (response.status === 401) return refused(press, await problemOf(response));
      if (!response.ok) throw new Error(`answered ${response.status}`);
      const receipt = await response.json();
      if (receipt.status !== "pending") return settle(press, receipt, false);
      if (receipt.overdue) return overdue(press, receipt);
      if (press !== current) return;
      show(press, underWay(press, receipt), { receipt });
      press.drops = (press.drops || 0) + 1;
      if (!press.paused && press.drops <= DROPS) return await follow(press);
    } catch {
      lost(press);
    }
  }
}

const DROPS = 3; // so often a line that was cut is taken up again; then the row alone is asked

// Where a draft is under way: look at it again, if this tab has a place for that.
async function follow(press) {
  const live = await livePlace();
  if (!live) {
    pause(press);
    return watch(press);
  }
  const line = new Line();
  try {
    const response = await fetch(`/api/v1/receipts/${press.receiptId}/events`, {
      headers: { Accept: "text/event-stream" },
      signal: line.signal,
    });
    if (!response.ok) throw new Error(`answered ${response.status}`);
    await receive(press, response, { live, line });
  } catch {
    lost(press);
    await watch(press);
  } finally {
    line.end();
    live();
  }
}

function pause(press) {
  press.paused = true;
  at("paused").hidden = false;
}

// Sooner where something has changed: the connection is back, somebody looks at the page.
function wakeAfter(seconds) {
  return new Promise((resolve) => {
    const wake = () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", wake);
      document.removeEventListener("visibilitychange", wake);
      resolve();
    };
    const timer = window.setTimeout(wake, seconds * 1000);
    window.addEventListener("online", wake);
    document.addEventListener("visibilitychange", wake);
  });
}

// Past its deadline and not stamped: going on settles it and runs the next attempt, but only when asked to.
function overdue(press, receipt) {
  if (press !== current) return;
  end();
  show(press, "checking", { receipt });
  showFailure(config.words.codes.abandoned, press, () => pressAgain(press));
}

function lost(press) {
  if (press !== current) return;
  show(press, "checking", { receipt: press.receiptId ? { receipt_id: press.receiptId } : null });
  if (!press.lost) announce(said(press).standings.checking);
  press.lost = true;
}

async function go(press) {
  try {
    await send(press);
  } catch {
    if (press !== current) return;
    lost(press);
    await watch(press);
  }
}

// ── coming back to a press ──────────────────────────────────────────────────────────────────────────────────────

// A reload, the back button, another page and back: go on with the press that this tab has not seen settled. Without
// one, with the latest that the server knows of: it may have been made in another tab.
async function resume() {
  if (current) return;
  const press = recall("press") || latest();
  if (!press) return;
  begin({ ...press, announced: true, paused: false, drops: 0 });
  const mine = current;
  lost(mine);
  if (!mine.receiptId) return go(mine);
  await follow(mine);
}

// What the server wrote into the panel.
function written() {
  const { receipt, tool, elapsed } = panel.dataset;
  const what = Object.keys(config.tools).find((name) => config.tools[name] === tool) || "";
  return { what, tool, key: "", notes: "", receiptId: receipt, pressedAt: Date.now() - Number(elapsed) * 1000 };
}

function latest() {
  if (!("open" in panel.dataset)) return null;
  delete panel.dataset.open; // once: afterwards this tab knows better
  return written();
}

at("retry").addEventListener("submit", (event) => {
  event.preventDefault();
  if (current) return;
  if (retry) retry();
  else pressAgain(written());
});

at("cancel").addEventListener("submit", async (event) => {
  event.preventDefault();
  const press = current;
  if (!press?.receiptId || press.cancelling) return;
  press.cancelling = true;
  at("cancel-said").textContent = "Cancelling…";
  try {
    const response = await change(`/api/v1/receipts/${press.receiptId}/cancel`, {
      method: "POST",
      headers: { Accept: "application/json" },
      signal: AbortSignal.timeout(SILENCE),
    });
    const answer = await response.json();
    if (response.ok) return settle(press, answer, false);
    at("cancel-said").textContent = sentenceOf(answer.detail); // and what became of it, the row says soon
  } catch {
    at("cancel-said").textContent = "Not confirmed whether it was cancelled. Try again, or wait for the row.";
  } finally {
    press.cancelling = false;
  }
  if (press === current) announce(at("cancel-said").textContent);
});

at("by-hand").querySelector("a").addEventListener("click", (event) => {
  const form = document.getElementById(new URL(event.target.href).hash.slice(1));
  if (!form) return;
  event.preventDefault();
  for (let part = form; part; part = part.parentElement.closest("details")) part.open = true;
  form.querySelector("textarea, input:not([type=hidden]), select").focus();
});

// ── pressing ────────────────────────────────────────────────────────────────────────────────────────────────────

// What is wrong with notes, or nothing.
function wrongWith(text) {
  if (!text.trim()) return "are blank";
  return lengthOf(text) > config.notesMax ? `are longer than ${number(config.notesMax)} characters` : "";
}

function notPressed(press, sentence, again = null) {
  clearPanel();
  show(press, "not_filed");
  const { owner, next_step } = config.words.codes.invalid_request;
  showFailure(again ? { sentence, owner: "the system", next_step: "Press again in a moment." } : { sentence, owner, next_step }, press, again);
  panel.scrollIntoView({ block: "nearest" });
  announce(`${said(press).undone}. ${sentence}`);
}

// The same words after a retryable end continue the same receipt; changed ones are a new press.
function keyFor(press) {
  const last = recall("retryable");
  remember("retryable", null);
  const same = last && last.key && last.what === press.what && JSON.stringify(bodyOf(last)) === JSON.stringify(bodyOf(press));
  return same ? last.key : newKey();
}

// On the document: the head of the ticket, and the form in it, is written anew after a press.
document.addEventListener("submit", (event) => {
  const { what, byHand } = event.target.dataset;
  if (!what && !byHand) return;
  event.preventDefault();
  if (current) return; // the second of two clicks
  if (byHand) return void hands.get(byHand).press();
  const kept = notes.get(what);
  const press = { what, tool: config.tools[what], notes: kept ? kept.box.value : "", pressedAt: Date.now() };
  const problem = kept ? wrongWith(press.notes) : "";
  if (problem) {
    notPressed(press, `The notes ${problem}. Nothing was drafted or filed.`);
    kept.box.focus();
    return;
  }
  go({ ...press, key: keyFor(press) });
});

// ── by hand ─────────────────────────────────────────────────────────────────────────────────────────────────────

// What stands in its fields is kept in this browser until it was filed. The server judges it before it is pressed.
class Hand {
  constructor(form) {
    this.form = form;
    this.what = form.dataset.byHand;
    this.fields = [...form.elements].filter((field) => field.name.startsWith("arg_"));
    const kept = get("localStorage", `hand:${this.what}`) || {};
    for (const field of this.fields) if (!field.value && kept[field.name]) field.value = kept[field.name];
    form.addEventListener("input", () => this.keep());
  }

  keep() {
    const typed = Object.fromEntries(this.fields.map((field) => [field.name, field.value]));
    put("localStorage", `hand:${this.what}`, Object.values(typed).some(Boolean) ? typed : null);
  }

  async press() {
    if (this.checking) return;
    this.checking = true;
    const press = { what: this.what, tool: config.tools[this.what], notes: "", arguments: {}, pressedAt: Date.now() };
    try {
      const response = await change(this.form.dataset.check, {
        method: "POST",
        headers: { Accept: "application/json" },
        body: new URLSearchParams(new FormData(this.form)),
        signal: AbortSignal.timeout(SILENCE),
      });
      if (response.status === 401) return this.signedOut(press);
      if (!response.ok) throw new Error(`answered ${response.status}`);
      const judged = await response.json();
      press.arguments = judged.arguments;
      if (!this.wrong(judged.fields)) go({ ...press, key: keyFor(press) });
      else notPressed(press, "Some fields have to be corrected. Nothing was filed.");
    } catch {
      notPressed(press, "The server could not be asked, so nothing was sent. What you wrote stays here.", () => this.press());
    } finally {
      this.checking = false;
    }
  }

  // Whether anything is. Each sentence stands beside its field; the first of them gets the focus.
  wrong(sentences) {
    for (const field of this.fields) {
      const sentence = sentences[field.name.slice("arg_".length)] || "";
      this.form.querySelector(`[data-error-of="${field.name.slice("arg_".length)}"]`).textContent = sentence;
      if (sentence) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
    this.form.querySelector("[aria-invalid]")?.focus();
    return Object.keys(sentences).length > 0;
  }

  signedOut(press) {
    current = press;
    refused(press, { status: 401, code: "not_authenticated" });
  }

  filed(press) {
    if (!press.arguments) return;
    for (const field of this.fields) if (field.value === (press.arguments[field.name.slice("arg_".length)] ?? "")) field.value = "";
    this.keep();
  }
}

const hands = new Map();
for (const form of document.querySelectorAll("form[data-by-hand]")) hands.set(form.dataset.byHand, new Hand(form));

window.addEventListener("pageshow", resume);
