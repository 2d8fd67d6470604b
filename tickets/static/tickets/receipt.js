// The receipt page: copies its link and its JSON, and follows a row that is not settled yet.
"use strict";

const verdict = document.getElementById("verdict");

for (const button of document.querySelectorAll("[data-copies]")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button, document.getElementById(button.dataset.copies)));
}

async function copy(button, source) {
  const label = button.querySelector("span");
  try {
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    label.textContent = "Copied";
  } catch {
    window.getSelection().selectAllChildren(source); // no clipboard here: the text is marked, ready for Ctrl-C
    source.select?.();
    label.textContent = "Press Ctrl-C";
  }
}

async function follow() {
  try {
    const response = await fetch(`/api/v1/receipts/${verdict.dataset.receipt}`, { headers: { Accept: "application/json" } });
    if (response.ok) {
      const receipt = await response.json();
      if (receipt.status !== "pending" || receipt.overdue) {
        window.location.reload();
        return;
      }
    }
  } catch {
    // offline: ask again, the page goes on saying what it last knew
  }
  window.setTimeout(follow, 2000);
}

if (verdict.hasAttribute("data-open") && verdict.dataset.state !== "checking") follow();
