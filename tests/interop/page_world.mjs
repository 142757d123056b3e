// A world for the status page: applications of three namespaces with every level, silence, needs down to first causes, a
// deadlock, marks, an operation with progress and open errors.
import { call } from './browser.mjs';

const namespaced = (full) => full.split('/');

function status(level, message = '', more = {}) {
  return { level: `LEVEL_${level}`, message, ...more };
}

// Reports the status of a unit: `prod/web/0`.
export function say(server, full, ...words) {
  const [namespace, application, n] = namespaced(full);
  const unit = `${application}/${n}`;
  return call(server, 'ReportService/ReportStatus', { namespace, application, unit, status: status(...words) });
}

const needs = (...names) => ({
  needs: names.map((name) => {
    if (!name.includes('/')) return { outside: name };
    const [namespace, application] = namespaced(name);
    return { application: { namespace, application } };
  }),
});

const action = (text) => ({ action: text });

export async function world(server) {
  const fine = ['infra/ingress', 'infra/metrics', 'infra/vault', 'prod/auth', 'prod/billing', 'prod/mail', 'prod/payments',
    'prod/sessions', 'staging/cart', 'staging/payments'];
  for (const name of fine) for (const n of [0, 1, 2]) await say(server, `${name}/${n}`, 'ACTIVE');
  await say(server, 'staging/move-orders/0', 'TERMINATED', 'done, 41,220 rows moved');
  for (let n = 0; n < 3; n += 1) await say(server, `prod/worker/${n}`, 'ACTIVE');
  await say(server, 'prod/worker/2', 'ERROR', 'crash loop: exit 137, out of memory, for the 4th time',
    action('juju config worker memory=4G'));
  for (const target of ['db:5432', 'queue:5672', 'cache:6379']) {
    const error = { component: 'jobs', target, system: 'io', code: 'ECONNREFUSED', origin: 'ERROR_ORIGIN_TRANSPORT',
      message: `no connection to ${target}` };
    await call(server, 'ReportService/ReportError', { namespace: 'prod', application: 'worker', unit: 'worker/1', error });
  }
  for (let n = 0; n < 40; n += 1) await say(server, `prod/checkout/${n}`, 'ACTIVE', `serving ${n} requests a second`);
  await say(server, 'prod/postgresql/0', 'BLOCKED', 'no backup target', action('juju integrate postgresql s3-integrator'));
  await say(server, 'prod/orders/0', 'WAITING', 'no database yet', needs('prod/postgresql'));
  await say(server, 'prod/reports/0', 'WAITING', 'no database yet', needs('prod/postgresql'));
  await say(server, 'prod/basket/0', 'WAITING', 'no database yet', needs('prod/postgresql'));
  await say(server, 'prod/checkout/4', 'BLOCKED', 'no room for 2 more units, the quota of processors is used up (48 of 48)',
    { ...action('openstack quota set --cores 64 prod'), ...needs('prod/postgresql', 'quota cpu of prod', 'prod/basket') });
  await say(server, 'prod/thumbnails/0', 'WAITING', 'no room for more units', needs('quota cpu of prod'));
  await say(server, 'prod/opensearch-main/0', 'WAITING', 'every unit in opensearch-data has to start first',
    needs('prod/opensearch-data'));
  await say(server, 'prod/opensearch-data/0', 'WAITING', 'waiting for a cluster manager', needs('prod/opensearch-main'));
  await say(server, 'staging/web/0', 'WAITING', 'no login', needs('staging/legacy-auth'));
  await say(server, 'staging/gateway/0', 'BLOCKED', 'the licence ended yesterday',
    action('juju attach-resource gateway licence=./licence.txt'));
  await say(server, 'prod/mysql/1', 'BLOCKED', 'no quorum, 1 of 3 members');
  await say(server, 'prod/search/0', 'MAINTENANCE', 'upgrading to 2.14 (3 of 7 nodes)');
  await say(server, 'staging/etl/0', 'MAINTENANCE', 'building the index again');
  const mark = (application, kind, author, reason, more = {}) => call(server, 'ApplicationService/SetMark',
    { ...more, mark: { kind: `MARK_KIND_${kind}`, author, reason }, during: '14400s', application });
  await mark('gateway', 'ACKNOWLEDGED', 'bob', 'ticket 4711', { namespace: 'staging' });
  await mark('mysql', 'PLANNED', 'alice', 'new disks', { namespace: 'prod' });
  const silent = { ttl: '1s' };
  await say(server, 'prod/nightly/0', 'ACTIVE', 'import of yesterday is done', silent);
  await say(server, 'infra/registry/0', 'ACTIVE', '1,204 images', silent);
  const unit = { namespace: 'prod', application: 'checkout', unit: 'checkout/3' };
  await call(server, 'LeaderService/ClaimLeadership', { ...unit, leaseDuration: '300s' });
}
