// Jobs are chosen by boxes and laid over each other, and a report stands alone as a file, without a script.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { openBrowser, openPage, tooWide } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

const TELEPHONE = { width: 360, height: 740 };
/** Longer than a telephone is wide, and with what would be a command in a sentence. */
const LONG = `dump \`lvremove -f vg0/data\` ${"of_the_production_database_".repeat(5)}`;

/** Whether nothing covers the heading. */
function onTop() {
  const { left, top, width, height } = document.querySelector("h1").getBoundingClientRect();
  return Boolean(document.elementFromPoint(left + width / 2, top + height / 2)?.closest("h1"));
}

let browser, daemon;
before(async () => {
  browser = await openBrowser();
  daemon = await startDaemon("serve");
  for (const key of ["one", "two"]) await daemon.command("run", "--name", key, "--", "sleep", "2.5");
  await daemon.command("run", "--name", LONG, "--set", LONG, "--", "sleep", "2.5");
});
after(async () => {
  await browser?.close();
  await daemon?.stop();
});

describe("jobs compared", () => {
  it("are chosen by boxes without a script, and drawn over each other", async () => {
    const page = await openPage(browser, { javaScriptEnabled: false });
    await page.goto(`${daemon.url}/jobs`);
    await page.getByRole("link", { name: "Compare jobs" }).click();
    for (const name of ["one", "two"]) await page.getByRole("checkbox", { name }).check();
    await page.getByRole("button", { name: "Compare" }).click();
    assert.match(page.url(), /\/jobs\/compare\?id=2&id=1$/);
    assert.equal(await page.locator("h1").innerText(), "Jobs compared");
    assert.ok((await page.locator("svg.chart").count()) >= 1);
    assert.match(await page.locator("table.ratios").innerText(), /duration/);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("fit a telephone with names of any length, which are no commands, and nothing lies on anything", async () => {
    const page = await openPage(browser, { viewport: TELEPHONE });
    for (const path of ["/", "/jobs", "/jobs/3", "/jobs/compare", "/jobs/compare?ids=1,2,3"]) {
      await page.goto(daemon.url + path);
      await page.waitForTimeout(1_500);
      assert.deepEqual(await page.evaluate(tooWide), [], path);
      assert.equal(await page.locator(".copy[data-copy*=lvremove]").count(), 0, path);
      if (path !== "/") assert.ok(await page.evaluate(onTop), `${path} covers its heading`);
    }
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });

  it("are a report that fetches nothing, in both themes", async () => {
    const folder = await mkdtemp(join(tmpdir(), "cowbell-report-"));
    const file = join(folder, "report.html");
    await writeFile(file, await (await fetch(`${daemon.url}/api/v1/jobs/report?ids=1,2`)).text());
    for (const [colorScheme, paper] of [["light", "rgb(251, 251, 249)"], ["dark", "rgb(20, 23, 26)"]]) {
      const page = await openPage(browser, { colorScheme, viewport: TELEPHONE });
      await page.goto(`file://${file}`);
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), paper);
      assert.equal(await page.locator("section.report").count(), 3);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= TELEPHONE.width, `the report is ${width} pixels wide`);
      assert.deepEqual(page.faults.filter((fault) => !fault.endsWith("report.html")), []);
      await page.context().close();
    }
    await rm(folder, { recursive: true });
  });
});
