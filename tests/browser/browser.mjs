// Debian's Chromium, and a page that remembers everything that a careful person would call a fault.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

export const openBrowser = () => chromium.launch({ executablePath: "/usr/bin/chromium", args: QUIET });

/** A new page with its `faults`: console errors and warnings, exceptions, requests that leave this machine, bad answers. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(`console ${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`exception: ${error}`));
  page.on("request", (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (hostname !== "127.0.0.1" && protocol !== "data:") faults.push(`request to ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) faults.push(`${response.status()} for ${response.url()}`);
  });
  return Object.assign(page, { faults });
}

/** Waits until the page says that it is `live`, `stale`, `paused` or `ended`. */
export function becomes(page, state, timeout = 15_000) {
  return page.waitForFunction((state) => document.body.dataset.live === state, state, { timeout });
}

/** What axe-core finds. The page has to be opened with `bypassCSP`; in another theme, only colours can differ. */
export async function violations(page, onlyColours = false) {
  await page.evaluate(AXE);
  const options = onlyColours ? { runOnly: ["color-contrast"] } : {};
  const found = await page.evaluate((options) => axe.run(document, options), options);
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`);
}

/** What makes the document wider than its window; nothing, where it is not. Runs in the page. */
export function tooWide() {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const wide = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > width + 1);
  return wide.slice(0, 5).map((element) => `${element.tagName.toLowerCase()}.${element.className}`);
}

/** Notes what moves by itself, from the next page on. */
export const watchShifts = (page) => page.addInitScript(() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
      if (!hadRecentInput) shifts.push([value, sources.map(({ node }) => `${node?.nodeName}.${node?.className ?? ""} ${node?.textContent?.slice(0, 40)}`)]);
    }
  }).observe({ type: "layout-shift", buffered: true });
});

/** The cumulative layout shift, and what moved most. */
export async function shifts(page) {
  const all = await page.evaluate(() => window.shifts);
  return { sum: all.reduce((sum, [value]) => sum + value, 0), worst: all.sort((a, b) => b[0] - a[0]).slice(0, 5) };
}
