// Pictures of a running daemon's pages, for people: node screenshots.mjs URL [FOLDER [PATH…]]
// Each page in both colour schemes, at the width of a desktop and of a telephone, whole.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import { openBrowser, openPage } from "./browser.mjs";

const [url = "http://127.0.0.1:2692", folder = "screenshots", ...wished] = process.argv.slice(2);
const WIDTHS = { desktop: 1280, telephone: 360 };

async function allPaths() {
  const json = async (path) => (await fetch(url + path)).json();
  const [devices, volumes, jobs] = await Promise.all(["devices", "volumes", "jobs"].map((name) => json(`/api/v1/${name}`)));
  const disk = devices.find((device) => device.kind === "disk") ?? devices[0];
  const snapshot = volumes.find((volume) => volume.kind === "snapshot") ?? volumes[0];
  return ["/", "/devices", "/volumes", "/backups", "/jobs", "/alerts", "/status",
    ...(disk ? [`/devices/${disk.device}`] : []),
    ...(snapshot ? [`/volumes/${snapshot.vg}/${snapshot.lv}`] : []),
    ...(jobs[0] ? [`/jobs/${jobs[0].id}`] : [])];
}

const browser = await openBrowser();
await mkdir(folder, { recursive: true });
for (const path of wished.length ? wished : await allPaths()) {
  for (const [device, width] of Object.entries(WIDTHS)) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await openPage(browser, { colorScheme, viewport: { width, height: 800 } });
      await page.goto(url + path);
      await page.waitForTimeout(2_500);
      const name = path.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "") || "overview";
      const file = join(folder, `${name}-${device}-${colorScheme}.png`);
      await page.screenshot({ path: file, fullPage: true });
      console.log(file, ...page.faults);
      await page.context().close();
    }
  }
}
await browser.close();
