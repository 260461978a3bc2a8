// How much the overview moves during five minutes of a filling backup, as fast as it was: node shift.mjs [PATH]

import { openBrowser, openPage, shifts, watchShifts } from "./browser.mjs";
import { play, recorded } from "./recording.mjs";

const PLAYED_MS = 300_000;
/** The recording has a tick each two seconds. The snapshot is created in the first seconds, and fills fast soon after. */
const [FIRST, LAST] = [32, 200];

const [path = "/"] = process.argv.slice(2);
const [head, ...ticks] = await recorded();
const daemon = await play([head, ...ticks.slice(FIRST, LAST)], 1);
const browser = await openBrowser();
const page = await openPage(browser, { viewport: { width: 1366, height: 768 } });
await watchShifts(page);
await page.goto(daemon.url + path);
await page.waitForTimeout(PLAYED_MS);
const { sum, worst } = await shifts(page);
console.log(`layout shift in ${PLAYED_MS / 1000} s: ${sum.toFixed(3)}`, JSON.stringify(worst));
await browser.close();
await daemon.stop();
process.exitCode = sum <= 0.05 ? 0 : 1;
