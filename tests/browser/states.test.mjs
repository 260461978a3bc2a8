// Every page in eleven states, on five screens and in both themes, as pictures for people; and what a program can see of
// them: the first screen holds what it should, and no text lies on other text.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage, tooWide, violations } from "./browser.mjs";
import { fixture, play, recorded, unread, withoutLvm } from "./recording.mjs";

/** Where people look at them after a run. */
const PICTURES = join(import.meta.dirname, "../../target/browser");
const SCREENS = [[360, 740], [768, 1024], [1366, 768], [1920, 1080], [2560, 1440]];
const THEMES = ["light", "dark"];
/** Where axe-core looks, which takes long. */
const AXE_WIDTHS = [360, 1366];
const LINES_OF_IDLE = 25;
/** The recording that is played, of the demo's lines or another host's, and the grade of the host then. */
const STATES = {
  "nothing yet": [(demo) => demo.slice(0, 2), "ok"],
  idle: [(demo) => demo.slice(0, LINES_OF_IDLE), "ok"],
  early: [(demo) => demo.slice(0, 150), "ok"],
  race: [(demo) => demo.slice(0, 300), "critical"],
  critical: [(demo) => demo.slice(0, 600), "critical"],
  lost: [(demo) => demo.slice(0, 785), "critical"],
  after: [(demo) => demo.slice(0, 828), "critical"],
  "many volumes": [() => fixture("many-volumes"), "critical"],
  "long names": [() => fixture("long-names"), "critical"],
  "no LVM": [(demo) => fromTheStart(demo, withoutLvm), "unknown"],
  "no right to read": [(demo) => fromTheStart(demo, (line) => unread(line, ["dm", "lvm"], "the device-mapper requires CAP_SYS_ADMIN, which root lacks here")), "unknown"],
};

/** What differs from these in numbers only has no pictures of the steady pages. */
const STEADY_STATES = ["nothing yet", "after", "many volumes", "long names", "no LVM", "no right to read"];

/** Their lists of volumes take the first screen, and the first snapshot is not the worst. */
const LARGE_HOSTS = ["many volumes", "long names"];

const fromTheStart = (demo, changed) => demo.slice(0, LINES_OF_IDLE).map((line, place) => (place ? changed(line) : line));

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

/** The pages of what this daemon knows. On steady ones a state changes numbers only: axe-core looks there once. */
async function pathsOf(daemon) {
  const [devices, volumes, jobs] = await Promise.all(["devices", "volumes", "jobs"].map((name) => daemon.json(`/api/v1/${name}`)));
  const ofVolume = (kind) => volumes.filter((volume) => volume.kind === kind).slice(0, 1).map(({ vg, lv }) => `/volumes/${vg}/${lv}`);
  return {
    charted: ["/", ...(jobs.length ? [...ofVolume("snapshot"), `/jobs/${jobs[0].id}`] : [])],
    steady: ["/devices", "/status", ...devices.slice(0, 1).map(({ device }) => `/devices/${device}`), ...volumes.slice(0, 1).map(({ vg }) => `/groups/${vg}`), ...ofVolume("thin_pool")],
    others: ["/volumes", "/backups", "/jobs", "/alerts", "/?kiosk"],
  };
}

describe("every page fits every screen", () => {
  for (const [state, [recording, grade]] of Object.entries(STATES)) {
    it(`with ${state}`, async () => {
      daemon = await play(await recording(lines));
      const probe = await openPage(browser);
      await probe.goto(daemon.url);
      await becomes(probe, "ended", 60_000);
      await probe.context().close();
      const { charted, steady, others } = await pathsOf(daemon);
      await Promise.all(SCREENS.map(async ([width, height]) => {
        const page = await openPage(browser, { viewport: { width, height }, reducedMotion: "reduce", bypassCSP: true });
        for (const path of [...charted, ...others, ...(STEADY_STATES.includes(state) ? steady : [])]) {
          const drawn = charted.includes(path) ? page.waitForResponse((answer) => answer.url().includes("width=")) : null;
          await page.goto(daemon.url + path);
          await drawn;
          await becomes(page, "ended");
          await page.waitForTimeout(100);
          for (const colorScheme of THEMES) {
            await page.emulateMedia({ colorScheme });
            assert.deepEqual(await page.evaluate(paleLabels, LEAST_CONTRAST), [], `${path} in ${colorScheme}`);
            if (AXE_WIDTHS.includes(width) && (state === "after" || !steady.includes(path))) assert.deepEqual(await violations(page, colorScheme === "dark"), [], `${path} at ${width} px in ${colorScheme}`);
            const name = `${state}${path}-${width}-${colorScheme}`.replace(/[^A-Za-z0-9]+/g, "-");
            await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: width < 1000 });
          }
          assert.deepEqual(await page.evaluate(tooWide), [], `${path} at ${width} px scrolls sideways`);
          assert.deepEqual(await page.evaluate(tooNarrow), [], `${path} at ${width} px`);
          assert.deepEqual(await page.evaluate(badCommands), [], `${path} at ${width} px`);
          if (path === "/" || (charted.includes(path) && !LARGE_HOSTS.includes(state))) {
            assert.equal(await page.locator("body").getAttribute("data-grade"), grade);
            assert.equal(await page.locator(`.verdict.${grade}`).count(), 1, path);
          }
          if (path === "/alerts" && state === "critical") {
            assert.deepEqual([await page.locator("article").count(), await page.locator("article .raised").count()], [1, 3]);
          }
          if (path.startsWith("/jobs/") && state === "after") {
            assert.equal((await page.locator("main").innerText()).match(/may be truncated/g).length, 1);
          }
          if (path === "/" && width > 1000 && !LARGE_HOSTS.includes(state)) {
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
