// Workers and producers of BullMQ, for tests: `worker NAME` runs until it is ended, `produce STEPS` adds jobs.
// Both write to the file TRUTH what they do, line by line: the processors themselves say when they start and end.
// NODE_MODULES_AT: where bullmq is installed. QUEUES, REDIS_PORT, PREFIX: what to work on. OTEL=1: with trace context.
import { createRequire } from 'node:module';
import { appendFileSync } from 'node:fs';
const require = createRequire(process.env.NODE_MODULES_AT + '/x.js');
const { Queue, Worker, FlowProducer, UnrecoverableError, DelayedError } = require('bullmq');
const connection = { host: '127.0.0.1', port: +process.env.REDIS_PORT, maxRetriesPerRequest: null };
const prefix = process.env.PREFIX || 'bull';
const queues = process.env.QUEUES.split(',');
const truth = (ev, f) => appendFileSync(process.env.TRUTH, JSON.stringify({ t: Date.now() / 1000, ev, ...f }) + '\n');
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
let telemetry;
if (process.env.OTEL === '1') {
  const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
  new NodeTracerProvider().register();
  const { BullMQOtel } = require('bullmq-otel');
  telemetry = new BullMQOtel({ tracerName: 'tests' });
}
const key = (job) => job.queueName + ':' + job.id;

async function run(job, token, name) {
  const d = job.data, f = { id: key(job), name: job.name, queue: job.queueName, attempt: job.attemptsMade + 1, worker: name };
  truth('start', f);
  const raise = (error, retry) => truth(error === 'DelayedError' ? 'moved' : 'raise', { ...f, error, retry });
  const left = job.attemptsMade + 1 < (job.opts.attempts || 1);
  switch (d.kind) {
    case 'flaky': if (job.attemptsMade < d.fails) { raise('RangeError', left); throw new RangeError(`try ${job.attemptsMade}: "db-1"\nwent away`); } break;
    case 'explode': raise('TypeError', left); return d.nothing.here;
    case 'fatal': raise('UnrecoverableError', false); throw new UnrecoverableError('card stolen');
    case 'nap': await sleep(d.ms); break;
    case 'hang': if (job.stalledCounter > (d.until ?? 0)) break; await sleep(60000); break;
    case 'later': if (!d.moved) { await job.updateData({ ...d, moved: 1 }); raise('DelayedError', true); await job.moveToDelayed(Date.now() + 300, token); throw new DelayedError(); } break;
    case 'parent': await job.getChildrenValues(); break;
  }
  truth('end', f);
  return { secret: 'result-4711' };
}

if (process.argv[2] === 'worker') {
  const name = process.argv[3];
  const ws = queues.map((q) => new Worker(q, (job, token) => run(job, token, name),
    { connection, prefix, concurrency: 5, name, lockDuration: 1000, stalledInterval: 500, maxStalledCount: 1, telemetry }));
  for (const w of ws) w.on('error', () => {});
  await Promise.all(ws.map((w) => w.waitUntilReady()));
  truth('ready', { worker: name });
  process.on('SIGTERM', async () => { await Promise.all(ws.map((w) => w.close())); process.exit(0); });
} else {
  const qs = {};
  const q = (n) => (qs[n] ??= new Queue(n, { connection, prefix, telemetry }));
  const flows = new FlowProducer({ connection, prefix, telemetry });
  const note = (job, more = {}) => truth('publish', { id: key(job), name: job.name, queue: job.queueName, ...more });
  for (const st of JSON.parse(process.argv[3])) {
    const queue = q(st.queue || queues[0]);
    if (st.bulk) {
      for (let i = 0; i < st.times; i += 500) await queue.addBulk(Array.from({ length: Math.min(500, st.times - i) }, () => ({ name: st.bulk, data: {}, opts: st.opts || {} })));
    } else if (st.add) {
      for (let i = 0; i < (st.times || 1); i++) {
        const job = await queue.add(st.add, { secret: 'argument-4711', ...st.data }, st.opts || {});
        note(job, { trace: job.opts?.telemetry?.metadata });
      }
    } else if (st.flow) {
      const walk = (n, parent) => { note(n.job, { parent }); for (const c of n.children || []) walk(c, key(n.job)); };
      walk(await flows.add(st.flow));
    } else if (st.sleep) await sleep(st.sleep);
    else if (st.remove) { await (await queue.getJob(st.remove)).remove(); truth('removed', { id: `${st.queue || queues[0]}:${st.remove}` }); }
    else if (st.retryFailed) { for (const j of await queue.getFailed()) if (j.name === st.retryFailed) await j.retry(); }
  }
  await Promise.all([...Object.values(qs).map((x) => x.close()), flows.close()]);
  process.exit(0);
}
