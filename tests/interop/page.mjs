// The status page in Debian's chromium: each behaviour is a named check. Arguments: the program, a folder for
// screenshots, and a part of the name of the only check to run.
import { browser, only } from './page/context.mjs';
import filters from './page/filters.mjs';
import list from './page/list.mjs';
import live from './page/live.mjs';
import look from './page/look.mjs';
import panel from './page/panel.mjs';
import session from './page/session.mjs';
import trust from './page/trust.mjs';

const checks = { ...list, ...filters, ...panel, ...live, ...trust, ...session, ...look };

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  if (only && !name.includes(only)) continue;
  const begun = Date.now();
  try {
    await check();
    console.log(`ok: ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failed += 1;
    console.error(`FAILED: ${name}: ${error.stack ?? error}`);
  }
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
