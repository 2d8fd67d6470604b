// The side panel: presses, shows the draft, and ends at the truth of the receipt row.
//
// Success is said of a row whose status is `applied`, and of nothing else: not of a stream's end, not of an HTTP status.
// A press keeps its key in this tab until its row is settled, so that a dropped socket, a reload, the back button and a
// second click all lead to the same row.
"use strict";

const config = JSON.parse(document.getElementById("panel-config").textContent);
const MAIN = "followups";
const api = (press) => `/api/v1/tickets/${config.ticket}/${press.what}`;
const said = (what) => config.words.tools[config.tools[what]];
const formOf = (what) => document.querySelector(`form.press[data-what="${what}"]`);
const notesOf = (what) => formOf(what).elements.notes; // undefined where there is nothing to say
const at = (name) => document.getElementById(`panel-${name}`);

// ── what this tab remembers ─────────────────────────────────────────────────────────────────────────────────────

const slot = (name) => `receipts:${config.person}:${config.ticket}:${name}`;

function remember(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(slot(name));
    else sessionStorage.setItem(slot(name), JSON.stringify(value));
  } catch {
    // storage is full or forbidden: the page still works, a reload forgets
  }
}

function recall(name) {
  try {
    return JSON.parse(sessionStorage.getItem(slot(name)));
  } catch {
    return null;
  }
}

// Not randomUUID: that exists on https and localhost only.
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// As the server counts: characters, not UTF-16 units, and one for every line break.
const lengthOf = (text) => Array.from(text.replace(/\r\n?/g, "\n")).length;

// ── what the panel shows ────────────────────────────────────────────────────────────────────────────────────────

function announce(text) {
  document.getElementById("announcer").textContent = text;
}

// `what` was pressed: each has its own words for the same states.
function show(what, state, { receipt = null, again = false } = {}) {
  document.getElementById("panel").dataset.state = state;
  at("icon").setAttribute("href", `#icon-${state}`);
  const words = said(what).standings[state];
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

function showFailure({ sentence, owner, next_step }, retry) {
  at("failure").hidden = false;
  at("sentence").textContent = sentence;
  at("owner").textContent = owner;
  at("next").textContent = next_step;
  at("retry").hidden = !retry;
  at("retry").onclick = retry;
}

function clearPanel() {
  at("moved").hidden = true;
  at("failure").hidden = true;
  at("draft").hidden = true;
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
      at("elapsed").textContent = `${Math.floor(elapsed)} s of ${config.budgetSeconds} s`;
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
  clock.start(press.pressedAt);
  document.getElementById("panel").scrollIntoView({ block: "nearest" });
  return press;
}

function end() {
  current = null;
  busy(false);
  clock.stop();
}

async function send(press) {
  begin(press);
  show(press.what, "checking");
  const response = await fetch(api(press), {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "text/event-stream, application/json;q=0.5",
      "Idempotency-Key": press.key,
      "X-CSRFToken": csrfToken(),
    },
    body: JSON.stringify(notesOf(press.what) ? { notes: press.notes } : {}),
  });
  if (response.ok) return receive(press, response, response.headers.get("Idempotent-Replayed") === "true");
  return refused(press, await problemOf(response));
}

// Read at the moment of the press: signing in elsewhere changes it.
function csrfToken() {
  const cookie = document.cookie.split("; ").find((item) => item.startsWith("csrftoken="));
  return cookie ? cookie.slice("csrftoken=".length) : formOf(MAIN).elements.csrfmiddlewaretoken.value;
}

// Raises where the answer proves nothing about the row: a proxy's page, a ledger out of reach, a fault on the way.
async function problemOf(response) {
  const isJson = (response.headers.get("Content-Type") || "").includes("json");
  const problem = isJson ? await response.json() : {};
  const uncertain = response.status >= 500 && problem.code !== "overloaded" && !problem.receipt_id;
  if (!isJson || uncertain) throw new Error(`answered ${response.status}`);
  return problem;
}

async function receive(press, response, again = false) {
  let receipt = null;
  if ((response.headers.get("Content-Type") || "").startsWith("text/event-stream")) {
    for await (const { name, data } of events(response.body)) {
      if (press !== current) return;
      if (name === "receipt") receipt = heard(press, data);
      else if (name === "draft") showFields(data.fields || {}, said(press.what).label_draft);
      else if (name === "decision") decided(press, receipt, data);
    }
  } else {
    receipt = heard(press, await response.json());
  }
  if (receipt && receipt.status !== "pending") return settle(press, receipt, again);
  show(press.what, "complete", { receipt }); // the stream has ended and the row has not: nothing is claimed
  return watch(press);
}

function heard(press, receipt) {
  if (press.receiptId !== receipt.receipt_id) {
    press.receiptId = receipt.receipt_id;
    remember("press", press);
  }
  if (receipt.status === "pending") {
    show(press.what, receipt.overdue ? "checking" : "drafting", { receipt });
    if (!press.announced) announce(said(press.what).standings.drafting);
    press.announced = true;
  }
  return receipt;
}

function decided(press, receipt, data) {
  showFields(data.proposed || data, said(press.what).label_draft);
  show(press.what, "filing", { receipt });
}

// Server-sent events of a fetch body: `event:` and `data:` lines, a blank line between events, comments dropped.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
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
  if (receipt.status === "applied") {
    show(press.what, "filed", { receipt, again });
    const decision = config.words.decisions[receipt.result_ref];
    showFields(decision ? { decision } : receipt.arguments, said(press.what).label_done);
    at("moved").hidden = !receipt.context_moved;
    announce(`${said(press.what).done}, ${numberOf(receipt)}${receipt.context_moved ? `. ${at("moved").textContent}` : ""}`);
    const notes = notesOf(press.what);
    if (notes && notes.value === press.notes) notes.value = "";
    if (notes) keepNotes(press.what);
    return;
  }
  const why = config.words.reasons[receipt.error_reason] || config.words.codes[receipt.error_code] || {
    sentence: `The reason is “${receipt.error_code}”.`, owner: "an operator", next_step: "Give the receipt to an operator.",
  };
  const retryable = receipt.outcome === "retryable";
  show(press.what, "not_filed", { receipt });
  showFailure(why, retryable ? () => press !== current && pressAgain(press) : null);
  if (retryable) remember("retryable", press);
  announce(`${said(press.what).undone}. ${why.sentence} ${why.next_step}`);
}

function pressAgain(press) {
  go({ ...press, pressedAt: Date.now(), announced: false });
}

// A refusal before any receipt, or about another one. Notes and key stay where the key can be used again.
function refused(press, problem) {
  if (problem.code === "idempotency_in_flight" && problem.receipt_id) {
    press.receiptId = problem.receipt_id;
    remember("press", press);
    return watch(press);
  }
  end();
  remember("press", null);
  show(press.what, "not_filed", { receipt: problem.receipt_id ? { receipt_id: problem.receipt_id } : null });
  const signedOut = problem.status === 401;
  const known = config.words.codes[problem.code] || {};
  showFailure(
    {
      sentence: signedOut ? "Signed out — sign in to continue. Your notes stay here." : sentenceOf(problem.detail),
      owner: problem.owner || known.owner || "you",
      next_step: problem.next_step || known.next_step || "",
    },
    problem.retryable || signedOut ? () => pressAgain(press) : null,
  );
  if (signedOut) {
    const link = document.createElement("a");
    link.href = `/login?next=${encodeURIComponent(location.pathname)}`;
    link.textContent = "Sign in";
    at("next").replaceChildren(link);
  }
  announce(`${said(press.what).undone}. ${at("sentence").textContent}`);
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
    for (const id of ["ticket-head", "followups", "presses"]) {
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
    await new Promise((resolve) => window.setTimeout(resolve, pause * 1000));
    if (press !== current) return;
    try {
      if (!press.receiptId) return await send(press);
      const response = await fetch(`/api/v1/receipts/${press.receiptId}`, { headers: { Accept: "application/json" } });
      if (response.status === 401) return refused(press, await problemOf(response));
      if (!response.ok) throw new Error(`answered ${response.status}`);
      const receipt = await response.json();
      if (receipt.status !== "pending") return settle(press, receipt, false);
      if (receipt.overdue) return overdue(press, receipt);
      show(press.what, "drafting", { receipt });
    } catch {
      lost();
    }
  }
}

// Past its deadline and not stamped: the same key settles it and runs the next attempt, but only when asked to.
function overdue(press, receipt) {
  end();
  show(press.what, "checking", { receipt });
  showFailure(config.words.codes.abandoned, () => pressAgain(press));
}

function lost() {
  if (!current) return;
  show(current.what, "checking", { receipt: current.receiptId ? { receipt_id: current.receiptId } : null });
  if (!current.lost) announce(said(current.what).standings.checking);
  current.lost = true;
}

async function go(press) {
  try {
    await send(press);
  } catch {
    if (press !== current) return;
    lost();
    await watch(press);
  }
}

// A reload, the back button, another page and back: go on with the press that this tab has not seen settled.
async function resume() {
  const press = recall("press");
  if (!press || current) return;
  begin({ what: MAIN, ...press, announced: true });
  lost();
  if (!press.receiptId) return go(current);
  try {
    const response = await fetch(`/api/v1/receipts/${press.receiptId}/events`, { headers: { Accept: "text/event-stream" } });
    if (!response.ok) throw new Error(`answered ${response.status}`);
    await receive(current, response);
  } catch {
    await watch(current);
  }
}

// ── notes ───────────────────────────────────────────────────────────────────────────────────────────────────────

function keepNotes(what) {
  const notes = notesOf(what);
  const length = lengthOf(notes.value);
  const count = formOf(what).querySelector(".notes-count");
  count.textContent = `${length.toLocaleString("en")} of ${config.notesMax.toLocaleString("en")} characters`;
  count.classList.toggle("over", length > config.notesMax);
  remember(what === MAIN ? "notes" : `notes:${what}`, notes.value || null);
}

// What is wrong with notes, or nothing.
function wrongWith(notes) {
  if (!notes.value.trim()) return "are blank";
  return lengthOf(notes.value) > config.notesMax ? `are longer than ${config.notesMax.toLocaleString("en")} characters` : "";
}

// On the document: the head of the ticket, and the form in it, is written anew after a press.
document.addEventListener("submit", (event) => {
  const { what } = event.target.dataset;
  if (!what) return;
  event.preventDefault();
  if (current) return; // the second of two clicks
  const notes = notesOf(what);
  const problem = notes ? wrongWith(notes) : "";
  if (problem) {
    clearPanel();
    show(what, "not_filed");
    const { owner, next_step } = config.words.codes.invalid_request;
    showFailure({ sentence: `The notes ${problem}. Nothing was drafted or filed.`, owner, next_step }, null);
    announce(`${said(what).undone}. The notes ${problem}.`);
    notes.focus();
    return;
  }
  // the same notes after a retryable end continue the same receipt; changed notes are a new press
  const text = notes ? notes.value : "";
  const last = recall("retryable");
  remember("retryable", null);
  const key = last && last.what === what && last.notes === text ? last.key : newKey();
  go({ what, key, notes: text, pressedAt: Date.now() });
});

for (const form of document.querySelectorAll("form.press")) {
  const { what } = form.dataset;
  const notes = notesOf(what);
  if (!notes) continue;
  notes.addEventListener("input", () => keepNotes(what));
  if (!notes.value) notes.value = recall(what === MAIN ? "notes" : `notes:${what}`) || "";
  keepNotes(what);
}
window.addEventListener("pageshow", resume);
