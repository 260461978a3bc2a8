// A real daemon for the browser to look at: on a free port, with a database of its own, gone with the test.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PROGRAM = process.env.COWBELL ?? fileURLToPath(new URL("../../target/release/cowbell", import.meta.url));
const FIRST_TICK_MS = 15_000;
/** What its pages ask for before a change, unless the command line names another configuration. */
export const TOKEN = "0123456789abcdef0123456789abcdef";

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Starts `cowbell ARGUMENTS` and waits for its first tick. A demo chooses the place of its database itself. */
export async function startDaemon(...commandLine) {
  const folder = await mkdtemp(join(tmpdir(), "cowbell-browser-"));
  const url = `http://127.0.0.1:${await freePort()}`;
  const own = ["--listen", url.slice("http://".length)];
  if (!commandLine.includes("--config")) own.push("--config", await configuration(folder));
  if (commandLine[0] !== "demo") own.push("--db", join(folder, "cowbell.db"));
  const env = { ...process.env, XDG_RUNTIME_DIR: folder, TMPDIR: folder };
  const child = spawn(PROGRAM, [...commandLine, ...own], { stdio: ["ignore", "ignore", "pipe"], env });
  let log = "";
  child.stderr.on("data", (bytes) => (log += bytes));
  const ended = new Promise((resolve) => child.on("close", resolve));
  await firstTick(url, () => child.exitCode ?? child.signalCode, () => log);
  return {
    url,
    /** Runs `cowbell ARGUMENTS` beside it. */
    async command(...commandLine) {
      const listen = own.slice(0, 2);
      const command = spawn(PROGRAM, [...listen, ...commandLine], { stdio: ["ignore", "ignore", "inherit"], env });
      const [status] = await once(command, "close");
      if (status !== 0) throw new Error(`cowbell ${commandLine.join(" ")} ended with ${status}`);
    },
    json: async (path) => (await fetch(url + path)).json(),
    signal: (name) => child.kill(name),
    async stop() {
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

async function configuration(folder) {
  const [token, config] = [join(folder, "token"), join(folder, "cowbell.toml")];
  await writeFile(token, TOKEN, { mode: 0o600 });
  await writeFile(config, `[changes]\ntoken_file = "${token}"\n`);
  return config;
}

async function firstTick(url, ended, log) {
  const began = Date.now();
  while (Date.now() - began < FIRST_TICK_MS) {
    if (ended() !== null) throw new Error(`the daemon ended with ${ended()}: ${log()}`);
    const answer = await fetch(`${url}/healthz`).catch(() => null);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the daemon took no tick: ${log()}`);
}
