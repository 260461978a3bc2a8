// Debian's Chromium, and a page that remembers everything that a careful person would call a fault.

import { chromium } from "playwright-core";

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
