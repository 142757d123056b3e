// Debian's chromium for the programs that open the status page, and servers for it.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { existsSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';

// How long a condition may take on a loaded machine.
export const DEADLINE = 20000;

export const require = createRequire(path.resolve('.tools/browser/package.json'));
const browserPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);

// Starts chromium. Without it, or without its driver, the program ends with 77.
export async function launch() {
  let chromium;
  try {
    chromium = require('playwright-core').chromium;
  } catch {
    process.exit(77);
  }
  if (!browserPath) process.exit(77);
  return chromium.launch({
    executablePath: browserPath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
}

export function must(holds, what) {
  if (!holds) throw new Error(what);
}

export async function call(server, method, message) {
  const answer = await fetch(`http://${server}/bellwether.v1.${method}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(message),
  });
  const text = await answer.text();
  must(answer.ok, `${method}: ${text}`);
  return JSON.parse(text);
}

export function report(server, application, level, message = '') {
  const status = { level: `LEVEL_${level}`, message, action: message && `fix ${application}` };
  return call(server, 'ReportService/ReportStatus', { application, unit: `${application}/0`, status });
}

// Reports so many applications, all active.
export async function fill(server, count) {
  for (let n = 0; n < count; n += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, at) => report(server, `app-${n + at}`, 'ACTIVE')));
  }
}

// A server of its own, to be ended and started again on the same port; without a folder for its data it has none.
export async function start(binary, port, more = [], folder = null, env = {}) {
  const store = folder ? ['--data-dir', folder] : ['--ephemeral'];
  const listen = ['--grpc-listen', `127.0.0.1:${port}`, '--ops-listen', '127.0.0.1:0'];
  const child = spawn(binary, ['serve', ...store, ...listen, ...more], { stdio: 'ignore', env: { ...process.env, ...env } });
  for (let left = DEADLINE; 0 < left; left -= 50) {
    const open = await new Promise((done) => {
      const socket = net.connect(port, '127.0.0.1', () => { socket.destroy(); done(true); });
      socket.on('error', () => done(false));
    });
    if (open) return child;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error('the server does not start');
}

export async function freePort() {
  const server = net.createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

export const live = (page, text) =>
  page.waitForFunction((t) => document.getElementById('live-text').textContent.startsWith(t), text);
