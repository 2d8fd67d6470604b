// What is typed into a ticket's forms: kept on the server for this person, and in this browser until the server has it.
//
// The server replaces a text only for a tab that has seen it. Where two tabs differ, both texts stay and the person
// chooses. Nothing here ever empties a box, but for notes that their receipt says were filed.
"use strict";

const config = JSON.parse(document.getElementById("panel-config").textContent);
const formOf = (what) => document.querySelector(`form.press[data-what="${what}"]`);

// ── this browser's memory ───────────────────────────────────────────────────────────────────────────────────────

const DAYS = 30; // as long as the server keeps them

const slot = (name) => `receipts:${config.person}:${config.ticket}:${name}`;

function put(storage, name, value) {
  try {
    if (value === null) window[storage].removeItem(slot(name));
    else window[storage].setItem(slot(name), JSON.stringify({ value, at: Date.now() }));
  } catch {
    // storage is full or forbidden: the page still works, a reload forgets
  }
}

function get(storage, name) {
  try {
    const kept = JSON.parse(window[storage].getItem(slot(name)));
    return kept && Date.now() - kept.at < DAYS * 86_400_000 ? kept.value : null;
  } catch {
    return null;
  }
}

// ── talking to the server ───────────────────────────────────────────────────────────────────────────────────────

// Read when it is needed: signing in elsewhere changes it.
function csrfToken() {
  const cookie = document.cookie.split("; ").find((item) => item.startsWith("csrftoken="));
  return cookie ? cookie.slice("csrftoken=".length) : formOf("followups").elements.csrfmiddlewaretoken.value;
}

// A request that changes something. Where the token had gone astray, reading the notes brings a new one.
async function change(address, options) {
  const ask = () => fetch(address, { ...options, headers: { ...options.headers, "X-CSRFToken": csrfToken() } });
  const response = await ask();
  if (response.status !== 403) return response;
  const about = await fetch(`/tickets/${config.ticket}/followups/notes`, { headers: { Accept: "application/json" } });
  return about.ok ? ask() : response;
}

// As the server counts: characters, not UTF-16 units, and one for every line break.
function lengthOf(text) {
  let pairs = 0;
  for (let i = 0; i < text.length; i += 1) if ((text.charCodeAt(i) & 0xfc00) === 0xd800) pairs += 1;
  return text.length - pairs;
}

const number = (count) => count.toLocaleString("en");

// ── one form's text ─────────────────────────────────────────────────────────────────────────────────────────────

const SAVE_AFTER = 800; // ms without a key
const TRY_AGAIN = 5000; // ms, twice as long each time

class Notes {
  constructor(form) {
    this.form = form;
    this.what = form.dataset.what;
    this.box = form.elements.notes;
    this.others = form.querySelector(".notes-others");
    this.timer = null;
    this.saving = false;
    this.pause = TRY_AGAIN;
    this.sent = new Set(); // saves whose answer never came: what they left on the server is this tab's own
    this.choosing = false; // another text is saved, and the person has not chosen yet
    this.known(config.kept[this.what]);
    this.begin();
    this.box.addEventListener("input", () => this.typed());
    for (const button of form.querySelectorAll("[data-choice]")) {
      button.addEventListener("click", () => this.choose(button.dataset.choice));
    }
    form.querySelector(".choices").hidden = false;
  }

  // What the server has, as far as this tab has seen.
  known({ text, version }) {
    this.saved = text;
    this.version = version;
  }

  // The box holds what the server wrote into it, or what this browser kept and the server does not have yet.
  begin() {
    const own = get("sessionStorage", this.slot) || get("localStorage", this.slot);
    const given = this.box.value !== this.saved; // from a receipt, from before the sign-in, from a refused press
    if (own && !given) {
      this.box.value = own.text;
      if (own.version !== this.version && this.saved && this.saved !== own.text) this.differ(config.kept[this.what]);
    } else if (given && this.saved) {
      this.differ(config.kept[this.what]);
    }
    this.count();
    if (this.box.value !== this.saved) this.later();
    else this.keep();
  }

  get slot() {
    return `notes:${this.what}`;
  }

  typed() {
    this.count();
    this.later();
  }

  count() {
    const length = lengthOf(this.box.value);
    const shown = this.form.querySelector(".notes-count");
    shown.textContent = `${number(length)} of ${number(config.notesMax)} characters`;
    shown.classList.toggle("over", length > config.notesMax);
  }

  later(wait = SAVE_AFTER) {
    if (this.box.value !== this.saved) this.say("");
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.save(), wait);
  }

  // In this browser: what the server does not have.
  keep() {
    if (signingOut) return;
    const unsaved = this.box.value === this.saved ? null : { text: this.box.value, version: this.version };
    put("sessionStorage", this.slot, unsaved);
    put("localStorage", this.slot, unsaved);
  }

  async save({ leaving = false } = {}) {
    window.clearTimeout(this.timer);
    this.keep();
    const text = this.box.value;
    if (this.saving || this.choosing || text === this.saved) return;
    if (lengthOf(text) > config.notesMax) {
      this.trouble(`Too long to be saved on the server: at most ${number(config.notesMax)} characters fit. This browser keeps them.`);
      return;
    }
    this.saving = true;
    this.sent.add(text);
    try {
      const response = await change(`/tickets/${config.ticket}/${this.what}/notes`, {
        method: "PUT",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify({ text, version: this.version }),
        keepalive: leaving,
      });
      await this.heard(text, response);
    } catch {
      this.unsaved("Not saved on the server yet. This browser keeps them, and tries again.");
    } finally {
      this.saving = false;
    }
  }

  async heard(text, response) {
    if (response.status === 401) {
      this.unsaved("You are signed out, so the server does not save your notes. This browser keeps them.", true);
      return;
    }
    if (!response.ok && response.status !== 409) {
      this.unsaved("Not saved on the server yet. This browser keeps them, and tries again.");
      return;
    }
    const answer = await response.json();
    if (response.status === 409 && this.sent.has(answer.text)) {
      this.known(answer);
      this.later(0);
      return;
    }
    if (response.status === 409) {
      this.differ(answer);
      return;
    }
    this.sent.clear();
    this.known(answer);
    this.saved = text;
    this.pause = TRY_AGAIN;
    this.keep();
    this.trouble("");
    this.say(answer.saved_at ? `Saved ${localTime(new Date(answer.saved_at), "clock")}` : "");
    if (this.box.value !== text) this.later();
  }

  unsaved(sentence, signedOut = false) {
    this.trouble(sentence, signedOut);
    this.later(this.pause);
    this.pause = Math.min(this.pause * 2, 60_000);
  }

  say(text) {
    this.form.querySelector(".notes-saved").textContent = text;
  }

  trouble(sentence, signedOut = false) {
    const place = this.form.querySelector(".notes-trouble");
    if (place.dataset.sentence === sentence) return;
    place.dataset.sentence = sentence;
    place.hidden = !sentence;
    place.replaceChildren(sentence);
    if (signedOut) {
      const link = document.createElement("a");
      link.href = "/login";
      link.target = "_blank";
      link.textContent = "Sign in in another tab";
      place.append(" ", link);
    }
    if (sentence) announce(sentence);
  }

  // Another text is saved. Nothing is overwritten until somebody says which one to keep.
  differ(kept) {
    if (kept.text === this.box.value) {
      this.known(kept);
      this.keep();
      return;
    }
    this.choosing = true;
    this.other = kept;
    this.others.querySelector(".notes-others-text").textContent = kept.text || "(They were emptied.)";
    this.others.hidden = false;
    this.keep();
    announce(this.others.querySelector("p").textContent);
  }

  choose(choice) {
    this.choosing = false;
    this.known(this.other);
    if (choice === "others") {
      this.box.focus();
      this.box.select();
      // as if it were typed, so that the browser's own undo brings the replaced text back
      if (!document.execCommand("insertText", false, this.other.text)) this.box.value = this.other.text;
    }
    this.others.hidden = true;
    this.box.focus();
    this.count();
    this.save();
  }

  // A receipt says that this text was filed: it goes, unless something else stands there by now.
  filed(text) {
    if (this.box.value !== text) return;
    this.box.value = "";
    this.count();
    this.say("");
    this.save();
  }
}

// One live region for the page. It says boundaries: began, ended, trouble; never the words of a draft.
function announce(text) {
  document.getElementById("announcer").textContent = text;
}

const notes = new Map();
for (const form of document.querySelectorAll("form.press")) {
  if (form.elements.notes) notes.set(form.dataset.what, new Notes(form));
}

window.addEventListener("online", () => notes.forEach((kept) => kept.save()));
document.addEventListener("visibilitychange", () => notes.forEach((kept) => kept.save({ leaving: document.hidden })));
window.addEventListener("pagehide", () => notes.forEach((kept) => kept.save({ leaving: true })));
