// Every page: times in the reader's own zone. The server wrote them in its zone, with its name, for browsers without script.
"use strict";

const STYLES = {
  full: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" },
  second: {
    day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  },
  clock: { hour: "2-digit", minute: "2-digit", timeZoneName: "short" },
};

function localTime(at, style) {
  return new Intl.DateTimeFormat(undefined, { ...STYLES[style], hourCycle: "h23" }).format(at);
}

function localTimes(part) {
  for (const element of part.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (element.dataset.style) {
      element.title = element.textContent;
      element.textContent = localTime(at, element.dataset.style);
    } else {
      element.title = localTime(at, "full");
    }
  }
}

localTimes(document);

// What this browser kept for the one who signs out goes with them; the server has what it could save.
let signingOut = false;

document.addEventListener("submit", (event) => {
  if (event.target.getAttribute("action") !== "/logout") return;
  signingOut = true;
  for (const storage of [window.localStorage, window.sessionStorage]) {
    for (const name of Object.keys(storage)) if (name.startsWith("receipts:")) storage.removeItem(name);
  }
});
