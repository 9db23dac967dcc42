// Fills a queue of BullMQ, takes a job out of it, and says what BullMQ itself counts: one line of JSON. Holds the job
// until its standard input ends. NODE_MODULES_AT: where bullmq is installed. Call: queue_counts.mjs REDIS_PORT DATABASE
import { createRequire } from 'node:module';
const require = createRequire(process.env.NODE_MODULES_AT + '/x.js');
const { Queue, Worker, FlowProducer } = require('bullmq');
const connection = { host: '127.0.0.1', port: +process.argv[2], db: +process.argv[3], maxRetriesPerRequest: null };
const queue = new Queue('mail', { connection });
const worker = new Worker('mail', null, { connection, name: 'w1', autorun: false, lockDuration: 600000 });
await worker.waitUntilReady();
for (let i = 0; i < 4; i++) await queue.add('ok', { i });
await queue.add('ok', {}, { priority: 2 });
for (let i = 0; i < 2; i++) await queue.add('ok', {}, { delay: 3600000 });
await new FlowProducer({ connection }).add({ name: 'all', queueName: 'mail', children: [{ name: 'part', queueName: 'pages' }] });
const job = await worker.getNextJob('token');
const idle = new Queue('idle', { connection });
const waits = new Worker('idle', async () => {}, { connection, name: 'w2' });
await waits.waitUntilReady();
while (!(await idle.getWorkers()).length) await new Promise((r) => setTimeout(r, 50));
const c = await queue.getJobCounts('waiting', 'active', 'delayed', 'prioritized', 'paused', 'waiting-children');
const states = { ready: c.waiting + c.prioritized + c.paused, unacked: c.active, delayed: c.delayed + c['waiting-children'] };
const consumers = async (q) => (await q.getWorkers()).length;
console.log(JSON.stringify({
  mail: { ...states, consumers: await consumers(queue) }, pages: { ready: 1 }, idle: { ready: 0, consumers: await consumers(idle) },
  job: job.id ? undefined : 'none',
}));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
