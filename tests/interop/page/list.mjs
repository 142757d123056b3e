// The list: headline, rows, actions, and how to begin.
import { call, live, must, report } from '../browser.mjs';
import { focused, names, open, REFRESH, row, withServer } from './context.mjs';

const text = (page, selector) => page.locator(selector).innerText();
const title = (page, wanted) => page.waitForFunction((t) => document.title.startsWith(t), wanted);
const icon = (page) => page.locator('#icon').getAttribute('href');

export default {
  'the headline, the title and the icon follow the worst class': () => withServer(async (server) => {
    await report(server, 'web', 'ACTIVE');
    const page = await open(server);
    await live(page, 'live');
    must(await text(page, '#headline') === 'All 1 fine', await text(page, '#headline'));
    await title(page, '1 fine · 127.0.0.1');
    must(await icon(page) === '/page.svg?is=fine', await icon(page));
    for (const [level, shown, tab, worst] of [
      ['WAITING', '1 under way', '1 under way', 'fine'],
      ['BLOCKED', '1 needs a person', '1 blocked', 'blocked'],
      ['ERROR', '1 in error', '1 error', 'error'],
      ['UNKNOWN', '1 silent', '1 silent', 'silent'],
    ]) {
      await report(server, 'web', level, level);
      await page.waitForFunction((t) => document.getElementById('headline').innerText.trim() === t, shown);
      await title(page, `${tab} · `);
      must(await icon(page) === `/page.svg?is=${worst}`, await icon(page));
    }
    must(page.problems.length + page.elsewhere.length === 0, [...page.problems, ...page.elsewhere].join('; '));
  }),

  'the list is live, and a change shows within the time of the watch': () => withServer(async (server) => {
    await report(server, 'well', 'ACTIVE');
    const page = await open(server);
    await live(page, 'live');
    const at = Date.now();
    await report(server, 'well', 'BLOCKED', 'add a <database>');
    await row(page, 'default/well').locator('.s.blocked').waitFor();
    const took = Date.now() - at;
    must(took < REFRESH, `the change took ${took} ms`);
    const message = await row(page, 'default/well').locator('.message').innerText();
    must(message.includes('well/0: add a <database>') && message.includes('fix well'), message);
    must(await row(page, 'default/well').locator('.heard').innerText() === '1/1', 'one of one unit reported');
    must(page.problems.length === 0, page.problems.join('; '));
    console.log(`a change showed after ${took} ms`);
  }),

  'a click on the message opens the row, and a selected text does not': () => withServer(async (server) => {
    await report(server, 'web', 'BLOCKED', 'a message that a reader may want to mark');
    const page = await open(server);
    await live(page, 'live');
    await row(page, 'default/web').locator('.message .text').click();
    await page.locator('#why').waitFor();
    must(page.url().endsWith('/?why=default/web'), page.url());
    must(await focused(page) === 'why', 'the focus is on the panel');
    await page.keyboard.press('Escape');
    await page.locator('#why').waitFor({ state: 'detached' });
    const box = await row(page, 'default/web').locator('.message .text').boundingBox();
    await page.mouse.move(box.x + 5, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + 120, box.y + box.height / 2, { steps: 5 });
    await page.mouse.up();
    must(String(await page.evaluate(() => String(getSelection()))).length > 3, 'text is selected');
    must(await page.locator('#why').count() === 0, 'a selection opens nothing');
  }),

  'a click with Control opens a new tab': () => withServer(async (server) => {
    await report(server, 'web', 'BLOCKED', 'text');
    const page = await open(server);
    await live(page, 'live');
    const opened = page.context().waitForEvent('page');
    await row(page, 'default/web').locator('.message').click({ modifiers: ['Control'] });
    const other = await opened;
    await other.locator('#why').waitFor();
    must(await page.locator('#why').count() === 0, 'the page itself stays');
  }),

  'an action is copied from its row': () => withServer(async (server) => {
    await report(server, 'web', 'BLOCKED', 'text');
    const page = await open(server, '/', { permissions: ['clipboard-read', 'clipboard-write'] });
    await live(page, 'live');
    const button = row(page, 'default/web').locator('.do button');
    const width = (await button.boundingBox()).width;
    await button.click();
    await page.waitForFunction(() => document.querySelector('.do button').textContent === 'Copied');
    must((await button.boundingBox()).width === width, 'the button keeps its width');
    must(await page.evaluate(() => navigator.clipboard.readText()) === 'fix web', 'the action is in the clipboard');
    must(await page.locator('#why').count() === 0, 'the row is not opened');
    await page.waitForFunction(() => document.querySelector('.do button').textContent === 'Copy');
    await page.evaluate(() => navigator.clipboard.writeText(''));
    await page.keyboard.press('j');
    await page.keyboard.press('c');
    await page.waitForFunction(async () => await navigator.clipboard.readText() === 'fix web');
  }),

  'work in a row shows how far it is, and an open error its next attempt': () => withServer(async (server) => {
    const at = { application: 'web', operationId: 'up' };
    await report(server, 'web', 'ACTIVE');
    await call(server, 'OperationService/BeginOperation', { ...at, targetVersion: '1.4', payload: 'AAAA' });
    const acquired = await call(server, 'OperationService/AcquireOperation', { ...at, unit: 'web/0' });
    const { fence } = acquired.operation;
    const beat = (progress) => call(server, 'OperationService/HeartbeatOperation', { ...at, fence, progress });
    await beat('step 3/7');
    const page = await open(server);
    await live(page, 'live');
    const bar = row(page, 'default/web').locator('progress');
    must(await bar.getAttribute('aria-label') === 'step 3/7', 'the bar has its words');
    must((await row(page, 'default/web').locator('.text').innerText()).includes('step 3/7'), 'the words stay');
    await beat('step 6/7');
    await page.waitForFunction(() => document.querySelector('tr[data-key] progress').value === 6);
    await beat('copying');
    await bar.waitFor({ state: 'detached' });
    const cause = { system: 'grpc', code: 'UNAVAILABLE', origin: 'ERROR_ORIGIN_PEER' };
    const error = { component: 'db', target: 'https://db:5432/', retryAfter: '3000s', ...cause };
    await call(server, 'ReportService/ReportError', { application: 'web', unit: 'web/0', error });
    const next = row(page, 'default/web').locator('.mark time.next');
    await next.waitFor();
    const mark = await row(page, 'default/web').locator('.mark').innerText();
    must(/^1 open error, next attempt in (49|50)m$/.test(mark), mark);
    must(page.problems.length === 0, page.problems.join('; '));
  }),

  'an empty server says how to begin, and shows the first report': () => withServer(async (server) => {
    const page = await open(server);
    await live(page, 'live');
    must(await text(page, '#headline') === 'Nothing has reported yet', await text(page, '#headline'));
    must((await text(page, '.empty ol')).includes(`bellwether --server http://${server} why web`), 'the server is named');
    must(await page.locator('.empty details').getAttribute('open') === null, 'curl is folded');
    await report(server, 'web', 'ACTIVE');
    await row(page, 'default/web').waitFor();
    must((await names(page)).join() === 'default/web', 'the row is there');
  }),
};
