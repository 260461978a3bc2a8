// What a person reads after a button of the page Alerts, while ticks replace all around it.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

let browser, daemon;
before(async () => {
  browser = await openBrowser();
  daemon = await startDaemon("demo", "--speed", "max");
});
after(async () => {
  await browser?.close();
  await daemon?.stop();
});

/** The page with an open alert. */
async function alerts() {
  const page = await openPage(browser);
  await page.goto(`${daemon.url}/alerts`);
  await becomes(page, "ended");
  await page.getByRole("button", { name: "Acknowledge" }).first().waitFor();
  return page;
}

const outcome = (page) => page.locator("#outcome");
const refresh = (page) => page.evaluate(() => document.body.dispatchEvent(new CustomEvent("refresh")));
const refreshed = (page) => page.waitForResponse((answer) => answer.url().includes("/alerts/now"));

describe("a button of the page Alerts", () => {
  it("shows why nothing was done, also after the next tick, and keeps its label", async () => {
    const page = await alerts();
    const button = page.getByRole("button", { name: "Acknowledge" }).first();
    await button.click();
    await page.waitForFunction(() => document.getElementById("outcome").textContent.includes("needs a token"));
    await Promise.all([refreshed(page), refresh(page)]);
    assert.match(await outcome(page).innerText(), /^over HTTP this needs a token/);
    assert.equal(await outcome(page).getAttribute("role"), "status");
    assert.equal(await button.innerText(), "Acknowledge");
    assert.ok(await button.isEnabled());
    await page.context().close();
  });

  it("says what was done, what is not stored, and shows the new state at once", async () => {
    const page = await alerts();
    const answer = { done: "alert 1 is acknowledged", message: "held in memory, not stored: the disk is full" };
    const asked = [];
    await page.route("**/acknowledgement", (route) => {
      asked.push(Number(/alerts\/(\d+)\//.exec(route.request().url())[1]));
      return route.fulfill({ status: 202, json: answer });
    });
    await Promise.all([refreshed(page), page.getByRole("button", { name: "Acknowledge" }).first().click()]);
    assert.equal(await outcome(page).innerText(), `${answer.done}; ${answer.message}`);
    // One button acknowledges all alerts of its entry.
    assert.equal(asked.length, await page.locator("article").first().locator(".raised").count());
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("says that the daemon did not answer", async () => {
    const page = await alerts();
    await page.route("**/acknowledgement", (route) => route.abort());
    await page.getByRole("button", { name: "Acknowledge" }).first().click();
    await page.waitForFunction(() => document.getElementById("outcome").textContent !== "");
    assert.equal(await outcome(page).innerText(), "cowbell did not answer: try again");
    await page.context().close();
  });
});
