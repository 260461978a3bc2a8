// Charts answer questions: by mouse, by touch and by keys, over the numbers that they carry.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

/** The height of the smallest label, in pixels. */
const MOST_SMALL = 11;
const CROSSHAIR_MS = 16;
/** As browsers on telephones call themselves. */
const TELEPHONE = "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0";

let browser, daemon, job;
before(async () => {
  browser = await openBrowser();
  daemon = await startDaemon("demo", "--speed", "max");
  for (let tries = 0; !job && tries < 100; tries++) {
    job = (await daemon.json("/api/v1/jobs")).find((job) => job.kind === "snapshot" && job.ended_at);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});
after(async () => {
  await browser?.close();
  await daemon?.stop();
});

/** A page with charts, drawn for its width. */
async function openCharts(path, options) {
  const page = await openPage(browser, options);
  const drawn = page.waitForResponse((response) => response.url().includes("width="));
  await page.goto(daemon.url + path);
  await drawn;
  await becomes(page, "ended");
  await page.locator(".over > .cross").first().waitFor({ state: "attached" });
  await page.waitForTimeout(100);
  return page;
}

async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const values = (page) => page.locator(".legend b").allInnerTexts();
const times = (page) => page.locator(".when:visible").allInnerTexts();
const bottomOf = async (locator) => (await locator.boundingBox()).y + (await locator.boundingBox()).height;

/** A place over a chart, in parts of its width and height. */
async function placeOver(page, number, x, y = 0.5) {
  const over = page.locator(".over").nth(number);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  return [box.x + box.width * x, box.y + box.height * y];
}

describe("the crosshair", () => {
  it("shows the values of all lines at one time, on all charts", async () => {
    const page = await openCharts(`/jobs/${job.id}`);
    const atRest = await values(page);
    await page.mouse.move(...(await placeOver(page, 1, 0.5)));
    const shown = await times(page);
    assert.equal(shown.length, await page.locator("svg.chart").count());
    assert.equal(new Set(shown).size, 1, shown.join());
    assert.match(shown[0], /^\d\d:\d\d:\d\d$/);
    const there = await values(page);
    assert.notDeepEqual(there, atRest);
    assert.match(there[0], /^\d+\.\d+ MiB\/s$/);
    assert.match(there[1], /^\d+\.\d\d %$/);
    await page.mouse.move(5, 5);
    assert.deepEqual(await values(page), atRest);
    assert.deepEqual(await times(page), []);
    await close(page);
  });

  it("shows the numbers of the API", async () => {
    const page = await openCharts(`/jobs/${job.id}`);
    const place = await placeOver(page, 0, 0.6);
    await page.mouse.move(...place);
    const at = Number(await page.locator(".over").first().getAttribute("aria-valuenow"));
    const [of, to] = [`volume:${job.vg}/${job.lv}`, new Date(at + 500).toISOString()];
    const series = await daemon.json(`/api/v1/series?of=${of}&metric=fill_percent&from=${job.started_at}&to=${to}&points=10000`);
    const point = series.reduce((near, point) => (Math.abs(Date.parse(point.t) - at) < Math.abs(Date.parse(near.t) - at) ? point : near));
    assert.equal((await values(page))[1], `${point.avg.toFixed(2)} %`);
    await close(page);
  });

  it("moves by keys and by touch, and goes with Escape", async () => {
    const page = await openCharts(`/jobs/${job.id}`, { hasTouch: true });
    const over = page.locator(".over").first();
    await over.focus();
    for (const key of ["ArrowLeft", "ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
    const [before] = await times(page);
    await page.keyboard.press("ArrowRight");
    const [then] = await times(page);
    assert.ok(then > before, `${before} ${then}`);
    assert.match(await over.getAttribute("aria-valuetext"), new RegExp(`^${then}, read speed .*, fill `));
    await page.keyboard.press("Escape");
    assert.deepEqual(await times(page), []);
    await page.touchscreen.tap(...(await placeOver(page, 0, 0.4)));
    assert.ok((await times(page)).length > 1);
    await close(page);
  });

  it(`takes at most ${CROSSHAIR_MS} ms a move`, async (test) => {
    const page = await openCharts(`/jobs/${job.id}`);
    const took = await page.evaluate(() => {
      const over = document.querySelector(".over");
      const { left, top, width } = over.getBoundingClientRect();
      return Array.from({ length: 200 }, (_, number) => {
        const began = performance.now();
        const [clientX, clientY] = [left + (width * number) / 200, top + 50];
        over.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, pointerType: "mouse", clientX, clientY }));
        document.body.getBoundingClientRect(); // the layout that follows
        return performance.now() - began;
      }).sort((a, b) => a - b);
    });
    test.diagnostic(`crosshair: median ${took[100].toFixed(2)} ms, slowest ${took[199].toFixed(2)} ms`);
    assert.ok(took[190] <= CROSSHAIR_MS, `${took[190]} ms`);
    await close(page);
  });
});

describe("the legend", () => {
  it("hides and shows lines by buttons, also after a refresh", async () => {
    const page = await openCharts(`/jobs/${job.id}`);
    const button = page.getByRole("button", { name: /^fill/ });
    const line = page.locator("path.line.kf").first();
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    assert.ok(await line.isVisible());
    await button.click();
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    assert.ok(!(await line.isVisible()));
    const refreshed = page.waitForResponse((response) => response.url().includes("width="));
    await page.evaluate(() => document.getElementById("now").dispatchEvent(new CustomEvent("view")));
    await refreshed;
    await page.waitForTimeout(200);
    assert.ok(!(await line.isVisible()));
    await page.getByRole("button", { name: /^fill/ }).click();
    assert.ok(await line.isVisible());
    await close(page);
  });
});

describe("a page with charts", () => {
  it("has targets of 24 pixels, and nothing to click inside a picture", async () => {
    for (const path of ["/", `/jobs/${job.id}`]) {
      const page = await openCharts(path);
      const small = await page.locator(".charts button, .charts summary, .tools a, .tools button, .tools summary").evaluateAll((all) =>
        all.filter((one) => one.checkVisibility()).map((one) => [one.textContent, one.getBoundingClientRect()])
          .filter(([, { width, height }]) => width < 24 || height < 24).map(([text, { width, height }]) => `${text}: ${width} × ${height}`));
      assert.deepEqual(small, []);
      assert.equal(await page.locator("[role=img] a, [role=img] button, [role=img] [tabindex]").count(), 0);
      await close(page);
    }
  });

  it("is legible without a script, also on a telephone, with no button that does nothing", async () => {
    for (const [width, height, userAgent] of [[1280, 900], [360, 740], [360, 740, TELEPHONE]]) {
      const page = await openPage(browser, { javaScriptEnabled: false, viewport: { width, height }, ...(userAgent && { userAgent }) });
      for (const path of ["/", `/jobs/${job.id}`]) {
        await page.goto(daemon.url + path);
        assert.ok((await page.locator("svg.chart").count()) >= 3);
        const labels = await page.locator("svg.chart .tick").evaluateAll((all) => all.map((label) => label.getBoundingClientRect().height));
        assert.ok(Math.min(...labels) >= MOST_SMALL, `labels of ${Math.min(...labels)} px on ${path} at ${width} px`);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} at ${width} px`);
        if (userAgent) {
          const chart = await page.locator("svg.chart").first().boundingBox();
          assert.ok(chart.x >= 0 && chart.x + chart.width <= width, `the whole chart is in sight: ${JSON.stringify(chart)}`);
        }
        assert.equal(await page.locator(".over:visible").count(), 0);
        assert.equal(await page.locator("button:visible:not(.demo *):not(form[method] *)").count(), 0);
      }
      assert.match(await page.locator(".legend").first().innerText(), /read speed/);
      await page.getByRole("link", { name: /reload/i }).click();
      await close(page);
    }
  });
});
