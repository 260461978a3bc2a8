// Shows whether the page is live, pauses and resumes it, sends the width of charts, and posts changes.
//
// Each `tick` of the stream becomes a `refresh` event, at which the fragment is requested. A paused page keeps its
// stream, but sends no `refresh`.
"use strict";
(() => {
  const body = document.body;
  const sign = document.getElementById("live");
  const button = document.getElementById("pause");
  const outcome = document.getElementById("outcome");
  const STALE_AT_LEAST_MS = 3000;
  // A stream without events for so long is reopened, even if the connection seems intact.
  const DEAD_MS = 15000;

  let last = performance.now();
  let interval = 1000;
  let ended = false;
  let paused = false;
  let connection = null;

  const refresh = () => paused || body.dispatchEvent(new CustomEvent("refresh"));

  function show() {
    const silent = performance.now() - last;
    const stale = silent > Math.max(3 * interval, STALE_AT_LEAST_MS);
    const state = ended ? "ended" : stale ? "stale" : paused ? "paused" : "live";
    const words = { ended: "recording ended", stale: `stale ${Math.floor(silent / 1000)} s`, paused: "paused", live: "live" };
    if (sign && sign.textContent !== words[state]) sign.textContent = words[state];
    body.dataset.live = state;
    if (!ended && silent > Math.max(DEAD_MS, 3 * interval) && connection && connection.reader) {
      connection.reader.cancel();
      connection = null;
    }
  }

  // Title and icon show the host's grade; a change is announced once.
  const SIGNS = { ok: "", unknown: "? ", warning: "▲ ", critical: "✖ " };
  function grade({ grade: now, sentence }) {
    const before = body.dataset.grade;
    if (!(now in SIGNS) || now === before) return;
    body.dataset.grade = now;
    document.title = SIGNS[now] + document.title.slice(SIGNS[before].length);
    const icon = document.getElementById("icon");
    icon.href = icon.href.replace(/favicon-\w+/, `favicon-${now}`);
    document.getElementById("announcement").textContent = `${now}: ${sentence.replaceAll("`", "")}`;
  }

  function pause() {
    paused = !paused;
    if (button) {
      button.textContent = paused ? "Resume" : "Pause";
      button.setAttribute("aria-pressed", String(paused));
    }
    refresh();
    show();
  }

  body.addEventListener("tick", (event) => {
    let tick = {};
    try {
      tick = JSON.parse(event.detail.data);
    } catch {
      // Any event shows that the daemon is alive.
    }
    last = performance.now() - (Number(tick.age_ms) || 0);
    interval = Number(tick.interval_ms) || interval;
    ended = tick.ended === true;
    grade(tick);
    refresh();
    show();
  });

  body.addEventListener("htmx:sse:after:connection", (event) => {
    connection = event.detail.connection;
  });

  // Charts are drawn for their actual width, in steps of 20 pixels.
  body.addEventListener("htmx:config:request", (event) => {
    const source = event.detail.ctx.sourceElement;
    if (source.id !== "now") return;
    event.detail.ctx.request.body.set("width", Math.max(240, Math.floor(source.clientWidth / 20) * 20));
  });

  function list(place, results) {
    place.replaceChildren(...results.map(({ receiver, is_delivered, answer }) => {
      const line = document.createElement("li");
      line.textContent = `${is_delivered ? "✓" : "✖"} ${receiver}: ${answer}`;
      return line;
    }));
  }

  // What a button did, or why not. Its place is outside the live part, so no tick removes it.
  function say(text, isProblem) {
    outcome.textContent = text;
    outcome.classList.toggle("problem", isProblem);
  }

  // Sends what a button stands for. Pages without a live part are loaded again.
  async function send(sender) {
    sender.disabled = true;
    say("", false);
    try {
      const { send: url, method = "POST", body: content, shows } = sender.dataset;
      const answer = await fetch(url, { method, body: content, headers: { "Content-Type": "application/json" } });
      if (answer.status === 401) return location.assign(body.dataset.login);
      const said = await answer.json();
      const words = [said.done, said.message].filter(Boolean).join("; ");
      if (!answer.ok) say(said.error, true);
      else if (shows) list(document.getElementById(shows), said);
      else if (words) say(words, answer.status === 202);
      else return location.reload();
      body.dispatchEvent(new CustomEvent("refresh"));
    } catch {
      say("cowbell did not answer: try again", true);
    }
    sender.disabled = false;
  }

  document.addEventListener("click", (event) => {
    const sender = event.target.closest("button[data-send]");
    if (sender) send(sender);
  });
  button?.addEventListener("click", pause);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "p" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
  });
  setInterval(show, 500);
})();
