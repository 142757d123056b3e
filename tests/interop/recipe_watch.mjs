// Runs examples/recipes/watch.ts in a browser, on a page of the server. Argument: the server as HOST:PORT. It prints what
// the recipe logs until an application is blocked.

import { readFileSync } from 'node:fs';

import { DEADLINE, launch } from './browser.mjs';

const [address] = process.argv.slice(2);
const recipe = readFileSync(new URL('../../examples/recipes/watch.ts', import.meta.url), 'utf8');
// The types that it has: tools/clients-check compiles it with all of them.
const script = recipe
  .replace(/^interface .*$/gm, '')
  .replace(/ as [A-Z]\w*/g, '')
  .replace('127.0.0.1:50051', address);

const browser = await launch();
const page = await browser.newPage();
const blocked = page.waitForEvent('console', {
  predicate: (message) => message.text().includes('is blocked'),
  timeout: DEADLINE,
});
page.on('console', (message) => console.log(message.text()));
await page.goto(`http://${address}/concepts`);
await page.evaluate(script);
await blocked;
await browser.close();
