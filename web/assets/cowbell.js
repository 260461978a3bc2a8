// Shows whether the page is live, pauses and resumes it, sends the width of charts, and posts changes.
//
// Each `tick` of the stream becomes a `refresh` event, at which the fragment is requested. A paused page keeps its
// stream, but sends no `refresh`, also on the next page.
"use strict";
(() => {
  const body = document.body;
  const sign = document.getElementById("live");
  const button = document.getElementById("pause");
  const outcome = document.getElementById("outcome");
  const STALE_AT_LEAST_MS = 3000;
  // A screen on the wall shows the time, and only rows that fit.
  const kiosk = new URLSearchParams(location.search).has("kiosk");
  const time = new Intl.DateTimeFormat("en-GB", { timeZone: document.getElementById("zone")?.dataset.zone, timeStyle: "medium" });
  function fit() {
    const rows = kiosk ? [...document.querySelectorAll(".fills tbody tr")] : [];
    for (const row of rows) row.hidden = false;
    for (const row of rows.reverse()) row.hidden = row.getBoundingClientRect().bottom > innerHeight;
  }

  // Of this computer, the same in the worker, and without its steps.
  const clock = () => performance.timeOrigin + performance.now();
  let interval = 1000;
  let ended = false;
  let paused = sessionStorage.getItem("paused") === "true";
  // When the newest tick was taken, and that of which something is shown.
  let newest = clock();
  let shown = clock();
  let problem = "";
  const now = document.getElementById("now");
  const every = () => Number(now?.dataset.everyMs) || 0;

  const refresh = () => paused || isPast() || document.hidden || body.dispatchEvent(new CustomEvent("refresh"));

  // The age is that of what is shown, not of the stream. A page that does not change is as old as the stream.
  function show() {
    const age = clock() - (every() ? shown : newest);
    const stale = age > Math.max(3 * interval, STALE_AT_LEAST_MS) + every();
    const state = ended ? "ended" : paused ? "paused" : isPast() ? "past" : stale ? "stale" : "live";
    const seconds = `${Math.floor(age / 1000)} s`;
    const live = kiosk ? time.format(new Date()) : "live";
    const words = { ended: "recording ended", stale: `stale ${seconds}`, paused: `paused, ${seconds}`, past: "past", live };
    if (sign && sign.textContent !== words[state]) sign.textContent = words[state];
    if (sign) sign.title = stale ? problem : "";
    body.dataset.live = state;
  }

  function isPast() {
    const to = new URLSearchParams(location.search).get("to");
    return Boolean(to) && to !== "now" && !to.startsWith("-");
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
    const text = sentence.replaceAll("`", "");
    document.getElementById("announcement").textContent = `${now}: ${text}`;
    // Windows of one host replace each other's.
    const host = document.querySelector(".host").textContent;
    if (now === "critical" && notifies()) new Notification(`${host}: critical`, { body: text, tag: host });
  }

  function pause(next) {
    paused = next;
    sessionStorage.setItem("paused", String(paused));
    if (button) {
      button.textContent = paused ? "Resume" : "Pause";
      button.setAttribute("aria-pressed", String(paused));
    }
    refresh();
    show();
  }

  function hear({ data, at }) {
    let tick = {};
    try {
      tick = JSON.parse(data);
    } catch {
      // Any event shows that the daemon is alive.
    }
    newest = at - (Number(tick.age_ms) || 0);
    interval = Number(tick.interval_ms) || interval;
    ended = tick.ended === true;
    grade(tick);
    refresh();
    show();
  }

  // A window out of sight gives up the stream, unless it notifies, and is up to date at once when it is seen again.
  const { stream, worker } = body.dataset;
  const port = window.SharedWorker ? new SharedWorker(worker).port : null;
  if (port) port.onmessage = ({ data }) => hear(data);
  function listen() {
    const address = document.hidden && !notifies() ? "" : new URL(stream, location.href).href;
    if (port) return port.postMessage(address);
    if (!address) return window.cowbellStream?.stop();
    const start = () => window.cowbellStream.start(address, (data) => hear({ data, at: clock() }));
    if (window.cowbellStream) return start();
    const script = document.createElement("script");
    script.src = worker;
    script.onload = start;
    document.head.append(script);
  }
  addEventListener("pagehide", () => port?.postMessage(""));
  addEventListener("pageshow", listen);
  document.addEventListener("visibilitychange", () => {
    listen();
    if (!document.hidden && !paused) body.dispatchEvent(new CustomEvent("seen"));
  });

  // After an error, the last picture remains.
  body.addEventListener("htmx:after:swap", (event) => {
    if (event.detail.ctx.response.status >= 400) return;
    [shown, problem] = [newest, ""];
    fit();
    show();
  });
  body.addEventListener("htmx:response:error", (event) => {
    problem = `cowbell answered with ${event.detail.ctx.response.status}`;
  });
  body.addEventListener("htmx:error", () => {
    problem = "cowbell does not answer";
  });

  // Charts are drawn for their actual width and for the height of the window, in steps of 20 pixels: three of them fit below
  // the overview's table. A wide screen has two columns, unless there are one or three charts, as in cowbell.css.
  const [COLUMN_GAP, ABOVE_CHARTS, OF_LEGEND, AROUND_LARGE, MOST, MOST_ALONE] = [32, 470, 60, 160, 360, 720];
  const wide = matchMedia("(min-width: 1800px)");
  function chartSize(place) {
    if (body.classList.contains("enlarged")) return [innerWidth - 48, innerHeight - AROUND_LARGE];
    const count = place.querySelectorAll(".charts > figure").length;
    const columns = wide.matches && count !== 1 && count !== 3 ? 2 : 1;
    const rows = count === 1 ? 1 : Math.ceil(3 / columns);
    const height = (innerHeight - ABOVE_CHARTS) / rows - OF_LEGEND;
    return [(place.clientWidth - (columns - 1) * COLUMN_GAP) / columns, Math.min(height, count === 1 ? MOST_ALONE : MOST)];
  }
  body.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    if (ctx.sourceElement.id !== "now") return;
    const [width, height] = chartSize(ctx.sourceElement).map((pixels) => Math.floor(pixels / 20) * 20);
    ctx.request.body.set("width", Math.max(240, width));
    ctx.request.body.set("height", Math.max(0, height));
  });

  function list(place, results) {
    place.replaceChildren(...results.map(({ receiver, is_delivered, answer }) => {
      const line = document.createElement("li");
      line.textContent = `${is_delivered ? "✓" : "✖"} ${receiver}: ${answer}`;
      return line;
    }));
  }

  /** The fields of a form as JSON; `hours` is how long it holds. */
  function fieldsOf(form) {
    const { hours, ...fields } = Object.fromEntries(new FormData(form));
    if (hours) fields.until = new Date(Date.now() + hours * 3600e3).toISOString();
    return JSON.stringify(fields);
  }

  // What a button did, or why not. Its place is outside the live part, so no tick removes it.
  function say(text, isProblem) {
    outcome.textContent = text;
    outcome.classList.toggle("problem", isProblem);
  }

  // Sends what a button or a form stands for, once or for each of several IDs. Pages without a live part are loaded again.
  // If it needs the token, it is sent again after the login.
  async function send(sender, change) {
    sender.disabled = true;
    say("", false);
    try {
      const { send: url, ids = "", method = "POST", content, shows } = change;
      let answer;
      for (const id of ids.split(" ")) {
        answer = await fetch(url.replace("ID", id), { method, body: content, headers: { "Content-Type": "application/json" } });
        if (answer.status === 401) {
          sessionStorage.setItem("change", JSON.stringify({ ...change, page: page() }));
          return location.assign(`${body.dataset.login}?back=${encodeURIComponent(page())}`);
        }
        if (!answer.ok) break;
      }
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

  // The clipboard's own function needs HTTPS or localhost.
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    say("The command was copied.", false);
  }

  document.addEventListener("click", (event) => {
    const sender = event.target.closest("button[data-send]");
    if (sender) send(sender, { ...sender.dataset });
    const copier = event.target.closest("button[data-copy]");
    if (copier) copy(copier.dataset.copy);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-send]");
    if (!form) return;
    event.preventDefault();
    send(form.querySelector("button"), { ...form.dataset, content: fieldsOf(form) });
  });
  const page = () => location.pathname + location.search;
  const postponed = JSON.parse(sessionStorage.getItem("change"));
  sessionStorage.removeItem("change");
  if (postponed?.page === page() && body.dataset.changes === "allowed") send({}, postponed);
  button?.addEventListener("click", () => pause(!paused));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "p") pause(!paused);
    if (event.key === "u") document.querySelector("#zone button")?.click();
  });

  // Pages show times in the zone that a cookie names: the browser's, unless UTC was chosen.
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone.replace(/^Etc\/UTC$/, "UTC");
  const chosen = () => /(?:^|; )zone=([^;]*)/.exec(document.cookie)?.[1];
  function choose(zone) {
    document.cookie = `zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax`;
    if (chosen() === zone) location.reload();
  }
  if (![here, "UTC"].includes(chosen()) && here !== "UTC") choose(here);
  const place = document.getElementById("zone");
  if (place && here !== "UTC") {
    const switcher = document.createElement("button");
    [switcher.type, switcher.textContent, switcher.title] = ["button", place.textContent, "Switches between UTC and here; key: u"];
    switcher.addEventListener("click", () => choose(chosen() === here ? "UTC" : here));
    place.replaceChildren(switcher);
  }
  // The system's theme, or the one that a cookie names.
  const themes = { "": "Theme of the system", light: "Light theme", dark: "Dark theme" };
  const theme = document.getElementById("theme");
  function dress(next) {
    if (next) body.dataset.theme = next;
    else delete body.dataset.theme;
    if (theme) theme.textContent = themes[next];
  }
  theme?.addEventListener("click", () => {
    const names = Object.keys(themes);
    const next = names[(names.indexOf(body.dataset.theme ?? "") + 1) % names.length];
    document.cookie = `theme=${next}; Path=/; Max-Age=31536000; SameSite=Lax`;
    dress(next);
  });
  dress(body.dataset.theme ?? "");

  // Browsers show notifications of sites over HTTPS or of localhost.
  const bell = document.getElementById("notify");
  const notifies = () => window.isSecureContext && window.Notification?.permission === "granted" && localStorage.getItem("notify") === "true";
  const ring = () => bell?.setAttribute("aria-pressed", String(notifies()));
  if (bell) bell.hidden = !(window.isSecureContext && window.Notification);
  bell?.addEventListener("click", async () => {
    localStorage.setItem("notify", String(!notifies() && await Notification.requestPermission() === "granted"));
    ring();
  });
  ring();
  body.classList.add("scripted");
  body.classList.toggle("kiosk", kiosk);
  addEventListener("resize", fit);
  fit();
  pause(paused);
  setInterval(show, 500);
})();
