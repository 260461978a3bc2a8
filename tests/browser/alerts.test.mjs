// What a person reads after a button of the page Alerts, while ticks replace all around it.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage, violations } from "./browser.mjs";
import { startDaemon, TOKEN } from "./daemon.mjs";

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
async function alerts(of = daemon, options = {}) {
  const page = await openPage(browser, options);
  await page.goto(`${of.url}/alerts`);
  await becomes(page, "ended");
  await page.locator("article").first().waitFor();
  return page;
}

async function logIn(page) {
  await page.getByLabel("Token").fill(TOKEN);
  await Promise.all([page.waitForURL("**/alerts"), page.getByRole("button", { name: "Open" }).click()]);
}

const outcome = (page) => page.locator("#outcome");
const acknowledge = (page) => page.getByRole("button", { name: "Acknowledge" }).first();
const refresh = (page) => page.evaluate(() => document.body.dispatchEvent(new CustomEvent("refresh")));
const refreshed = (page) => page.waitForResponse((answer) => answer.url().includes("/alerts/now"));
const labelAfter = (button) => button.evaluate((element) => getComputedStyle(element, "::after").content);

describe("a button of the page Alerts", () => {
  it("is not there without a token on the server, and a sentence says what to do", async () => {
    const demo = await startDaemon("demo", "--speed", "max", "--config", "/dev/null");
    const page = await alerts(demo);
    assert.equal(await acknowledge(page).isVisible(), false);
    assert.match(await page.locator("main").innerText(), /set token_file in \[changes\]/);
    await page.goto(`${demo.url}/login`);
    assert.equal(new URL(page.url()).pathname, "/");
    await page.context().close();
    await demo.stop();
  });

  it("says that it needs the token, and after the login does what was clicked, with its note and time", async () => {
    const page = await alerts(daemon, { bypassCSP: true });
    assert.equal(await labelAfter(acknowledge(page)), '"(needs the token)"');
    assert.deepEqual(await violations(page), []);
    await page.locator("article").first().getByLabel("Note").fill("extended by hand");
    await page.locator("article").first().getByLabel("Until").selectOption("in 8 h");
    // What is typed stays.
    await Promise.all([refreshed(page), refresh(page)]);
    assert.equal(await page.locator("article").first().getByLabel("Note").inputValue(), "extended by hand");
    const count = await page.locator("article").first().locator(".raised").count();
    await Promise.all([page.waitForURL("**/login?back=*"), acknowledge(page).click()]);
    await logIn(page);
    await page.waitForFunction(() => document.getElementById("outcome").textContent.includes("acknowledged"));
    await page.getByRole("button", { name: "Withdraw acknowledgement" }).waitFor();
    assert.equal(await labelAfter(page.getByRole("button", { name: "Withdraw" })), "none");
    const all = await daemon.json("/api/v1/alerts");
    const acknowledged = all.filter((alert) => alert.acknowledged);
    // One button acknowledges all alerts of its entry.
    assert.equal(acknowledged.length, count);
    for (const { acknowledged: { note, until } } of acknowledged) {
      assert.equal(note, "extended by hand");
      assert.ok(Math.abs(new Date(until) - Date.now() - 8 * 3600e3) < 600e3, until);
    }
    // It is done once, not again by the next page.
    await page.getByRole("button", { name: "Withdraw acknowledgement" }).click();
    await acknowledge(page).waitFor();
    await page.reload();
    await acknowledge(page).waitFor();
    await page.getByText("Silence volumes").click();
    await page.getByLabel("Volumes").fill("vg0/*");
    await Promise.all([refreshed(page), page.getByRole("button", { name: "Silence", exact: true }).click()]);
    await page.getByText("Silenced: vg0/*").waitFor();
    await page.getByRole("button", { name: "End silence" }).click();
    await page.getByText("Silenced: vg0/*").waitFor({ state: "detached" });
    await page.context().close();
  });

  it("says what is not stored, and that the daemon did not answer", async () => {
    const page = await alerts();
    const answer = { done: "alert 1 is acknowledged", message: "held in memory, not stored: the disk is full" };
    await page.route("**/acknowledgement", (route) => route.fulfill({ status: 202, json: answer }));
    await Promise.all([refreshed(page), acknowledge(page).click()]);
    assert.equal(await outcome(page).innerText(), `${answer.done}; ${answer.message}`);
    await Promise.all([refreshed(page), refresh(page)]);
    assert.equal(await outcome(page).getAttribute("role"), "status");
    assert.ok(await acknowledge(page).isEnabled());
    assert.deepEqual(page.faults, []);
    await page.unroute("**/acknowledgement");
    await page.route("**/acknowledgement", (route) => route.abort());
    await acknowledge(page).click();
    await page.waitForFunction(() => document.getElementById("outcome").textContent === "cowbell did not answer: try again");
    await page.context().close();
  });
});

describe("the theme and notifications", () => {
  it("are chosen in the browser and stay", async () => {
    const page = await alerts(daemon, { colorScheme: "light", permissions: ["notifications"] });
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await paper();
    const theme = page.locator("#theme");
    for (const name of ["Light theme", "Dark theme"]) {
      await theme.click();
      assert.equal(await theme.innerText(), name);
    }
    assert.notEqual(await paper(), light);
    await page.goto(`${daemon.url}/devices`);
    assert.notEqual(await paper(), light, "the next page is dark from the start");
    await page.goto(`${daemon.url}/alerts`);
    const bell = page.locator("#notify");
    assert.equal(await bell.getAttribute("aria-pressed"), "false");
    await page.context().close();
  });

  it("tell of a critical alert where that was chosen", async () => {
    const demo = await startDaemon("demo", "--speed", "200");
    const page = await openPage(browser);
    // The browser of this test has nothing that shows notifications.
    await page.addInitScript(() => {
      window.shown = [];
      window.Notification = class {
        static permission = "granted";
        static requestPermission = async () => "granted";
        constructor(title, { body }) {
          window.shown.push(`${title}. ${body}`);
        }
      };
    });
    await page.goto(`${demo.url}/alerts`);
    await page.locator("#notify").click();
    assert.equal(await page.locator("#notify").getAttribute("aria-pressed"), "true");
    await page.waitForFunction(() => window.shown.length > 0, null, { timeout: 60_000 });
    assert.match(await page.evaluate(() => window.shown[0]), /: critical\. .*vg0\/data/);
    await page.context().close();
    await demo.stop();
  });
});
