// Lists of many volumes and of long names: sorted, filtered by an address, and whole words.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { becomes, openBrowser, openPage, tooWide } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

const recording = (name) => fileURLToPath(new URL(`../fixtures/${name}.cowbell`, import.meta.url));
const play = (name) => startDaemon("serve", "--replay", recording(name), "--speed", "max");

let browser;
before(async () => {
  browser = await openBrowser();
});
after(() => browser?.close());

const names = (page) => page.locator(".volumes tbody th a").allInnerTexts();

describe("the page Volumes", () => {
  let daemon;
  before(async () => {
    daemon = await play("many-volumes");
  });
  after(() => daemon?.stop());

  async function open(path, options) {
    const page = await openPage(browser, options);
    await page.goto(daemon.url + path);
    if (options?.javaScriptEnabled !== false) await becomes(page, "ended", 60_000);
    return page;
  }

  it("is a tree by name, and puts the lost snapshot above those that are nearly full", async () => {
    const page = await open("/volumes");
    assert.deepEqual((await names(page)).slice(0, 4), ["db1", "db1_snapshot", "db2", "db2_snapshot"]);
    await page.getByRole("link", { name: "urgency" }).click();
    await page.waitForURL("**/volumes?sort=urgency*");
    const sorted = await names(page);
    assert.equal(sorted[0], "db6_snapshot");
    assert.ok(sorted.indexOf("db4_snapshot") < sorted.indexOf("db1_snapshot"));
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("is filtered while one types, by its address, and without a script", async () => {
    const page = await open("/volumes?sort=urgency");
    await page.getByLabel("Filter").fill("DB6");
    await page.waitForURL((url) => url.searchParams.get("filter") === "DB6" && url.searchParams.get("sort") === "urgency");
    await page.waitForFunction(() => document.querySelectorAll(".volumes tbody tr").length === 2);
    const address = new URL(page.url()).pathname + new URL(page.url()).search;
    await page.getByLabel("Filter").fill("nothing has this name");
    await page.getByText("No volume matches.").waitFor();
    assert.equal(await page.locator("table").count(), 0, "no empty head remains");
    const without = await open(address, { javaScriptEnabled: false });
    assert.deepEqual(await names(without), ["db6_snapshot", "db6"]);
    await page.context().close();
    await without.context().close();
  });

  it("leads from a group's name to its page, and each page says what is above it", async () => {
    const page = await open("/volumes/vg1");
    assert.equal(new URL(page.url()).pathname, "/groups/vg1");
    const trail = async (path) => {
      await page.goto(daemon.url + path);
      return (await page.getByLabel("Breadcrumb").getByRole("link").allInnerTexts()).join(" ");
    };
    assert.equal(await trail("/groups/vg1"), "Volumes");
    assert.equal(await trail("/volumes/vg1/db1"), "Volumes vg1");
    assert.equal(await trail("/devices/ubda"), "Devices");
    assert.equal(await trail("/jobs"), "Backups");
    assert.equal(await trail("/jobs/compare"), "Backups Jobs");
    await page.goto(`${daemon.url}/volumes`);
    assert.equal(await page.getByLabel("Breadcrumb").count(), 0);
    await page.context().close();
  });
});

describe("names of sixty letters", () => {
  it("break after separators only, on every screen", async () => {
    const daemon = await play("long-names");
    for (const width of [360, 768, 1366]) {
      const page = await openPage(browser, { viewport: { width, height: 800 } });
      for (const path of ["/", "/volumes", "/jobs"]) {
        await page.goto(daemon.url + path);
        await becomes(page, "ended", 60_000);
        assert.deepEqual(await page.evaluate(tooWide), [], `${path} at ${width} px`);
        // Each piece between two places for a break lies on one line.
        const broken = await page.evaluate(() => [...document.querySelectorAll(":is(tbody th a, tbody small, .verdict p):has(wbr)")]
          .flatMap((element) => [...element.childNodes])
          .filter((node) => node.nodeType === Node.TEXT_NODE && !node.data.trim().includes(" "))
          .filter((node) => {
            const range = document.createRange();
            range.selectNodeContents(node);
            return new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top))).size > 1;
          })
          .map(({ data }) => data));
        assert.deepEqual(broken, [], `${path} at ${width} px`);
      }
      await page.context().close();
    }
    await daemon.stop();
  });
});
