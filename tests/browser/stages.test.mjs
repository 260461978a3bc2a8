// Every page at each stage of a recorded backup, on three screens and in both themes, as pictures for people; and what a
// program can see of them: the first screen holds what it should, and no text lies on other text.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage, tooWide, violations } from "./browser.mjs";
import { play, recorded } from "./recording.mjs";

/** Where people look at them after a run. */
const PICTURES = join(import.meta.dirname, "../../target/browser");
const SCREENS = [[1366, 768], [1920, 1080], [360, 740]];
const THEMES = ["light", "dark"];
/** Where axe-core looks, which takes long. */
const AXE_WIDTHS = [360, 1366];
/** Pages on which a stage changes numbers only: it looks there at the last stage. */
const STEADY = ["/devices", "/devices/vda", "/groups/vg0", "/volumes/vg0/pool", "/status"];
/** How many lines of the recording are played, and the grade of the host and of the snapshot then. */
const STAGES = {
  before: [25, "ok"],
  growing: [150, "ok"],
  foreseen: [300, "critical"],
  filling: [600, "critical"],
  invalid: [785, "critical"],
  over: [828, "critical"],
};

let browser, lines, daemon;
before(async () => {
  browser = await openBrowser();
  await mkdir(PICTURES, { recursive: true });
  lines = await recorded();
});
afterEach(() => daemon?.stop());
after(() => browser?.close());

/** Cells whose text is wider than they are, so that it lies on the next one or is cut. */
const tooNarrow = () => [...document.querySelectorAll("main :is(td, th)")]
  .filter((cell) => cell.checkVisibility() && cell.scrollWidth > cell.clientWidth + 1)
  .map((cell) => `${cell.innerText}: ${cell.scrollWidth} in ${cell.clientWidth} px`);

/** Commands in sentences that break inside, or cannot be copied. */
const badCommands = () => [...document.querySelectorAll(".verdict code")]
  .filter((code) => code.innerText.includes(" ") && (code.getClientRects().length > 1 || !code.nextElementSibling?.matches(".copy")))
  .map((code) => code.innerText);

const LEAST_CONTRAST = 4.5;
/** Labels of charts without enough contrast to their outline, which lies on whatever is behind. */
const paleLabels = (least) => {
  const light = (colour) => {
    const parts = colour.match(/[\d.]+/g).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05;
  };
  return [...document.querySelectorAll("svg.chart text")].filter((label) => {
    const { fill, stroke, paintOrder } = getComputedStyle(label);
    if (!stroke.startsWith("rgb") || !paintOrder.startsWith("stroke")) return true;
    const [text, outline] = [light(fill), light(stroke)];
    return Math.max(text, outline) / Math.min(text, outline) < least;
  }).map((label) => label.textContent);
};

describe("a backup that fills its snapshot", () => {
  for (const [stage, [count, grade]] of Object.entries(STAGES)) {
    it(`is shown on every page while it is ${stage}`, async () => {
      daemon = await play(lines.slice(0, count));
      const probe = await openPage(browser);
      await probe.goto(daemon.url);
      await becomes(probe, "ended", 60_000);
      await probe.context().close();
      const [job] = await daemon.json("/api/v1/jobs");
      const ofJob = job ? ["/volumes/vg0/data_snapshot", `/jobs/${job.id}`] : [];
      const paths = ["/", "/volumes", "/volumes/vg0/pool", "/groups/vg0", "/devices", "/devices/vda", "/backups", "/jobs", "/alerts", "/status", "/?kiosk", ...ofJob];
      await Promise.all(SCREENS.map(async ([width, height]) => {
        const page = await openPage(browser, { viewport: { width, height }, reducedMotion: "reduce", bypassCSP: true });
        for (const path of paths) {
          const drawn = ["/", ...ofJob].includes(path) ? page.waitForResponse((answer) => answer.url().includes("width=")) : null;
          await page.goto(daemon.url + path);
          await drawn;
          await becomes(page, "ended");
          await page.waitForTimeout(100);
          for (const colorScheme of THEMES) {
            await page.emulateMedia({ colorScheme });
            assert.deepEqual(await page.evaluate(paleLabels, LEAST_CONTRAST), [], `${path} in ${colorScheme}`);
            if (AXE_WIDTHS.includes(width) && (stage === "over" || !STEADY.includes(path))) assert.deepEqual(await violations(page, colorScheme === "dark"), [], `${path} at ${width} px in ${colorScheme}`);
            const name = `${stage}${path}-${width}-${colorScheme}`.replace(/[^A-Za-z0-9]+/g, "-");
            await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: width < 1000 });
          }
          assert.deepEqual(await page.evaluate(tooWide), [], `${path} at ${width} px scrolls sideways`);
          assert.deepEqual(await page.evaluate(tooNarrow), [], `${path} at ${width} px`);
          assert.deepEqual(await page.evaluate(badCommands), [], `${path} at ${width} px`);
          if (["/", ...ofJob].includes(path)) {
            assert.equal(await page.locator("body").getAttribute("data-grade"), grade);
            assert.equal(await page.locator(`.verdict.${grade}`).count(), 1, path);
          }
          if (path === "/alerts" && stage === "filling") {
            assert.deepEqual([await page.locator("article").count(), await page.locator("article .raised").count()], [1, 3]);
          }
          if (path.startsWith("/jobs/") && stage === "over") {
            assert.equal((await page.locator("main").innerText()).match(/may be truncated/g).length, 1);
          }
          if (path === "/" && width > 1000) {
            const bottoms = await page.locator("svg.chart").evaluateAll((all) => all.map((chart) => chart.getBoundingClientRect().bottom));
            assert.ok(Math.max(...bottoms) <= height, `charts end at ${bottoms} of ${height} px`);
          }
        }
        assert.deepEqual(page.faults, []);
        await page.context().close();
      }));
    });
  }
});
