// The recording of the demo, cut short or with other texts in it.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

import { startDaemon } from "./daemon.mjs";

const RECORDING = join(import.meta.dirname, "../../web/demo.cowbell");

/** Its lines: the head, and one for each tick. */
export const recorded = async () => gunzipSync(await readFile(RECORDING)).toString().trimEnd().split("\n");

/** A tick in which these parts could not be read. */
export function unread(line, parts, error) {
  const tick = JSON.parse(line);
  for (const read of (tick.texts ?? []).filter(({ part }) => parts.includes(part))) {
    delete read.text;
    read.error = error;
  }
  return JSON.stringify(tick);
}

/** Plays these lines. */
export async function play(lines, speed = "max") {
  const folder = await mkdtemp(join(tmpdir(), "cowbell-recording-"));
  const file = join(folder, "played.cowbell");
  await writeFile(file, gzipSync(lines.join("\n") + "\n"));
  const daemon = await startDaemon("serve", "--replay", file, "--speed", String(speed));
  return { ...daemon, stop: () => daemon.stop().then(() => rm(folder, { recursive: true })) };
}
