// The demo tells its story soon, says that it is a recording, and can be played again.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage, shifts, watchShifts } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

const STORY_MS = 20_000;
const MOST_SHIFT = 0.05;

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser?.close());

const banner = (page) => page.locator(".demo");
const lastTick = async (daemon) => Date.parse((await daemon.json("/api/v1/status")).ticks.last_at);
const verdict = (page) => page.locator(".verdict").innerText();

describe("the demo, as people start it", () => {
  let daemon, began;
  before(async () => {
    began = Date.now();
    daemon = await startDaemon("demo");
  });
  after(() => daemon?.stop());

  it("shows within 20 s that the snapshot will be full before the backup is done", async () => {
    const page = await openPage(browser);
    await page.goto(daemon.url);
    assert.match(await banner(page).innerText(), /This is a recording of .*, played 60 times as fast/);
    await page.waitForFunction(
      () => document.body.dataset.grade === "critical" && /will overflow in/.test(document.querySelector(".verdict").innerText),
      null,
      { timeout: STORY_MS - (Date.now() - began) },
    );
    assert.match(await page.title(), /^✖ /);
    // The forecast stays in the chart, however many ticks come while it is drawn.
    for (let look = 0; look < 20; look++) {
      assert.ok((await page.locator("svg.chart .ahead").count()) > 0, `no forecast at look ${look}`);
      await page.waitForTimeout(50);
    }
    assert.match(await verdict(page), /data_snapshot/);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("pauses, and fills a screen on the wall", async () => {
    const page = await openPage(browser);
    await page.goto(`${daemon.url}/?kiosk`);
    await becomes(page, "live");
    assert.ok(await banner(page).isVisible());
    await page.keyboard.press("p");
    await becomes(page, "paused");
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });
});

describe("the button of the demo's banner", () => {
  let daemon;
  before(async () => (daemon = await startDaemon("demo", "--speed", "300")));
  after(() => daemon?.stop());

  for (const javaScriptEnabled of [true, false]) {
    it(`begins anew, ${javaScriptEnabled ? "with" : "without"} scripts`, async () => {
      const page = await openPage(browser, { javaScriptEnabled });
      const first = await lastTick(daemon);
      while ((await lastTick(daemon)) < first + 300_000) await page.waitForTimeout(50);
      const before = await lastTick(daemon);
      await page.goto(`${daemon.url}/jobs`);
      await page.getByRole("button", { name: "Play it again" }).click();
      await page.waitForURL(`${daemon.url}/`);
      assert.ok((await lastTick(daemon)) < before);
      if (javaScriptEnabled) await becomes(page, "live");
      assert.ok(await banner(page).isVisible());
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });
  }

  it("moves nothing when the page comes to life", async () => {
    const page = await openPage(browser);
    await page.goto(daemon.url, { waitUntil: "domcontentloaded" });
    const [place, next] = [await banner(page).boundingBox(), await page.locator("#main").boundingBox()];
    await page.waitForFunction(() => ["live", "ended"].includes(document.body.dataset.live));
    assert.deepEqual([await banner(page).boundingBox(), (await page.locator("#main").boundingBox()).y], [place, next.y]);
    await page.context().close();
  });
});

describe("a live page", () => {
  let daemon;
  before(async () => (daemon = await startDaemon("demo")));
  after(() => daemon?.stop());

  it("is sent compressed fragments, shows all of the last one, and moves by at most 0.05", async (test) => {
    const page = await openPage(browser, { viewport: { width: 1366, height: 768 } });
    await watchShifts(page);
    const sizes = [];
    page.on("response", async (response) => {
      if (!/width=/.test(response.url())) return;
      assert.equal(response.headers()["content-encoding"], "gzip");
      const { responseBodySize } = await response.request().sizes();
      sizes.push(responseBodySize);
    });
    await page.goto(daemon.url);
    await page.waitForFunction(() => document.body.dataset.live === "ended", null, { timeout: 60_000 });
    await page.waitForTimeout(1500);
    const fresh = await page.evaluate(async () => {
      const now = document.getElementById("now");
      const width = Math.max(240, Math.floor(now.clientWidth / 20) * 20);
      const text = await (await fetch(`${now.getAttribute("hx-get")}?width=${width}`)).text();
      const html = new DOMParser().parseFromString(`<div id=now>${text}</div>`, "text/html");
      return [...html.querySelectorAll("#now svg.chart path, #now td, #now .verdict")].map((one) => one.getAttribute("d") ?? one.textContent);
    });
    const after = await page.evaluate(() => [...document.querySelectorAll("#now svg.chart path, #now td, #now .verdict")].map((one) => one.getAttribute("d") ?? one.textContent));
    assert.deepEqual(after, fresh);
    assert.ok(fresh.length > 10);
    assert.ok(sizes.length > 3 && Math.max(...sizes) < 20_000, `${sizes}`);
    const { sum, worst } = await shifts(page);
    test.diagnostic(`layout shift: ${sum.toFixed(3)}`);
    assert.ok(sum <= MOST_SHIFT, JSON.stringify(worst));
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });
});
