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
    let at = 0;
    numbers.t = numbers.t.map((step) => (at += step));
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

  const digits = [0, 1, 2].map((decimals) => new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  function written(steps, { unit, decimals }) {
    const text = digits[decimals].format(steps / 10 ** decimals);
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

  const formats = {};
  function format(at, parts) {
    const key = JSON.stringify(parts);
    formats[key] ??= new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", hourCycle: "h23", ...parts });
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

  // Charts

  function chartOf(figure) {
    const svg = figure.querySelector("svg.chart");
    const over = figure.querySelector(".over");
    const numbers = svg && over && decoded(svg);
    if (!numbers) return [];
    if (!over.firstChild) {
      over.append(element("div", { className: "cross", hidden: true }), element("div", { className: "when", hidden: true }));
      over.tabIndex = 0;
      over.setAttribute("role", "slider");
    }
    const chart = { figure, svg, over, numbers, title: figure.querySelector("h2").textContent };
    [chart.cross, chart.when] = over.children;
    over.setAttribute("aria-label", `Time in ${chart.title}`);
    over.setAttribute("aria-valuemin", numbers.from);
    over.setAttribute("aria-valuemax", numbers.to);
    if (!over.hasAttribute("aria-valuenow")) over.setAttribute("aria-valuenow", numbers.to);
    legend(chart, figure.querySelector(".legend"));
    mark(chart);
    return [chart];
  }

  /** Reads the numbers again, after each refresh. */
  function read() {
    charts = [...page.querySelectorAll("figure")].flatMap(chartOf);
    charts.forEach(show);
  }

  const chartAt = (event) => charts.find(({ over }) => over === event.target.closest?.(".over"));

  page.addEventListener("pointermove", (event) => {
    const chart = chartAt(event);
    if (chart) point(timeAt(chart, event.clientX));
  });
  page.addEventListener("pointerdown", (event) => {
    const chart = chartAt(event);
    if (chart) point(timeAt(chart, event.clientX));
  });
  page.addEventListener("pointerout", (event) => {
    if (chartAt(event) && event.pointerType === "mouse" && !event.relatedTarget?.closest?.(".over")) point(null);
  });

  const KEYS = {
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    Escape: () => point(null),
  };
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, [contenteditable]")) return;
    const isArrow = key.startsWith("Arrow");
    if (!KEYS[key] || (isArrow && !chartAt(event) && (target !== document.body || cross === null))) return;
    KEYS[key](event);
    if (isArrow) event.preventDefault();
  });

  document.body.addEventListener("htmx:after:swap", read);
  read();
})();
