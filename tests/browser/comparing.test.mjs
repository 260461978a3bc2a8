// Jobs are chosen by boxes and laid over each other, and a report stands alone as a file, without a script.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { openBrowser, openPage } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

const TELEPHONE = { width: 400, height: 800 };

let browser, daemon;
before(async () => {
  browser = await openBrowser();
  daemon = await startDaemon("serve");
  for (const key of ["one", "two"]) await daemon.command("run", "--name", key, "--", "sleep", "2.5");
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

  it("fit a telephone", async () => {
    const page = await openPage(browser, { viewport: TELEPHONE });
    for (const path of ["/jobs/compare", "/jobs/compare?ids=1,2"]) {
      await page.goto(daemon.url + path);
      await page.waitForTimeout(1_500);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= TELEPHONE.width, `${path} is ${width} pixels wide`);
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
