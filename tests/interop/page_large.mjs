// Figures of the status page with many applications: the bytes and the first paint of a visit, and what an update and a
// key in the search cost the browser. Arguments: the program (a release), and the number of applications.
import { DEADLINE, fill, freePort, launch, live, report, start } from './browser.mjs';

const [binary, count = '5000'] = process.argv.slice(2);
const UPDATES = 20;

function median(all) { return [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)]; }

const browser = await launch();
const port = await freePort();
const server = `127.0.0.1:${port}`;
const child = await start(binary, port);
try {
  await fill(server, Number(count));
  const paints = [];
  let bytes = 0;
  for (let n = 0; n < 5; n += 1) {
    const page = await (await browser.newContext()).newPage();
    const traffic = await page.context().newCDPSession(page);
    await traffic.send('Network.enable');
    bytes = 0;
    traffic.on('Network.loadingFinished', ({ encodedDataLength }) => { bytes += encodedDataLength; });
    await page.goto(`http://${server}/`);
    const paint = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
    const entry = await page.waitForFunction(paint);
    paints.push(await entry.jsonValue());
    await page.waitForLoadState('load');
    await page.context().close();
  }
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(DEADLINE);
  await page.goto(`http://${server}/`);
  await live(page, 'live');
  await page.waitForFunction(() => document.getElementById('proof').textContent.startsWith('✓'));
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const work = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return 1000 * metrics.find(({ name }) => name === 'TaskDuration').value;
  };
  await page.evaluate(() => {
    globalThis.longest = 0;
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) globalThis.longest = Math.max(globalThis.longest, entry.duration);
    });
    observer.observe({ entryTypes: ['longtask'] });
  });
  const [works, delays] = [[], []];
  for (let n = 0; n < UPDATES; n += 1) {
    // Even ones appear at the top, odd ones leave it again.
    const level = n % 2 ? 'ACTIVE' : 'ERROR';
    const before = await work();
    const at = Date.now();
    await report(server, 'app-4242', level, `update ${n}`);
    // Without a look at each frame, which would be work too.
    await page.evaluate((text) => new Promise((done) => {
      const headline = document.getElementById('headline');
      const look = () => headline.textContent.includes(text);
      const observer = new MutationObserver(() => { if (look()) { observer.disconnect(); done(); } });
      observer.observe(headline, { childList: true, subtree: true, characterData: true });
      if (look()) done();
    }), level === 'ERROR' ? '1 in error' : `All ${count} fine`);
    delays.push(Date.now() - at);
    // The layout and the paint belong to it.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    works.push(await work() - before);
  }
  const keys = [];
  for (const key of 'app-42') {
    // The rows are filtered within the event of the key.
    keys.push(await page.evaluate((typed) => {
      const field = document.getElementById('q');
      const at = performance.now();
      field.value += typed;
      field.dispatchEvent(new Event('input', { bubbles: true }));
      document.getElementById('apps')?.getBoundingClientRect();
      return performance.now() - at;
    }, key));
  }
  const elements = await page.evaluate(() => document.getElementsByTagName('*').length);
  const longest = await page.evaluate(() => globalThis.longest);
  console.log(`${count} applications, 500 rows shown, ${UPDATES} updates, ${browser.version()}`);
  const say = (what, all) =>
    console.log(`${what}  median ${Math.round(median(all))} ms, most ${Math.round(Math.max(...all))} ms`);
  say('first contentful paint', paints);
  say('main thread per update', works);
  say('from a report to a row', delays);
  say('key to filtered rows  ', keys);
  console.log(`first visit             ${Math.round(bytes / 1024)} KiB, headers of HTTP among them`);
  console.log(`elements                ${elements}`);
  console.log(`longest task            ${Math.round(longest)} ms (0: none above 50 ms)`);
} finally {
  child.kill('SIGKILL');
  await browser.close();
}
