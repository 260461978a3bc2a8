import { openBrowser, openPage, becomes } from "./browser.mjs";
import { startDaemon } from "./daemon.mjs";
const browser = await openBrowser();
const daemon = await startDaemon("serve", "--config", "/tmp/fl/c.toml", "--replay", "../../web/demo.cowbell", "--speed", "max");
for (const [path, scheme, width, height] of [["/servers", "light", 360, 780], ["/servers", "light", 1366, 768], ["/servers", "dark", 768, 1024], ["/servers?kiosk", "dark", 1920, 1080], ["/servers", "light", 2560, 1440]]) {
  const page = await openPage(browser, { colorScheme: scheme, viewport: { width, height } });
  await page.goto(daemon.url + path); await page.waitForTimeout(1500);
  console.log(path, width, page.faults, await page.evaluate(() => document.documentElement.scrollWidth));
  await page.screenshot({ path: `/tmp/shots/servers${path.length > 8 ? "-kiosk" : ""}-${width}.png` });
  await page.context().close();
}
await browser.close(); await daemon.stop();
