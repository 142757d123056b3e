// What the checks of the status page share: one browser, servers of their own, and a proxy in front of a server.
import { readFileSync } from 'node:fs';
import http from 'node:http';

import { DEADLINE, freePort, launch, require, start } from '../browser.mjs';

export const [binary, shots, only] = process.argv.slice(2);
export const browser = await launch();
export const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// What shows earlier was brought by the watch, and not by the page's own refresh every 15 s. How early it shows is
// measured by page_large.mjs.
export const REFRESH = 10000;

// Runs a check with a server of its own.
export async function withServer(check, more = []) {
  const port = await freePort();
  const child = await start(binary, port, more);
  try {
    await check(`127.0.0.1:${port}`, child, port);
  } finally {
    child.kill('SIGKILL');
  }
}

// Opens the page. `problems` has what the browser complains about, as a report of the policy or of a script.
export async function open(server, url = '/', options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE);
  page.problems = [];
  page.elsewhere = [];
  page.on('pageerror', (error) => page.problems.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error') page.problems.push(message.text()); });
  page.on('request', (request) => { if (new URL(request.url()).host !== server) page.elsewhere.push(request.url()); });
  await page.goto(`http://${server}${url}`);
  return page;
}

export const row = (page, name) => page.locator(`tr[data-key="${name}"]`);
export const focused = (page) => page.evaluate(() => document.activeElement.id);
export const names = (page) => page.evaluate(() =>
  [...document.querySelectorAll('tr[data-key]')].filter((one) => !one.hidden).map((one) => one.dataset.key));

// A proxy in front of the server. `alter` gets each event of a watch, and returns what the browser gets instead.
export async function proxy(server, alter) {
  const [host, port] = server.split(':');
  const front = http.createServer((request, response) => {
    const { method, url, headers } = request;
    const back = http.request({ host, port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      if (!(answer.headers['content-type'] ?? '').startsWith('text/event-stream')) return answer.pipe(response);
      let held = '';
      answer.setEncoding('utf8');
      answer.on('data', (text) => {
        const events = (held + text).split('\n\n');
        held = events.pop();
        for (const event of events) {
          const altered = alter(event);
          if (altered) response.write(`${altered}\n\n`);
        }
      });
      answer.on('close', () => response.destroy());
    });
    back.on('error', () => response.destroy());
    response.on('close', () => back.destroy());
    request.pipe(back);
  });
  await new Promise((done) => front.listen(0, '127.0.0.1', done));
  return front;
}
