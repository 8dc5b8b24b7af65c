// Reads answers of model servers with the vendors' clients. Each line of standard
// input is JSON, {"dialect", "url", "limit"}; for each, one line of JSON is written to
// standard output, {"seen"} or {"error"}, in the same order. A client makes one
// request without retries, except in the dialects that end in /plain. Fields that
// the client does not have are left out; finish reasons are the vendor's words.
import { createInterface } from 'node:readline'
import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import OpenAI from 'openai'

console.log = console.error // standard output holds results only
console.warn = () => {} // the client of Ollama prints each line that it cannot parse

const model = 'sample'
const messages = [{ role: 'user', content: 'Explain ACID.' }]
const options = { apiKey: 'none', maxRetries: 0, logLevel: 'off' }

const responsesRequest = { model, input: messages, store: false, include: ['reasoning.encrypted_content'] }

const commentary = (item) => item.phase === 'commentary'
const said = (item) => item.content.filter((part) => part.type === 'output_text').map((part) => part.text).join('')

function responseSeen({ status, error, output, incomplete_details, usage }) {
  if (!['completed', 'incomplete'].includes(status)) {
    throw new Error(error?.message || `the stream ended while the response was ${status}`)
  }
  const items = (type) => output.filter((item) => item.type === type)
  const calls = items('function_call').map(({ call_id, name, arguments: args }) => ({ id: call_id, name, args }))
  return {
    // output_text of the client includes commentary, which is no part of the answer.
    text: items('message').filter((item) => !commentary(item)).map(said).join(''),
    reasoning: output.flatMap((item) => (commentary(item) ? said(item) : (item.summary ?? []).map((part) => part.text)))
      .join('\n\n'),
    sealed: items('reasoning').map((item) => JSON.stringify(item)),
    // This vendor has a word for an answer that was cut only.
    finish: incomplete_details?.reason ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    calls,
    in: usage?.input_tokens,
    out: usage?.output_tokens,
    cached: usage?.input_tokens_details?.cached_tokens,
    written: usage?.input_tokens_details?.cache_write_tokens,
    thought: usage?.output_tokens_details?.reasoning_tokens,
  }
}

const readers = {
  'openai-chat': async (url, limit) => {
    const client = new OpenAI({ ...options, baseURL: url })
    const request = { model, messages, max_tokens: limit, stream_options: { include_usage: true } }
    const stream = client.chat.completions.stream(request)
    let reasoning = ''
    stream.on('chunk', (chunk) => {
      // This vendor has no such field; its client keeps the fields of other servers.
      const delta = chunk.choices[0]?.delta
      reasoning += delta?.reasoning_content ?? delta?.reasoning ?? ''
    })
    const whole = await stream.finalChatCompletion()
    const { message, finish_reason } = whole.choices[0]
    return {
      text: message.content,
      reasoning,
      finish: finish_reason,
      calls: message.tool_calls?.map(({ id, function: f }) => ({ id, name: f.name, args: f.arguments })),
      in: whole.usage?.prompt_tokens,
      out: whole.usage?.completion_tokens,
      cached: whole.usage?.prompt_tokens_details?.cached_tokens,
      written: whole.usage?.prompt_tokens_details?.cache_write_tokens,
      thought: whole.usage?.completion_tokens_details?.reasoning_tokens,
    }
  },

  // The events of the stream, with what only the last one says.
  'openai-responses': async (url) => {
    const client = new OpenAI({ ...options, baseURL: url })
    const stream = client.responses.stream(responsesRequest)
    const seen = { text: '', reasoning: '' }
    const items = []
    let begun = {}
    stream.on('event', (event) => {
      if (event.type === 'response.output_item.added') begun = event.item
      if (event.type === 'response.output_item.added' && commentary(begun) && seen.reasoning) seen.reasoning += '\n\n'
      if (event.type === 'response.output_text.delta') seen[commentary(begun) ? 'reasoning' : 'text'] += event.delta
      if (event.type === 'response.reasoning_summary_part.added' && event.summary_index > 0) seen.reasoning += '\n\n'
      if (event.type === 'response.reasoning_summary_text.delta') seen.reasoning += event.delta
      if (event.type === 'response.output_item.done') items[event.output_index] = event.item
    })
    const whole = await stream.finalResponse()
    return { ...responseSeen({ ...whole, output: items.flat() }), ...seen }
  },

  // The response that the last event repeats.
  'openai-responses/whole': async (url) => {
    const client = new OpenAI({ ...options, baseURL: url })
    return responseSeen(await client.responses.stream(responsesRequest).finalResponse())
  },

  // A response that is not streamed.
  'openai-responses/value': async (url) => {
    const client = new OpenAI({ ...options, baseURL: url })
    return responseSeen(await client.responses.create(responsesRequest))
  },

  'anthropic-messages': async (url) => {
    const client = new Anthropic({ ...options, baseURL: url })
    const whole = await client.messages.stream({ model, messages, max_tokens: 100 }).finalMessage()
    const blocks = (type) => whole.content.filter((block) => block.type === type)
    const usage = whole.usage
    return {
      text: blocks('text').map((block) => block.text).join(''),
      reasoning: blocks('thinking').map((block) => block.thinking).join(''),
      sealed: whole.content.flatMap(({ type, signature, data }) => (type === 'redacted_thinking' ? data : signature) ?? []),
      finish: whole.stop_reason,
      calls: blocks('tool_use').map(({ id, name, input }) => ({ id, name, args: JSON.stringify(input) })),
      // This vendor counts what is read from and written to the cache apart.
      in: usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0),
      out: usage.output_tokens,
      cached: usage.cache_read_input_tokens,
      written: usage.cache_creation_input_tokens,
      thought: usage.output_tokens_details?.thinking_tokens,
    }
  },

  'ollama-chat': async (url) => {
    const seen = { text: '', reasoning: '', calls: [] }
    for await (const part of await new Ollama({ host: url }).chat({ model, messages, stream: true })) {
      seen.text += part.message?.content ?? ''
      seen.reasoning += part.message?.thinking ?? ''
      for (const { function: f } of part.message?.tool_calls ?? []) {
        seen.calls.push({ name: f.name, args: JSON.stringify(f.arguments) })
      }
      Object.assign(seen, { finish: part.done_reason, in: part.prompt_eval_count, out: part.eval_count })
    }
    return seen
  },

  // The plain stream of events, with the default settings of the client.
  'openai-chat/plain': (url) => {
    const client = new OpenAI({ apiKey: 'none', logLevel: 'off', baseURL: url })
    return drain(client.chat.completions.create({ model, messages, stream: true }))
  },
  'anthropic-messages/plain': (url) => {
    const client = new Anthropic({ apiKey: 'none', logLevel: 'off', baseURL: url })
    return drain(client.messages.create({ model, messages, max_tokens: 100, stream: true }))
  },

  // The number of tokens of a request.
  'anthropic-count': async (url) => {
    const client = new Anthropic({ ...options, baseURL: url })
    return { in: (await client.messages.countTokens({ model, messages })).input_tokens }
  },
}

async function drain(stream) {
  for await (const _ of await stream);
  return {}
}

for await (const line of createInterface({ input: process.stdin })) {
  const { dialect, url, limit } = JSON.parse(line)
  const result = await readers[dialect](url, limit).then(
    (seen) => ({ seen }),
    // The Responses API rejects with the event of the error.
    (error) => ({ error: String(error?.message ?? error) || 'an error without a text' }),
  )
  process.stdout.write(JSON.stringify(result) + '\n')
}
