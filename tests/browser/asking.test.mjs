// What a person does with charts: other ranges, numbers, pictures and files; and that pages are accessible.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage, violations } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

const ZOOM_MS = 100;

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

const range = (page) => page.locator(".charts").evaluate(({ dataset: { from, to } }) => [Number(from), Number(to)]);
/** Waits until the charts show another range than this one, and returns it. */
async function rangeAfter(page, before) {
  await page.waitForFunction((from) => document.querySelector(".charts").dataset.from !== String(from), before[0]);
  return range(page);
}
const rangeTo = (page, to) => page.waitForFunction((to) => document.querySelector(".charts")?.dataset.to === String(to), to);
const seconds = ([from, to]) => (to - from) / 1000;

async function drag(page, from, to) {
  const box = await page.locator(".over").first().boundingBox();
  const place = (part) => [box.x + box.width * part, box.y + box.height / 2];
  await page.mouse.move(...place(from));
  await page.mouse.down();
  await page.mouse.move(...place((from + to) / 2));
  await page.mouse.move(...place(to));
  await page.mouse.up();
}

describe("a range", () => {
  it("is chosen by dragging, is an address, and is undone by Back, z and a double click", async () => {
    const page = await openCharts("/");
    const whole = await range(page);
    const address = page.url();
    const undo = [() => page.goBack(), () => page.keyboard.press("z"), () => page.locator(".over").first().dblclick()];
    for (const back of undo) {
      await drag(page, 0.4, 0.6);
      const part = await rangeAfter(page, whole);
      assert.ok(seconds(part) < seconds(whole) / 2 && part[0] > whole[0], `${part} of ${whole}`);
      assert.match(page.url(), /from=.*to=/);
      assert.equal(await page.locator("#live").innerText(), "recording ended");
      await back();
      assert.deepEqual(await rangeAfter(page, part), whole);
      assert.equal(page.url(), address);
    }
    await close(page);
  });

  it("is on all charts, and on the page that is opened with its address", async () => {
    const page = await openCharts("/");
    const whole = await range(page);
    await drag(page, 0.4, 0.6);
    const part = await rangeAfter(page, whole);
    const froms = await page.locator("svg.chart metadata").evaluateAll((all) => all.map((one) => JSON.parse(one.textContent).from));
    assert.ok(froms.length > 2 && froms.every((from) => from === froms[0]), String(froms));
    const other = await openCharts(new URL(page.url()).pathname + new URL(page.url()).search);
    assert.deepEqual(await range(other), part);
    await close(other);
    await close(page);
  });

  it("moves and changes by keys", async () => {
    const page = await openCharts("/");
    const whole = await range(page);
    await page.keyboard.press("+");
    const half = await rangeAfter(page, whole);
    await page.waitForTimeout(200);
    await page.keyboard.press("ArrowLeft");
    const earlier = await rangeAfter(page, half);
    assert.ok(earlier[0] < half[0] && Math.abs(seconds(earlier) - seconds(half)) <= 2, `${earlier}, ${half}`);
    await page.keyboard.press("Shift+ArrowRight");
    const later = await rangeAfter(page, earlier);
    assert.ok(later[0] > earlier[0]);
    await close(page);
  });

  it("is typed into fields, and a wrong one is refused in place", async () => {
    const page = await openCharts("/");
    await page.locator(".picker summary").click();
    const [from, to] = [page.locator("input[name=from]"), page.locator("input[name=to]")];
    const written = await to.inputValue();
    const minute = new Date(Date.parse(`${written}Z`) - 60e3).toISOString().slice(0, 19);
    await from.fill(written);
    await to.fill(minute);
    await page.locator(".picker button").click();
    assert.match(await to.evaluate((field) => field.validationMessage), /later/);
    await from.fill(minute);
    await to.fill(written);
    const before = await range(page);
    await page.locator(".picker button").click();
    assert.equal(seconds(await rangeAfter(page, before)), 60);
    await close(page);
  });

  it("without data leads to the nearest data", async () => {
    const page = await openCharts("/?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z");
    const link = page.locator(".charts .empty a");
    assert.match(await link.innerText(), /nearest data/);
    await link.click();
    await page.locator("svg.chart .line").first().waitFor();
    await close(page);
  });

  it(`is shown within ${ZOOM_MS} ms`, async () => {
    const page = await openCharts("/");
    const taken = [];
    for (let round = 0; round < 5; round++) {
      const ms = page.evaluate(() => new Promise((done) => {
        const began = performance.now();
        document.body.addEventListener("htmx:after:swap", () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - began))), { once: true });
      }));
      await page.keyboard.press("+");
      taken.push(await ms);
      await page.waitForTimeout(150);
    }
    taken.sort((a, b) => a - b);
    console.log(`zoom: median ${taken[2].toFixed(0)} ms, slowest ${taken[4].toFixed(0)} ms`);
    assert.ok(taken[2] <= ZOOM_MS, `${taken[2]} ms`);
    await close(page);
  });
});

describe("the numbers of a chart", () => {
  /** Saves the first chart in a form. */
  async function saved(page, form) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator(".save button", { hasText: form }).first().click()]);
    return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
  }

  it("are a table, CSV and JSON, and its picture is SVG and PNG", async () => {
    const page = await openCharts(`/jobs/${job.id}`);
    await page.locator(".save summary").first().click();
    await page.locator(".save button", { hasText: "Table" }).first().click();
    const rows = await page.locator(".numbers").first().locator("tbody tr").count();
    assert.ok(rows > 30, `${rows} rows`);
    const [csv, json] = [await saved(page, "CSV"), await saved(page, "JSON")];
    const lines = csv.bytes.toString().split("\r\n");
    assert.equal(lines.length, rows + 1);
    assert.match(lines[0], /^"time","read speed \(.*\)","fill \(%\)"$/);
    assert.match(csv.name, /^[\w.-]+\.csv$/);
    assert.equal(JSON.parse(json.bytes).rows.length, rows);
    const svg = (await saved(page, "SVG")).bytes.toString();
    assert.match(svg, /^<svg .*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
    assert.match(svg, /Fill and read speed/);
    const png = (await saved(page, "PNG")).bytes;
    assert.equal(png.subarray(1, 4).toString(), "PNG");
    assert.ok(png.readUInt32BE(16) > 1500, "twice the width");
    await close(page);
  });

  it("calculate nothing in a spreadsheet, and name no other file", async () => {
    const page = await openCharts("/");
    await page.locator("h2").first().evaluate((title) => (title.textContent = "../=1/Fill"));
    await page.locator("svg.chart metadata").first().evaluate((place) => {
      const numbers = JSON.parse(place.textContent);
      numbers.lines[0].label = '=HYPERLINK("x")';
      place.textContent = JSON.stringify(numbers);
    });
    await page.evaluate(() => document.body.dispatchEvent(new CustomEvent("htmx:after:swap", { detail: { ctx: { response: { status: 200 } } } })));
    await page.locator(".save summary").first().click();
    const { name, bytes } = await saved(page, "CSV");
    assert.match(bytes.toString(), /"'=HYPERLINK\(""x""\)/);
    assert.match(name, /^[\w.-]+$/);
    await close(page);
  });
});

describe("keys and filters", () => {
  it("list the keys, and filter while one types", async () => {
    const page = await openPage(browser);
    await page.goto(`${daemon.url}/devices`);
    await becomes(page, "ended");
    await page.keyboard.press("?");
    assert.match(await page.locator("#keys").innerText(), /pauses and resumes/);
    await page.keyboard.press("Escape");
    const all = await page.locator("tbody tr").count();
    await page.keyboard.press("/");
    await page.keyboard.type("pv of");
    await page.waitForFunction((all) => document.querySelectorAll("tbody tr").length < all, all);
    await page.goto(`${daemon.url}/volumes`);
    await page.keyboard.press("/");
    await page.keyboard.type("thin pool");
    await page.waitForFunction(() => [...document.querySelectorAll("tbody tr")].filter((row) => row.checkVisibility()).length === 1);
    await close(page);
  });
});

describe("every page", () => {
  it("has nothing that axe-core finds, where no stage of a backup leads", async () => {
    const pages = ["/jobs/compare", `/api/v1/jobs/report?ids=${job.id}`, "/none", "/?from=x"];
    for (const width of [360, 1366]) {
      const page = await openPage(browser, { bypassCSP: true, reducedMotion: "reduce", viewport: { width, height: 768 } });
      for (const path of pages) {
        await page.goto(daemon.url + path);
        await page.waitForTimeout(300);
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          assert.deepEqual(await violations(page), [], `${path} at ${width} px in ${colorScheme}`);
        }
      }
      await page.context().close();
    }
  });

  it("shows times where the reader is, or in UTC, which is kept", async () => {
    const page = await openCharts("/", { timezoneId: "Asia/Kolkata" });
    const axis = () => page.locator("svg.chart").first().locator("text", { hasText: /^(IST|UTC)$/ }).innerHTML();
    const ends = () => page.locator(".picker input[type=datetime-local]").evaluateAll((fields) => fields.map(({ value }) => value));
    const [from, to] = (await range(page)).map((ms) => new Date(ms + 5.5 * 3600e3).toISOString());
    assert.match(await page.locator(".span").innerText(), new RegExp(`${from.slice(11, 16)} to ${to.slice(11, 16)} IST$`));
    assert.equal(await axis(), "IST");
    assert.match(await page.locator(".verdict").innerText(), /invalid at 2026-11-24 01:13:23 IST/);
    await page.locator(".picker summary").click();
    assert.deepEqual((await ends()).map((end) => end.slice(0, 16)), [from.slice(0, 16), to.slice(0, 16)]);
    // Both halves of the range: the fields mean what they show, by script and without.
    const half = new Date(Date.parse(from) + 300e3).toISOString().slice(0, 19);
    await page.locator(".picker input[name=to]").fill(half);
    await page.locator(".picker button").click();
    await rangeTo(page, Date.parse(`${half}Z`) - 5.5 * 3600e3);
    const form = `?from=${from.slice(0, 19)}&to=${half}&zone=Asia/Kolkata`;
    await page.goto(daemon.url + form);
    await rangeTo(page, Date.parse(`${half}Z`) - 5.5 * 3600e3);
    await page.locator("#zone button").click();
    await page.waitForFunction(() => document.getElementById("zone")?.dataset.zone === "UTC");
    await page.goto(`${daemon.url}/jobs`);
    assert.match(await page.locator("th", { hasText: "Started" }).innerText(), /UTC/);
    await page.keyboard.press("u");
    await page.waitForFunction(() => document.getElementById("zone")?.dataset.zone !== "UTC");
    assert.match(await page.locator("th", { hasText: "Started" }).innerText(), /IST/);
    await close(page);
  });
});
