// A client of connect-es without generated code: a call, an error with its detail, and a stream, with JSON and with
// binary proto, over HTTP/1.1 and HTTP/2. Argument: the address of the server.
import { createRequire } from 'node:module';
import path from 'node:path';

const address = process.argv[2];
const require = createRequire(path.resolve('.tools/connect-es/package.json'));
let connect, node, protobuf, types;
try {
  connect = require('@connectrpc/connect');
  node = require('@connectrpc/connect-node');
  protobuf = require('@bufbuild/protobuf');
  types = require('@bufbuild/protobuf/wkt');
} catch {
  process.exit(77);
}
const baseUrl = `http://${address}`;

function must(holds, what) {
  if (!holds) throw new Error(what);
}

const bytes = new Uint8Array(await (await fetch(`${baseUrl}/descriptor.binpb`)).arrayBuffer());
const registry = protobuf.createFileRegistry(protobuf.fromBinary(types.FileDescriptorSetSchema, bytes));
const service = (name) => registry.getService(`bellwether.v1.${name}`);

async function all(transport) {
  const reports = connect.createClient(service('ReportService'), transport);
  const applications = connect.createClient(service('ApplicationService'), transport);
  // The level BLOCKED of the enum, by its name.
  const blocked = registry.getEnum('bellwether.v1.Level').values.find(({ name }) => name === 'LEVEL_BLOCKED').number;
  const status = { level: blocked, message: 'by connect-es' };
  const answer = await reports.reportStatus({ application: 'es', unit: 'es/0', status });
  must(0n < answer.revision, 'the answer has a revision');
  const refused = await applications.getApplication({ application: 'nothing' }).then(() => null, (error) => error);
  must(refused instanceof connect.ConnectError && refused.code === connect.Code.NotFound, String(refused));
  // Of Connect with a readable form, of gRPC-Web as binary proto: the reason is text in both.
  const info = refused.details.find(({ type }) => type === 'google.rpc.ErrorInfo');
  must(Buffer.from(info.value).includes('APPLICATION_NOT_FOUND'), JSON.stringify(refused.details));
  const events = applications.watchApplications({ applications: ['es'] });
  const seen = [];
  for await (const { event } of events) {
    seen.push(event.case);
    if (event.case === 'snapshotComplete') break;
  }
  must(seen.join() === 'upserted,snapshotComplete', seen.join());
}

for (const httpVersion of ['1.1', '2']) {
  for (const [name, transport] of [
    ['Connect, JSON', node.createConnectTransport({ baseUrl, httpVersion, useBinaryFormat: false })],
    ['Connect, proto', node.createConnectTransport({ baseUrl, httpVersion, useBinaryFormat: true })],
    ['gRPC-Web', node.createGrpcWebTransport({ baseUrl, httpVersion })],
  ]) {
    await all(transport);
    console.log(`HTTP/${httpVersion}, ${name}: a call, an error, a stream`);
  }
}
process.exit(0);
