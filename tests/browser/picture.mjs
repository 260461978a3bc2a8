// Makes the picture of the README, from the recording of the demo: node picture.mjs

import { fileURLToPath } from "node:url";

import { openBrowser, openPage } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";

const FILE = fileURLToPath(new URL("../../web/overview.png", import.meta.url));
// The snapshot is to be so full, in percent.
const FILL = 70;

const daemon = await startDaemon("demo");
const browser = await openBrowser();
const page = await openPage(browser, { colorScheme: "light", viewport: { width: 1366, height: 768 } });
await page.goto(daemon.url);
await page.waitForFunction(
  (fill) => [...document.querySelectorAll(".fills .fill")].some((cell) => parseFloat(cell.innerText) >= fill),
  FILL,
  { timeout: 120_000 },
);
await page.screenshot({ path: FILE });
await browser.close();
await daemon.stop();
