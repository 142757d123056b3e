// The panel beside the list.
import { call, live, must, report } from '../browser.mjs';
import { say } from '../page_world.mjs';
import { focused, open, row, withServer } from './context.mjs';

const need = (application) => ({ needs: [{ application: { namespace: 'prod', application } }] });

export default {
  'Escape returns the focus to the row, or to the one in its place': () => withServer(async (server) => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) await report(server, name, 'ACTIVE');
    const page = await open(server);
    await live(page, 'live');
    await row(page, 'default/d').locator('.name a').click();
    await page.locator('#why').waitFor();
    must(await row(page, 'default/d').getAttribute('aria-current') === 'true', 'the row is marked');
    await page.keyboard.press('Escape');
    await page.locator('#why').waitFor({ state: 'detached' });
    await page.waitForFunction(() => document.activeElement.id === 'app-default/d');
    await page.keyboard.press('Enter');
    await page.locator('#why').waitFor();
    await call(server, 'ApplicationService/DeleteApplication', { application: 'd' });
    await row(page, 'default/d').waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await page.locator('#why').waitFor({ state: 'detached' });
    await page.waitForFunction(() => document.activeElement.id.startsWith('app-default/'));
  }),

  'the panel says what to do, because of what, and how it is with the units': () => withServer(async (server) => {
    await say(server, 'prod/db/0', 'BLOCKED', 'no backup', { action: 'juju integrate db s3' });
    for (let n = 0; n < 150; n += 1) await say(server, `prod/shop/${n}`, 'ACTIVE');
    await say(server, 'prod/shop/149', 'WAITING', 'no database', need('db'));
    const page = await open(server, '/?why=prod/shop');
    await live(page, 'live');
    const headings = await page.locator('#why h3').allInnerTexts();
    const order = ['Because it needs', 'Why this one', 'Last 24 hours', 'Units', 'Last events', 'Acknowledge'];
    const found = order.map((one) => headings.findIndex((heading) => heading.startsWith(one)));
    must(found.every((at, n) => at >= 0 && (n === 0 || found[n - 1] < at)), headings.join());
    must((await page.locator('#needs .tree').innerText()).includes('juju integrate db s3'), 'the cause has its action');
    must((await page.locator('#unwell li').first().innerText()).includes('shop/149'), 'the worst unit is first');
    const height = await page.evaluate(() => document.getElementById('why').scrollHeight);
    must(height <= 1500, `the panel of 150 units is ${height} px high`);
    await page.locator('#folded summary').click();
    must(await page.locator('#folded li').count() === 149, 'the other units are folded');
    await page.evaluate(() => { document.getElementById('why').scrollTop = 200; });
    await say(server, 'prod/shop/148', 'WAITING', 'another one', need('db'));
    await page.locator('#unwell').getByText('shop/148').waitFor();
    must(await page.locator('#folded').getAttribute('open') !== null, 'the fold stays open');
    must(await page.evaluate(() => document.getElementById('why').scrollTop) === 200, 'the panel stays in its place');
    await page.locator('#needs a').first().click();
    await page.waitForFunction(() => location.search === '?why=prod/db');
    await page.locator('#why-title').getByText('db').waitFor();
    must(page.problems.length === 0, page.problems.join('; '));
  }),

  'the panel takes the place of the list on a narrow window': () => withServer(async (server) => {
    for (let n = 0; n < 40; n += 1) await report(server, `app-${n}`, 'BLOCKED', 'text');
    const page = await open(server, '/', { viewport: { width: 360, height: 740 } });
    await live(page, 'live');
    await row(page, 'default/app-20').locator('.name a').click();
    await page.locator('#why').waitFor();
    must(!await row(page, 'default/app-20').isVisible(), 'the list is not shown');
    await page.waitForFunction(() => scrollY === 0);
    await page.locator('#back').click();
    await page.waitForFunction(() => document.activeElement.id === 'app-default/app-20');
    must(await page.evaluate(() => scrollY) > 200, 'the list is where it was');
    must(await focused(page) === 'app-default/app-20', 'the focus is on the row');
  }),

  'an application that does not exist is named in the panel': () => withServer(async (server) => {
    await report(server, 'web', 'ACTIVE');
    const page = await open(server, '/?why=default/wbe');
    must((await page.locator('#why .failed').innerText()).length > 10, 'the panel says why');
    await page.locator('#back').click();
    await row(page, 'default/web').waitFor();
  }),
};
