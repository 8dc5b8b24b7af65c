// outline: a plugin for Node without any code of Ferment.
//
// Two capabilities: the headings of a Markdown text, and a reading of them that
// arrives line by line while it is made.
//
//	ferment conform --samples samples.edn -- /usr/bin/node plugin.mjs
//	ferment act text/outline '{:markdown "# Bees\n## Dance"}'

import { setTimeout as sleep } from "node:timers/promises";

import { Refusal, need, serve } from "./ferment/index.mjs";

function headings(markdown) {
  let fenced = false;
  return markdown.split(/\r?\n/).flatMap((line, i) => {
    if (/^\s*(```|~~~)/.test(line)) fenced = !fenced;
    const found = !fenced && line.match(/^(#{1,6})\s+(.*?)\s*#*$/);
    return found ? [{ level: found[1].length, title: found[2], line: i + 1 }] : [];
  });
}

async function outline(input) {
  return { headings: headings(need(input, "markdown", "string")) };
}

async function* read(input, call) {
  const all = headings(need(input, "markdown", "string"));
  if (!all.length) throw new Refusal("text/nothing-to-summarize", "the text has no headings");
  call.log("debug", "reading", { headings: all.length });
  for (const [i, { level, title }] of all.entries()) {
    await sleep(call.config["pace-ms"], undefined, { signal: call.signal });
    yield (i ? "\n" : "") + "  ".repeat(level - 1) + title;
  }
}

await serve({
  name: "outline",
  version: "0.1.0",
  settings: { "pace-ms": { type: "integer", default: 1, doc: "milliseconds between two lines of a reading" } },
  capabilities: [
    {
      id: "demo/outline",
      intents: ["text/outline"],
      takes: "[:map [:markdown :string]]",
      gives: "[:map [:headings [:sequential [:map [:level :int] [:title :string] [:line :int]]]]]",
      deterministic: true,
      run: outline,
    },
    {
      id: "demo/reading",
      intents: ["text/read-outline"],
      takes: "[:map [:markdown :string]]",
      gives: "[:map [:text :string]]",
      run: read,
    },
  ],
});
