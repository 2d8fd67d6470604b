// The receipt page: copies its link, and follows a row that is not settled yet.
"use strict";

const verdict = document.getElementById("verdict");
const copy = document.getElementById("copy");
const address = document.getElementById("address");

copy.hidden = false;
copy.addEventListener("click", async () => {
  const label = copy.querySelector("span");
  try {
    await navigator.clipboard.writeText(address.value);
    label.textContent = "Copied";
  } catch {
    address.select(); // no clipboard here: the text is marked, ready for Ctrl-C
    label.textContent = "Press Ctrl-C";
  }
});

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
