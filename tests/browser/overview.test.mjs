// The pages of a real daemon, as a person sees them: they move, they say when they are stale, they fit a telephone.

import assert from "node:assert/strict";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { becomes, openBrowser, openPage, tooWide } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

const FIRST_PAGE_BYTES = 100_000;
const TELEPHONE = { width: 360, height: 740 };
const SCHEMES = ["light", "dark"];

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser?.close());

/** Writes to a disk of this machine until it is told to end. */
function writeToDisk() {
  const path = join(fileURLToPath(new URL(".", import.meta.url)), `.activity-${process.pid}`);
  let goesOn = true;
  const written = (async () => {
    const file = await open(path, "w");
    while (goesOn) {
      await file.write(Buffer.alloc(256 * 1024, goesOn), 0, 256 * 1024, 0);
      await file.sync();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await file.close();
    await rm(path);
  })();
  return () => ((goesOn = false), written);
}

/** All the numbers that the page shows, without those of its top and foot. */
const numbers = (page) => page.evaluate(() => (document.querySelector("main").innerText.match(/\d[\d.,]*/g) ?? []).join(" "));

async function numbersChange(page, from) {
  const began = Date.now();
  while ((await numbers(page)) === from) {
    assert.ok(Date.now() - began < 10_000, `no number changed by itself in 10 s: ${from}`);
    await page.waitForTimeout(100);
  }
}

describe("a machine that works", () => {
  let daemon, stopWriting;
  before(async () => {
    stopWriting = writeToDisk();
    daemon = await startDaemon("serve");
  });
  after(async () => {
    await stopWriting?.();
    await daemon?.stop();
  });

  it("shows numbers that change by themselves", async () => {
    const page = await openPage(browser);
    await page.goto(daemon.url);
    await becomes(page, "live");
    await numbersChange(page, await numbers(page));
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("says that it is stale while the daemon stands still, and is live again without being loaded anew", async () => {
    const page = await openPage(browser);
    await page.goto(daemon.url);
    await becomes(page, "live");
    await page.evaluate(() => (window.isTheSame = true));
    daemon.signal("SIGSTOP");
    try {
      await becomes(page, "stale", 8_000);
      assert.match(await page.locator("#live").innerText(), /^stale \d+ s$/);
      const shown = await page.locator("#live").innerText();
      await page.waitForFunction((shown) => document.querySelector("#live").innerText !== shown, shown);
    } finally {
      daemon.signal("SIGCONT");
    }
    await becomes(page, "live", 20_000);
    await numbersChange(page, await numbers(page));
    assert.equal(await page.evaluate(() => window.isTheSame), true);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("stands still while it is paused, and goes on", async () => {
    const page = await openPage(browser);
    await page.goto(daemon.url);
    await becomes(page, "live");
    await page.locator("#pause").click();
    await becomes(page, "paused");
    await page.waitForTimeout(1_500); // what was on its way when the button was pressed
    const shown = await numbers(page);
    await page.waitForTimeout(2_500);
    assert.equal(await numbers(page), shown);
    await page.keyboard.press("p");
    await becomes(page, "live");
    await numbersChange(page, shown);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("weighs at most 100 kB when it is opened for the first time", async () => {
    const page = await openPage(browser);
    const weights = new Map();
    page.on("requestfinished", async (request) => {
      const sizes = await request.sizes().catch(() => null);
      const { pathname } = new URL(request.url());
      if (sizes && !weights.has(pathname)) weights.set(pathname, sizes.responseBodySize + sizes.responseHeadersSize);
    });
    await page.goto(daemon.url);
    await becomes(page, "live");
    await page.waitForTimeout(2_000);
    const sum = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
    const list = [...weights].map(([path, weight]) => `${path} ${weight}`).join(", ");
    assert.ok(weights.has("/") && weights.size >= 4, list);
    assert.ok(sum <= FIRST_PAGE_BYTES, `${sum} bytes: ${list}`);
    await page.context().close();
  });

  it("shows every page without faults, and on a telephone without scrolling sideways", async () => {
    const disks = await daemon.json("/api/v1/devices");
    const disk = disks.find((device) => device.kind === "disk") ?? disks[0];
    await everyPageFits(daemon, ["/", "/devices", `/devices/${disk.device}`, "/volumes", "/backups", "/jobs", "/alerts", "/status"]);
  });
});

describe("a recording of a host with LVM", () => {
  let daemon, job;
  before(async () => {
    daemon = await startDaemon("demo", "--speed", "max");
    for (let tries = 0; !job && tries < 100; tries++) {
      job = (await daemon.json("/api/v1/jobs")).find((job) => job.kind === "snapshot" && job.ended_at);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });
  after(() => daemon?.stop());

  it("shows the picture this program is for: fill and read speed over the job's time", async () => {
    assert.ok(job, "the demonstration has a job that ended");
    const page = await openPage(browser);
    await page.goto(`${daemon.url}/jobs/${job.id}`);
    await page.locator("main svg").first().waitFor();
    await becomes(page, "ended");
    const drawn = await page.locator("main svg").first().evaluate((svg) => svg.getBoundingClientRect().toJSON());
    assert.ok(drawn.width > 300 && drawn.height > 80, JSON.stringify(drawn));
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("uses the window: charts grow with it, stand in two columns, and one takes all of it", async () => {
    const sizes = {};
    for (const [width, height] of [[1366, 768], [1366, 1080], [1920, 1080], [2560, 1440]]) {
      const page = await openPage(browser, { viewport: { width, height } });
      const drawn = page.waitForResponse((answer) => answer.url().includes("height="));
      await page.goto(daemon.url);
      await drawn;
      await page.waitForTimeout(300);
      const charts = await page.locator("svg.chart").evaluateAll((all) => all.map((chart) => chart.getBoundingClientRect().toJSON()));
      sizes[`${width}x${height}`] = charts;
      assert.ok(charts.at(-1).bottom <= height, `charts end at ${charts.at(-1).bottom} of ${height}`);
      const columns = new Set(charts.map(({ left }) => Math.round(left))).size;
      assert.equal(columns, width < 1800 || charts.length === 3 ? 1 : 2, `${width} px`);
      await page.keyboard.press("f");
      await page.waitForResponse((answer) => answer.url().includes("height="));
      await page.waitForTimeout(300);
      const large = await page.locator("figure.large svg.chart").boundingBox();
      assert.ok(large.width > width * 0.9 && large.height > height * 0.7, JSON.stringify(large));
      await page.keyboard.press("Escape");
      assert.equal(await page.locator("figure.large").count(), 0);
      assert.deepEqual(page.faults, []);
      await page.context().close();
    }
    // Four charts stand in two columns; three would leave a place empty.
    const page = await openPage(browser, { viewport: { width: 1920, height: 1080 } });
    for (const [path, count, columns] of [["/", 3, 1], ["/devices/vda", 4, 2]]) {
      await page.goto(daemon.url + path);
      await becomes(page, "ended");
      const lefts = await page.locator("figure svg.chart").evaluateAll((all) => all.map((chart) => Math.round(chart.getBoundingClientRect().left)));
      assert.deepEqual([lefts.length, new Set(lefts).size], [count, columns], path);
    }
    await page.context().close();
    const height = (size) => sizes[size][0].height;
    assert.ok(height("1366x768") < height("1366x1080") && height("1366x1080") < height("2560x1440"), JSON.stringify(sizes));
  });

  it("zooms by Ctrl and the wheel, moves by Shift and a drag, and goes back to now", async () => {
    const page = await openPage(browser, { viewport: { width: 1366, height: 768 } });
    await page.goto(daemon.url);
    await becomes(page, "ended");
    const { x, y, width } = await page.locator("figure .over").first().boundingBox();
    const range = () => ["from", "to"].map((end) => Date.parse(new URL(page.url()).searchParams.get(end)));
    await page.mouse.move(x + width / 2, y + 20);
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -200);
    await page.keyboard.up("Control");
    await page.waitForURL(/from=.*to=/);
    const zoomed = range();
    await page.keyboard.down("Shift");
    await page.mouse.down();
    await page.mouse.move(x + width / 2 + 200, y + 20);
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await page.waitForFunction((before) => !location.href.includes(before), new URL(page.url()).searchParams.get("to"));
    const moved = range();
    assert.ok(moved[1] < zoomed[1] && Math.abs(moved[1] - moved[0] - (zoomed[1] - zoomed[0])) <= 2_000, `${zoomed} ${moved}`);
    await page.keyboard.press("0");
    await page.waitForURL((url) => !url.searchParams.has("to"));
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });
});

/** Each page at both widths and in both schemes: no fault, nothing wider than the window, and colours that differ. */
async function everyPageFits(daemon, paths) {
  for (const path of paths) {
    const backgrounds = new Set();
    for (const colorScheme of SCHEMES) {
      const page = await openPage(browser, { colorScheme, viewport: TELEPHONE });
      await page.goto(daemon.url + path);
      await page.waitForFunction(() => ["live", "ended"].includes(document.body.dataset.live));
      await page.waitForTimeout(300);
      const wide = await page.evaluate(tooWide);
      assert.deepEqual(wide, [], `${path} scrolls sideways in ${colorScheme}`);
      backgrounds.add(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor
        + getComputedStyle(document.body).backgroundColor));
      await page.setViewportSize({ width: 1280, height: 900 });
      assert.deepEqual(await page.evaluate(tooWide), [], `${path} scrolls sideways on a desktop`);
      assert.deepEqual(page.faults, [], `${path} in ${colorScheme}`);
      await page.context().close();
    }
    assert.equal(backgrounds.size, SCHEMES.length, `${path} looks the same in ${SCHEMES.join(" and ")}`);
  }
}

describe("many windows of one browser", () => {
  const WINDOWS = 12;
  let daemon;
  before(async () => (daemon = await startDaemon("serve")));
  after(() => daemon?.stop());

  it("are all live, with one stream between them", async () => {
    const first = await openPage(browser);
    const pages = [first];
    while (pages.length < WINDOWS) pages.push(await first.context().newPage());
    for (const page of pages) await page.goto(daemon.url);
    await first.waitForTimeout(6_000);
    const states = await Promise.all(pages.map((page) => page.evaluate(() => document.body.dataset.live)));
    assert.deepEqual(states, Array(WINDOWS).fill("live"));
    // What each shows is of the last seconds.
    const times = () => Promise.all(pages.map((page) => page.evaluate(() => document.querySelector("main").innerHTML)));
    const before = await times();
    await first.waitForTimeout(4_000);
    const after = await times();
    after.forEach((html, number) => assert.notEqual(html, before[number], `window ${number} stands still`));
    assert.deepEqual(first.faults, []);
    await first.context().close();
  });

  it("keep a pause on the next page, and say past for what is past", async () => {
    const page = await openPage(browser);
    await page.goto(daemon.url);
    await becomes(page, "live");
    await page.keyboard.press("p");
    await becomes(page, "paused");
    await page.goto(`${daemon.url}/volumes`);
    await becomes(page, "paused");
    await page.keyboard.press("p");
    await becomes(page, "live");
    const [from, to] = [20, 10].map((seconds) => new Date(Date.now() - seconds * 1000).toISOString());
    await page.goto(`${daemon.url}/?from=${from}&to=${to}`);
    await becomes(page, "past");
    await page.context().close();
  });

  it("keep the last picture when an answer is an error, and say how old it is", async () => {
    const page = await openPage(browser);
    await page.goto(daemon.url);
    await becomes(page, "live");
    await page.route("**/now**", (route) => route.fulfill({ status: 503, body: "<p>no</p>" }));
    await becomes(page, "stale");
    assert.match(await page.locator("#live").innerText(), /stale \d+ s/);
    assert.match(await page.locator("#live").getAttribute("title"), /503/);
    assert.ok((await page.innerText("main")).includes("Throughput"), "the last picture is there");
    await page.unroute("**/now**");
    await becomes(page, "live");
    await page.context().close();
  });
});
