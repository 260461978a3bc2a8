import { openBrowser, openPage, becomes } from "./browser.mjs";
import { startDaemon, TOKEN } from "./daemon.mjs";
const [file, out, ...paths] = process.argv.slice(2);
const browser = await openBrowser();
const daemon = await startDaemon(...(file === "demo" ? ["demo", "--speed", "max"] : ["serve", "--replay", file, "--speed", "max"]));
const list = paths.length ? paths : ["/alerts", "/volumes"];
for (const [scheme, width, height] of [["light", 360, 780], ["light", 1366, 768], ["dark", 1366, 768], ["light", 2560, 1440]]) {
  const page = await openPage(browser, { colorScheme: scheme, viewport: { width, height } });
  for (const path of list) {
    await page.goto(daemon.url + path); await becomes(page, "ended", 60000).catch(() => {}); await page.waitForTimeout(700);
    await page.screenshot({ path: `${out}${path.replace(/[^a-z0-9]+/gi, "-")}-${width}-${scheme}.png` });
  }
  await page.context().close();
}
await browser.close(); await daemon.stop();
