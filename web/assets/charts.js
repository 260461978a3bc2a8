// Answers questions about charts: a crosshair through all of them, legends that hide lines, and ranges by dragging.
//
// Each SVG carries its numbers in <metadata> (src/chart/numbers.rs). The server draws every picture; this script only lays
// something over it. All views are addresses. Text from outside is only ever set as textContent.
"use strict";
(() => {
  const page = document.getElementById("now");
  if (!page) return;
  // A longer distance between neighbours than this many usual ones is a gap, as in src/chart/runs.rs.
  const GAP = 2.5;

  /** One for each figure: its elements, its numbers, and its lines by label. */
  let charts = [];
  /** The time under the crosshair in milliseconds, or null. */
  let cross = null;
  /** Hidden lines, as "title / label". */
  const hidden = new Set();

  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  function say(target, text) {
    if (target.textContent !== text) target.textContent = text;
  }

  // Numbers

  function decoded(svg) {
    const text = svg.querySelector("metadata")?.textContent;
    if (!text) return null;
    const numbers = JSON.parse(text);
    numbers.t = [];
    for (const line of numbers.lines) line.avg = [];
    for (let [at, place] = [numbers.start, 0]; place < numbers.rows.length; at += numbers.rows[place], place += 1 + numbers.lines.length) {
      numbers.t.push(at);
      numbers.lines.forEach((line, number) => line.avg.push(numbers.rows[place + 1 + number]));
    }
    const steps = numbers.t.slice(1).map((at, place) => at - numbers.t[place]).sort((a, b) => a - b);
    numbers.reach = (GAP * (steps[Math.floor(steps.length / 2)] ?? 1000)) / 2;
    return numbers;
  }

  /** The place of the point nearest to a time. */
  function nearest(times, at) {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < at) low = middle + 1;
      else high = middle;
    }
    return low > 0 && (low === times.length || at - times[low - 1] < times[low] - at) ? low - 1 : low;
  }

  const [LEAST_STEPS, MOST_DECIMALS] = [10, 6];
  const digits = [0, 1, 2, 3, 4, 5, 6].map((decimals) => new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  /** A small value keeps two significant figures, but for percentages, as in src/chart/scale.rs. */
  function written(steps, { unit, decimals }) {
    let shown = steps || unit === "%" ? decimals : 0;
    while (unit !== "%" && steps && Math.abs(steps) * 10 ** (shown - decimals) < LEAST_STEPS && shown < MOST_DECIMALS) shown += 1;
    const text = digits[shown].format(steps / 10 ** decimals);
    return unit ? `${text} ${unit}` : text;
  }

  /** The value of several lines of one label at a place: one, or the lowest and the highest. */
  function valueText(lines, axes, place) {
    const known = lines.filter((line) => (line.avg[place] ?? null) !== null);
    if (!known.length) return "–";
    const [axis, values] = [axes[known[0].axis], known.map((line) => line.avg[place])];
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (low !== high) return `${written(low, { ...axis, unit: "" })} to ${written(high, axis)}`;
    return written(low, axis);
  }

  /** What the legend shows without a crosshair: the last value, or the highest where jobs are compared. */
  function restText({ numbers }, lines) {
    if (!numbers.elapsed) return valueText(lines, numbers.axes, numbers.t.length - 1);
    const highest = Math.max(...lines.flatMap((line) => line.avg.filter((value) => value !== null)));
    return Number.isFinite(highest) ? `max. ${written(highest, numbers.axes[lines[0].axis])}` : "–";
  }

  // Times

  // UTC, or that of the browser.
  const { zone } = document.getElementById("zone").dataset;
  const formats = {};
  function format(at, parts) {
    const key = JSON.stringify(parts);
    formats[key] ??= new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...parts });
    return formats[key].format(at);
  }
  const two = (number) => String(number).padStart(2, "0");
  function timeText(at, { from, to, elapsed }) {
    const seconds = Math.round(at / 1000);
    if (elapsed) {
      const minutes = `${Math.floor(seconds / 60) % 60}`;
      return seconds < 3600 ? `${minutes}:${two(seconds % 60)}` : `${Math.floor(seconds / 3600)}:${two(minutes)}:${two(seconds % 60)}`;
    }
    const days = to - from > 20 * 3600e3 ? { day: "numeric", month: "short" } : {};
    return format(at, { ...days, hour: "2-digit", minute: "2-digit", second: "2-digit" });
  }

  // Places

  const widthOf = (chart) => chart.svg.viewBox.baseVal.width;
  function timeAt(chart, clientX) {
    const { left, width } = chart.over.getBoundingClientRect();
    const { plot, from, to } = chart.numbers;
    const x = ((clientX - left) / width) * widthOf(chart);
    return from + clamp((x - plot[0]) / (plot[2] - plot[0]), 0, 1) * (to - from);
  }
  /** Percent of the chart's width. */
  function placeOf(chart, at) {
    const { plot, from, to } = chart.numbers;
    return ((plot[0] + ((at - from) / (to - from)) * (plot[2] - plot[0])) / widthOf(chart)) * 100;
  }

  // Crosshair

  function show(chart) {
    const { numbers, cross: line, when, over } = chart;
    const place = cross === null ? -1 : nearest(numbers.t, cross);
    const isInside = cross !== null && numbers.from <= cross && cross <= numbers.to;
    const isKnown = isInside && Math.abs(numbers.t[place] - cross) <= numbers.reach;
    line.hidden = when.hidden = !isInside;
    for (const entry of chart.entries) {
      say(entry.value, isInside ? (isKnown ? valueText(entry.lines, numbers.axes, place) : "–") : restText(chart, entry.lines));
    }
    if (!isInside) return;
    const left = placeOf(chart, cross);
    line.style.left = `${left}%`;
    when.style.left = `${left}%`;
    when.dataset.side = left < 50 ? "right" : "left";
    const near = numbers.marks?.filter(({ at }) => Math.abs(at - cross) <= (numbers.to - numbers.from) / 150) ?? [];
    say(when, [timeText(cross, numbers), ...near.map(({ text }) => text)].join(" · "));
    over.setAttribute("aria-valuenow", Math.round(cross));
    over.setAttribute("aria-valuetext", [when.textContent, ...chart.entries.map(({ name, value }) => `${name} ${value.textContent}`)].join(", "));
  }

  /** Puts the crosshair on the known time that is nearest to this one, on all charts. */
  function point(at) {
    const times = charts.find(({ numbers }) => numbers.t.length)?.numbers.t;
    cross = at === null || !times ? null : at;
    if (cross !== null) {
      const near = times[nearest(times, at)];
      const reach = charts[0].numbers.reach;
      if (Math.abs(near - at) <= reach) cross = near;
    }
    charts.forEach(show);
  }

  /** Moves the crosshair by points; without one, it starts at the end. */
  function step(by) {
    const times = charts.find(({ numbers }) => numbers.t.length)?.numbers.t;
    if (!times) return;
    const place = cross === null ? times.length - 1 : nearest(times, cross) + by;
    point(times[clamp(place, 0, times.length - 1)]);
  }

  // Legend

  function toggle(chart, entry) {
    const key = `${chart.title} / ${entry.name}`;
    if (!hidden.delete(key)) hidden.add(key);
    mark(chart);
  }

  function mark(chart) {
    const off = [];
    for (const entry of chart.entries) {
      const isHidden = hidden.has(`${chart.title} / ${entry.name}`);
      entry.button.setAttribute("aria-pressed", String(!isHidden));
      if (isHidden) off.push(...entry.numbers);
    }
    if (off.length) chart.figure.dataset.off = off.join(" ");
    else delete chart.figure.dataset.off;
  }

  function legend(chart, list) {
    const entries = new Map();
    chart.numbers.lines.forEach((line, number) => {
      const entry = entries.get(line.label) ?? { name: line.label, class: line.class, lines: [], numbers: [] };
      entry.lines.push(line);
      entry.numbers.push(number);
      entries.set(line.label, entry);
    });
    chart.entries = [...entries.values()];
    const names = chart.entries.map(({ name, class: look }) => `${look} ${name}`).join("\n");
    if (list.dataset.names !== names) {
      list.dataset.names = names;
      list.replaceChildren(...chart.entries.map((entry) => element("li", {}, element("button", { type: "button" },
        element("i", { className: `key ${entry.class}` }), element("span", { textContent: entry.name }), element("b")))));
    }
    chart.entries.forEach((entry, place) => {
      entry.button = list.children[place].firstChild;
      entry.value = entry.button.lastChild;
      entry.button.onclick = () => toggle(chart, entry);
    });
  }

  // A chart as a table, a file or a picture

  /** Titles of charts whose tables are shown. */
  const tables = new Set();
  /** The heads, and a row for each time; unknown values are null. */
  function tableOf({ numbers }) {
    const { axes, lines, elapsed } = numbers;
    const heads = lines.map(({ label, axis }) => (axes[axis].unit ? `${label} (${axes[axis].unit})` : label));
    const value = ({ avg, axis }, place) => (avg[place] ?? null) === null ? null : avg[place] / 10 ** axes[axis].decimals;
    const row = (at, place) => [elapsed ? timeText(at, numbers) : instant(at), ...lines.map((line) => value(line, place))];
    return { heads: ["time", ...heads], rows: numbers.t.map(row) };
  }

  function showTable(chart) {
    const place = chart.figure.querySelector(".numbers");
    if (!tables.has(chart.title)) return place.replaceChildren();
    const { heads, rows } = tableOf(chart);
    const row = (name, cells) => element("tr", {}, ...cells.map((cell) => element(name, { textContent: cell ?? "–" })));
    place.replaceChildren(element("table", {}, element("thead", {}, row("th", heads)), element("tbody", {}, ...rows.map((cells) => row("td", cells)))));
  }

  /** Quotes text; text that a spreadsheet would calculate gets an apostrophe. */
  const csvCell = (cell) => typeof cell === "string" ? `"${cell.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"` : (cell ?? "");
  const csv = (chart) => {
    const { heads, rows } = tableOf(chart);
    return [heads, ...rows].map((cells) => cells.map(csvCell).join(",")).join("\r\n");
  };
  const json = (chart) => JSON.stringify({ title: chart.title, ...tableOf(chart) }, null, 1);

  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "paint-order", "opacity", "display", "font-size", "font-family"];
  const HEAD_PX = 26;
  /** A copy of the picture that needs no style sheet, with its title and legend above. */
  function picture({ svg, title, entries, figure }) {
    const copy = svg.cloneNode(true);
    const sources = svg.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((shape, place) => {
      const style = getComputedStyle(sources[place]);
      for (const name of STYLES) shape.setAttribute(name, style.getPropertyValue(name));
    });
    copy.querySelector("metadata").remove();
    const drawn = (name, attributes, ...children) => {
      const made = document.createElementNS(svg.namespaceURI, name);
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      made.append(...children);
      return made;
    };
    const { width, height } = svg.viewBox.baseVal;
    const { color, fontFamily } = getComputedStyle(figure);
    const head = drawn("text", { x: 6, y: 16 - HEAD_PX, fill: color, "font-size": 13, "font-family": fontFamily }, drawn("tspan", { "font-weight": "bold" }, title));
    for (const { button, name } of entries) {
      const look = getComputedStyle(button.querySelector(".key")).getPropertyValue("--k");
      if (button.getAttribute("aria-pressed") === "true") head.append(drawn("tspan", { dx: 14, fill: look }, "■ "), name);
    }
    copy.prepend(drawn("rect", { y: -HEAD_PX, width, height: height + HEAD_PX, fill: getComputedStyle(document.body).backgroundColor }), head);
    for (const [key, value] of Object.entries({ xmlns: svg.namespaceURI, width, height: height + HEAD_PX, viewBox: `0 ${-HEAD_PX} ${width} ${height + HEAD_PX}` })) copy.setAttribute(key, value);
    return new XMLSerializer().serializeToString(copy);
  }

  async function pixels(chart) {
    const image = new Image();
    image.src = `data:image/svg+xml,${encodeURIComponent(picture(chart))}`;
    await image.decode();
    const canvas = element("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done));
  }

  const FORMS = { CSV: ["text/csv", csv], JSON: ["application/json", json], SVG: ["image/svg+xml", picture], PNG: ["image/png", pixels] };
  async function save(chart, form) {
    const [type, content] = FORMS[form];
    const href = URL.createObjectURL(new Blob([await content(chart)], { type }));
    const name = [document.querySelector(".host").textContent, chart.title, instant(chart.numbers.from)].join("-").replace(/[^\w.-]+/g, "_");
    element("a", { href, download: `${name}.${form.toLowerCase()}` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60e3);
  }

  function saving(chart, place) {
    if (!place.firstChild) {
      const buttons = ["Table", ...Object.keys(FORMS)].map((form) => element("button", { type: "button", textContent: form }));
      const large = element("button", { type: "button", textContent: "⤢", title: "Enlarges the chart; key: f" });
      large.setAttribute("aria-label", `Enlarge ${chart.title}`);
      large.onclick = () => enlarge(chart.title);
      const summary = element("summary", { textContent: "⋯", title: "Show as a table, or save" });
      summary.setAttribute("aria-label", `Show ${chart.title} as a table, or save it`);
      place.append(large, element("details", {}, summary, ...buttons));
    }
    const [table, ...files] = place.querySelectorAll("details button");
    table.setAttribute("aria-pressed", String(tables.has(chart.title)));
    table.onclick = () => {
      if (!tables.delete(chart.title)) tables.add(chart.title);
      read();
    };
    for (const file of files) file.onclick = () => save(chart, file.textContent);
  }

  // Charts

  function chartOf(figure) {
    const svg = figure.querySelector("svg.chart");
    const over = figure.querySelector(".over");
    const numbers = svg && over && decoded(svg);
    if (!numbers) return [];
    if (!over.firstChild) {
      over.append(...["cross", "when", "selected"].map((className) => element("div", { className, hidden: true })));
      over.tabIndex = 0;
      over.setAttribute("role", "slider");
    }
    const chart = { figure, svg, over, numbers, title: figure.querySelector("h2").textContent };
    [chart.cross, chart.when, chart.selected] = over.children;
    over.setAttribute("aria-label", `Time in ${chart.title}`);
    over.setAttribute("aria-valuemin", numbers.from);
    over.setAttribute("aria-valuemax", numbers.to);
    if (!over.hasAttribute("aria-valuenow")) over.setAttribute("aria-valuenow", numbers.to);
    legend(chart, figure.querySelector(".legend"));
    mark(chart);
    saving(chart, figure.querySelector(".save"));
    showTable(chart);
    return [chart];
  }

  /** Reads the numbers again, after each refresh. */
  function read() {
    charts = [...page.querySelectorAll("figure")].flatMap(chartOf);
    charts.forEach(show);
    for (const { figure, title } of charts) figure.classList.toggle("large", title === enlarged);
  }

  /** The title of the chart that takes the whole window, or null. */
  let enlarged = null;
  function enlarge(title) {
    enlarged = enlarged === title ? null : title;
    document.body.classList.toggle("enlarged", enlarged !== null);
    read();
    load();
  }

  // Ranges: each is an address, and the server draws it

  const path = (page.getAttribute("hx-get") ?? "").split("?")[0];
  function load() {
    if (!path) return;
    page.setAttribute("hx-get", path + location.search);
    page.dispatchEvent(new CustomEvent("view"));
  }

  /** The range that was asked for, and the last tick; null where time counts from the start of jobs. */
  function asked() {
    const { from, to, now } = page.querySelector(".charts")?.dataset ?? {};
    return path && from ? { from: Number(from), to: Number(to), now: Number(now) } : null;
  }

  const LEAST_MS = 2000;
  const instant = (ms) => new Date(ms).toISOString().replace(".000", "");
  function go(from, to) {
    const { now } = asked();
    const step = to - from > 60e3 ? 1000 : 100;
    const end = Math.min(Math.ceil(to / step) * step, Math.max(now, from + LEAST_MS));
    const start = Math.min(Math.floor(from / step) * step, end - LEAST_MS);
    const address = new URL(location.href);
    address.searchParams.set("from", instant(start));
    address.searchParams.set("to", instant(end));
    if (address.href === location.href) return;
    history.pushState({ isZoom: true }, "", address);
    load();
  }

  /** Undoes the last zoom; a page that was opened with a range goes to its usual one. */
  function back() {
    if (history.state?.isZoom) return history.back();
    const address = new URL(location.href);
    address.searchParams.delete("from");
    address.searchParams.delete("to");
    if (asked() && address.href !== location.href) location.assign(address);
  }
  addEventListener("popstate", load);

  /** To what happens now. */
  function live() {
    const address = new URL(location.href);
    address.searchParams.delete("to");
    if (address.searchParams.get("from")?.includes(":")) address.searchParams.delete("from");
    if (asked() && address.href !== location.href) location.assign(address);
  }

  /** Moves by a part of the range, at most to the last tick. */
  function pan(part) {
    const range = asked();
    if (!range) return;
    const by = Math.min(part * (range.to - range.from), Math.max(range.now - range.to, 0));
    if (by) go(range.from + by, range.to + by);
  }

  /** Scales the range around the crosshair, or its middle. */
  function zoom(factor) {
    const range = asked();
    if (!range) return;
    const middle = cross ?? (range.from + range.to) / 2;
    go(middle - (middle - range.from) * factor, middle + (range.to - middle) * factor);
  }

  // Pointers: one shows the crosshair, a drag of the mouse or two fingers select

  const DRAG_PX = 5;
  // A turn of the wheel that doubles the range; it is drawn once the wheel rests.
  const WHEEL_PX = 200;
  let [wheel, turning] = [0, 0];
  /** Where each pointer that is down began, and where it is. */
  const down = new Map();
  const chartAt = (event) => charts.find(({ over }) => over === event.target.closest?.(".over"));

  /** The two ends of what is selected, or null. */
  function selection() {
    const [first, second] = down.values();
    if (!asked() || !first || first.pans) return null;
    const ends = second ? [first, second] : first.isTouch ? null : [{ x: first.startX, at: first.startAt }, first];
    return ends && Math.abs(ends[0].x - ends[1].x) >= DRAG_PX ? ends.map(({ at }) => at).sort((a, b) => a - b) : null;
  }

  function showSelection() {
    const ends = selection();
    for (const chart of charts) {
      chart.selected.hidden = !ends;
      if (!ends) continue;
      const [left, right] = ends.map((at) => placeOf(chart, at));
      chart.selected.style.left = `${left}%`;
      chart.selected.style.width = `${right - left}%`;
    }
  }

  page.addEventListener("pointerdown", (event) => {
    const chart = chartAt(event);
    if (!chart || event.button !== 0) return;
    const at = timeAt(chart, event.clientX);
    if (event.pointerType === "mouse") chart.over.setPointerCapture(event.pointerId);
    down.set(event.pointerId, { startX: event.clientX, startAt: at, x: event.clientX, at, isTouch: event.pointerType === "touch", pans: event.shiftKey });
    point(at);
  });
  page.addEventListener("pointermove", (event) => {
    const chart = chartAt(event);
    if (!chart) return;
    const at = timeAt(chart, event.clientX);
    const pointer = down.get(event.pointerId);
    if (pointer) Object.assign(pointer, { x: event.clientX, at });
    point(at);
    if (pointer) showSelection();
  });
  addEventListener("pointerup", (event) => {
    const pointer = down.get(event.pointerId);
    const ends = pointer && selection();
    if (pointer?.pans && asked()) pan((pointer.startAt - pointer.at) / (asked().to - asked().from));
    if (ends) down.clear();
    else down.delete(event.pointerId);
    showSelection();
    if (ends) go(...ends);
  });
  addEventListener("pointercancel", (event) => {
    down.delete(event.pointerId);
    showSelection();
  });
  page.addEventListener("pointerout", (event) => {
    if (chartAt(event) && event.pointerType === "mouse" && !event.relatedTarget?.closest?.(".over")) point(null);
  });
  page.addEventListener("wheel", (event) => {
    if (!event.ctrlKey || !chartAt(event)) return;
    event.preventDefault();
    wheel += event.deltaY;
    clearTimeout(turning);
    turning = setTimeout(() => {
      zoom(2 ** clamp(wheel / WHEEL_PX, -3, 3));
      wheel = 0;
    }, 150);
  }, { passive: false });
  page.addEventListener("dblclick", (event) => {
    if (chartAt(event)) back();
  });

  // Keys

  const keys = element("dialog", { id: "keys" }, element("h2", { textContent: "Keys" }));
  const help = [
    ["← →", "moves the crosshair; without one, the time range"],
    ["Shift ← →", "moves the time range, as Shift and a drag do"],
    ["+ −", "zooms in and out, as Ctrl and the wheel do"],
    ["0", "goes back to now"],
    ["f", "enlarges the chart under the pointer, or the first one"],
    ["z", "undoes the last zoom, as a double click does"],
    ["Esc", "takes the crosshair away"],
    ["p", "pauses and resumes"],
    ["u", "switches between UTC and the browser's time zone"],
    ["/", "goes to the filter"],
    ["?", "shows this list"],
  ];
  const list = element("dl");
  for (const [key, text] of help) list.append(element("dt", {}, element("kbd", { textContent: key })), element("dd", { textContent: text }));
  const close = element("button", { type: "button", textContent: "Close", onclick: () => keys.close() });
  keys.append(list, close);
  const opener = element("button", { type: "button", textContent: "Keys", title: "Key: ?", onclick: () => keys.showModal() });
  document.querySelector(".foot")?.append(opener);
  document.body.append(keys);

  /** Plain arrows move the crosshair on a chart, or once there is one. */
  const arrow = (by) => (event) => {
    if (!event.shiftKey && (chartAt(event) || cross !== null)) step(by);
    else pan(by / 2);
  };
  const under = () => enlarged ?? page.querySelector("figure:hover h2")?.textContent;
  const KEYS = {
    ArrowLeft: arrow(-1),
    ArrowRight: arrow(1),
    "?": () => keys.open || keys.showModal(),
    "/": () => filter?.focus(),
    "+": () => zoom(0.5),
    "-": () => zoom(2),
    0: live,
    f: () => enlarge(under() ?? charts[0]?.title),
    z: back,
    Escape() {
      if (enlarged !== null) return enlarge(enlarged);
      down.clear();
      showSelection();
      point(null);
    },
  };
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, [contenteditable]")) return;
    if (!Object.hasOwn(KEYS, key) || (key.startsWith("Arrow") && !charts.length)) return;
    KEYS[key](event);
    if (key.startsWith("Arrow") || key === "/") event.preventDefault();
  });

  // Filters

  const filter = document.querySelector("input[type=search]");
  filter?.addEventListener("input", () => {
    const address = new URL(location.href);
    address.search = new URLSearchParams(new FormData(filter.form));
    history.replaceState(null, "", address);
    load();
  });

  // The fields of a range

  page.addEventListener("submit", (event) => {
    const { from, to } = event.target.elements;
    if (!event.target.closest(".picker") || !asked()) return;
    event.preventDefault();
    const [start, end] = [from, to].map(({ value }) => Date.parse(zone === "UTC" ? `${value}Z` : value));
    if (start < end) go(start, end);
    to.setCustomValidity(start < end ? "" : "expected a later time than “From”");
    to.reportValidity();
  });
  page.addEventListener("input", ({ target }) => target.setCustomValidity?.(""));
  page.addEventListener("toggle", ({ target }) => {
    const range = target.matches(".picker[open]") && asked();
    if (!range) return;
    const { from, to } = target.querySelector("form").elements;
    const shift = (at) => (zone === "UTC" ? 0 : new Date(at).getTimezoneOffset() * 60e3);
    [from.value, to.value] = [range.from, range.to].map((at) => new Date(at - shift(at)).toISOString().slice(0, 19));
  }, true);

  document.body.addEventListener("htmx:after:swap", read);
  read();
})();
