// Serves one model on a free port of this machine and prints "listening PORT".
// It ends when its standard input does.
//
//   node serve.mjs MODEL.gguf NAME CACHE
import { createExpressServer, InferenceServer } from 'inference-server';
import { TemplateChatWrapper } from 'node-llama-cpp';

const [, , location, name, cachePath] = process.argv;

// The last thing that the model reads is the last word of the last message.
const chatWrapper = new TemplateChatWrapper({
  template: '{{systemPrompt}} {{history}}{{completion}}\n',
  historyTemplate: { system: '{{message}}', user: '{{message}}', model: '{{message}}' },
  functionCallMessageTemplate: {
    call: '[[call: {{functionName}}({{functionParams}})]]',
    result: ' [[result: {{functionCallResult}}]]',
  },
});

// One thread each: those of llama.cpp wait for each other in loops, and on a
// busy machine for long.
const model = {
  task: 'text-completion', engine: 'node-llama-cpp', location, chatWrapper,
  prepare: 'blocking', minInstances: 2, maxInstances: 2, contextSize: 4096,
  device: { gpu: false, cpuThreads: 1 },
};

const server = new InferenceServer({ log: 'warn', concurrency: 2, cachePath, models: { [name]: model } });
await server.start();
const http = createExpressServer(server);
http.listen(0, '127.0.0.1', () => console.log(`listening ${http.address().port}`));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
