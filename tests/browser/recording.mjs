// The recording of the demo, cut short or with other texts in it.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

import { startDaemon } from "./daemon.mjs";

const RECORDING = join(import.meta.dirname, "../../web/demo.cowbell");

const linesOf = async (file) => gunzipSync(await readFile(file)).toString().trimEnd().split("\n");

/** Its lines: the head, and one for each tick. */
export const recorded = () => linesOf(RECORDING);

/** The lines of another recording. */
export const fixture = (name) => linesOf(join(import.meta.dirname, `../fixtures/${name}.cowbell`));

/** A tick in which these parts could not be read. */
export function unread(line, parts, error) {
  const tick = JSON.parse(line);
  for (const read of (tick.texts ?? []).filter(({ part }) => parts.includes(part))) {
    delete read.text;
    read.error = error;
  }
  return JSON.stringify(tick);
}

/** The tick on a host that has neither LVM nor a device-mapper. */
export function withoutLvm(line) {
  const withoutDm = unread(line, ["dm"], "cannot open /dev/mapper/control: it does not exist: the kernel module dm_mod is not loaded, or this is a container");
  const tick = JSON.parse(unread(withoutDm, ["lvm"], "`lvm` is not installed; install lvm2 if this host uses LVM"));
  tick.texts = tick.texts?.filter(({ part }) => !["lvm_config", "mounts", "usage"].includes(part));
  for (const read of tick.texts?.filter(({ text }) => text) ?? []) {
    read.text = read.text.split("\n").filter((line) => !/\bdm-/.test(line)).join("\n");
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
