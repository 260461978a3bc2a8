// What cannot be seen is grey, never green: in title, icon, verdict, on the wall and in the terminal.

import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";

import { becomes, openBrowser, openPage } from "./browser.mjs";
import { play, recorded, unread } from "./recording.mjs";

const BEFORE_THE_BACKUP = 25;
/** Later there is an alert about it. */
const DURING_IT = 75;
/** LVM's report may be missing for so many ticks. */
const PATIENCE = 80;

let browser, lines, daemon;
before(async () => {
  browser = await openBrowser();
  lines = await recorded();
});
afterEach(() => daemon?.stop());
after(() => browser?.close());

/** From a tick on, these parts fail. */
const failing = (from, count, parts, error) => lines.slice(0, count).map((line, place) => (place < from ? line : unread(line, parts, error)));

const CASES = {
  "there is no device-mapper": [() => failing(1, BEFORE_THE_BACKUP, ["dm"], "cannot open /dev/mapper/control"), /Snapshot and pool usage cannot be read: .*control/],
  "there is neither LVM nor a device-mapper": [() => failing(1, BEFORE_THE_BACKUP, ["dm", "lvm"], "it is not installed"), /cannot be read: it is not installed/],
  "the reader goes": [() => failing(60, DURING_IT, ["dm", "lvm"], "the reader does not answer"), /Snapshot and pool usage cannot be read: the reader does not answer/],
  "lvs times out": [() => failing(30, 30 + PATIENCE, ["lvm"], "`lvm fullreport` took more than 10 s"), /LVM's report cannot be read: .*took more than 10 s/],
};

describe("what is not seen is grey", () => {
  for (const [what, [recording, sentence]] of Object.entries(CASES)) {
    it(`where ${what}`, async () => {
      daemon = await play(recording());
      const page = await openPage(browser);
      for (const path of ["/", "/?kiosk"]) {
        await page.goto(daemon.url + path);
        await becomes(page, "ended", 30_000);
        assert.match(await page.title(), /^\? /);
        assert.match(await page.locator("#icon").getAttribute("href"), /favicon-unknown/);
        assert.match(await page.locator(".verdict.unknown").innerText(), sentence);
      }
      await page.goto(`${daemon.url}/volumes`);
      assert.match(await page.title(), /^\? /);
      const { grade } = await daemon.json("/api/v1/status");
      assert.equal(grade, "unknown");
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });
  }
});
