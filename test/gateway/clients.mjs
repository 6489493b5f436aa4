// Others' clients, pointed at a gateway or at Ollama itself: node clients.mjs URL MODEL CALLER SEER EMBEDDER, of which the second calls functions, the third sees and the fourth makes embeddings. Prints one line of JSON for each step, with what was answered: the status,
// and the path and JSON type of each field.
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama'
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai'

const [url, model, caller, seer, embedder] = process.argv.slice(2)
let answers = []
const fields = (v, path, into) => {
  if (Array.isArray(v)) {
    into[path] = 'array'
    for (const x of v) fields(x, `${path}[]`, into)
  } else if (v !== null && typeof v === 'object') {
    if (path) into[path] = 'object'
    if (path !== 'model_info') for (const [key, x] of Object.entries(v)) fields(x, path ? `${path}.${key}` : key, into)
  } else {
    const type = v === null ? 'null' : typeof v
    into[path] = into[path] && !into[path].split(' or ').includes(type) ? `${into[path]} or ${type}` : into[path] ?? type
  }
}
const read = async (r, answer) => {
  const text = await r.text().catch(() => '') // of a stream that was aborted nothing is said
  for (let line of text.startsWith('data:') || text.startsWith('{"') ? text.split('\n') : [text]) {
    line = line.replace(/^data: /, '').trim()
    if (line === '' || line === '[DONE]') continue
    try {
      fields(JSON.parse(line), '', answer.fields)
    } catch {
      answer.fields[line] = 'text'
    }
  }
}
const seen = async (at, options) => {
  const r = await fetch(at, options)
  const answer = { path: new URL(at.url ?? at).pathname, status: r.status, type: r.headers.get('content-type')?.split(';')[0], fields: {} }
  answers.push({ answer, read: read(r.clone(), answer) })
  return r
}
const ollama = new Ollama({ host: url, fetch: seen })
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, fetch: seen })
const schema = { type: 'object', properties: { sum: { type: 'integer' } }, required: ['sum'] }
const few = { num_predict: 12, temperature: 0 }
const step = async (name, f) => {
  answers = []
  let said
  try {
    said = await f()
  } catch (e) {
    said = { failed: String(e), status: e.status_code ?? e.status, param: e.param, code: e.code, type: e.type }
  }
  const aborted = said.aborted
  if (!aborted) await Promise.all(answers.map((a) => a.read))
  console.log(JSON.stringify({ step: name, ...said, answers: aborted ? [] : answers.map((a) => a.answer) }))
}

await step('ollama version', async () => ({ text: (await ollama.version()).version }))
await step('ollama list', async () => ({ models: (await ollama.list()).models.map((m) => m.name) }))
await step('ollama show', async () => ({ capabilities: (await ollama.show({ model })).capabilities }))
await step('ollama ps', async () => ({ models: (await ollama.ps()).models.map((m) => m.name) }))
await step('ollama generate', async () => {
  const r = await ollama.generate({ model, prompt: 'Count to three.', options: few })
  return { text: r.response, done: r.done, reason: r.done_reason, prompt: r.prompt_eval_count, written: r.eval_count, total: r.total_duration, method: r.tandem?.method }
})
await step('ollama generate, streamed', async () => {
  let text = ''
  let pieces = 0
  let last
  for await (const part of await ollama.generate({ model, prompt: 'Count to three.', options: few, stream: true })) {
    text += part.response
    pieces++
    last = part
  }
  return { text, pieces, done: last.done, reason: last.done_reason, written: last.eval_count }
})
await step('ollama chat', async () => {
  const r = await ollama.chat({ model, messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello' }], options: few })
  return { text: r.message.content, role: r.message.role, done: r.done }
})
await step('ollama generate, raw', async () => {
  const r = await ollama.generate({ model, prompt: 'Count to three.', raw: true, options: few })
  return { text: r.response, prompt: r.prompt_eval_count }
})
const tokensOf = (list) => ({ streamed: list.map((t) => t.token).join(''), pieces: list.filter((t) => t.logprob <= 0 && t.bytes.length > 0 && t.top_logprobs[0].logprob === t.logprob).length })
await step('ollama chat, logprobs', async () => {
  const r = await ollama.chat({ model, messages: [{ role: 'user', content: 'Hello' }], logprobs: true, top_logprobs: 2, options: few })
  return { text: r.message.content, written: r.eval_count, ...tokensOf(r.logprobs) }
})
await step('ollama generate, logprobs, streamed', async () => {
  let text = ''
  const list = []
  for await (const part of await ollama.generate({ model, prompt: 'Count to three.', logprobs: true, top_logprobs: 2, options: few, stream: true })) {
    text += part.response
    list.push(...(part.logprobs ?? []))
  }
  return { text, ...tokensOf(list) }
})
await step('ollama generate, a suffix for a model without', async () => ollama.generate({ model, prompt: 'Count to', suffix: 'three', options: few }))
await step('ollama chat, by a schema', async () => {
  const r = await ollama.chat({ model, messages: [{ role: 'user', content: 'What is 2 + 3?' }], format: schema, options: { num_predict: 200, temperature: 0 } })
  return { value: JSON.parse(r.message.content) }
})
await step('ollama abort', async () => {
  const stream = await ollama.generate({ model, prompt: 'Write a long story.', options: { num_predict: 20000 }, stream: true })
  let pieces = 0
  try {
    for await (const part of stream) {
      if (++pieces === 3) stream.abort()
      if (part.done) return { ended: true }
    }
  } catch (e) {
    return { aborted: e.name === 'AbortError', pieces }
  }
  return { aborted: true, pieces }
})
await step('ollama, a model that is not there', async () => ollama.generate({ model: 'nobody:1b', prompt: 'Hello' }))
await step('ollama, an option that is not there', async () => ollama.generate({ model, prompt: 'Hello', options: { mirostat: 1, num_predict: 4 } }))
const tools = [{ type: 'function', function: { name: 'add', description: 'Adds two numbers.', parameters: { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'integer' } }, required: ['a', 'b'] } } }]
const sum = [{ role: 'user', content: 'What is 2 + 3?' }]
await step('ollama show, a model that calls', async () => ({ capabilities: (await ollama.show({ model: caller })).capabilities }))
await step('ollama, tools of a model without', async () => ollama.chat({ model, messages: sum, tools, options: few }))
await step('ollama, an image for a model that sees none', async () => ollama.chat({ model, messages: [{ role: 'user', content: 'What is this?', images: ['iVBORw0KGgo='] }], options: few }))
const red = 'iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAIAAAAn5KxJAAAAQElEQVR42u3OQQkAAAgAsetfWh+mEAYLsKZeSFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRU9CwicjR1t9nCvQAAAABJRU5ErkJggg=='
const blue = 'iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAIAAAAn5KxJAAAAP0lEQVR42u3OAQkAAAjAsPcvrWALYbAAq+YJUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVHRs7l7NHVoIEJ1AAAAAElFTkSuQmCC'
await step('ollama chat, images', async () => {
  const ask = async (image) => (await ollama.chat({ model: seer, messages: [{ role: 'user', content: 'What is this?', images: [image] }], options: few })).message.content
  return { text: await ask(red), streamed: await ask(blue) }
})
await step('ollama generate, images', async () => ({ text: (await ollama.generate({ model: seer, prompt: 'What is this?', images: [red], options: few })).response }))
await step('ollama chat, tools', async () => {
  const r = await ollama.chat({ model: caller, messages: sum, tools })
  const after = await ollama.chat({ model: caller, messages: [...sum, r.message, { role: 'tool', tool_name: 'add', content: '5' }], tools })
  return { calls: r.message.tool_calls.map((c) => ({ id: c.id, ...c.function })), text: r.message.content, reason: r.done_reason, prompt: after.prompt_eval_count - r.prompt_eval_count }
})
await step('ollama chat, tools, streamed', async () => {
  const calls = []
  let text = ''
  let last
  for await (const part of await ollama.chat({ model: caller, messages: sum, tools, stream: true })) {
    text += part.message.content
    for (const c of part.message.tool_calls ?? []) calls.push({ id: c.id, ...c.function })
    last = part
  }
  return { calls, text, reason: last.done_reason }
})

// Vectors as a text to compare: as many numbers of each as say which it is.
const shown = (vectors) => vectors.map((v) => `${v.length}: ${Array.from(v.slice(0, 6), (x) => Math.round(100 * x)).join(' ')}`).join('; ')
const texts = ['The price of strawberries', 'Ships in the night']
const long = texts[0].repeat(20000)
await step('ollama show, a model that embeds', async () => ({ capabilities: (await ollama.show({ model: embedder })).capabilities }))
await step('ollama embed', async () => {
  const r = await ollama.embed({ model: embedder, input: texts })
  return { text: shown(r.embeddings), pieces: r.embeddings.length, prompt: r.prompt_eval_count, total: r.total_duration, method: r.tandem?.method }
})
await step('ollama embed, fewer dimensions', async () => ({ text: shown((await ollama.embed({ model: embedder, input: texts[0], dimensions: 4 })).embeddings) }))
await step('ollama embed, a long text', async () => ({ pieces: (await ollama.embed({ model: embedder, input: long })).embeddings.length }))
await step('ollama embed, a long text that is not to be cut off', async () => ollama.embed({ model: embedder, input: long, truncate: false }))
await step('ollama embed, nothing', async () => ({ pieces: (await ollama.embed({ model: embedder, input: '' })).embeddings.length, done: true }))
await step('ollama embed, an empty text', async () => ollama.embed({ model: embedder, input: [''] }))
await step('ollama embed, a number', async () => ollama.embed({ model: embedder, input: 1 }))
await step('ollama embed, a model that does not', async () => ollama.embed({ model, input: texts }))
await step('ollama embeddings', async () => ({ text: shown([(await ollama.embeddings({ model: embedder, prompt: texts[0] })).embedding]) }))
await step('ollama generate, a model that embeds', async () => ollama.generate({ model: embedder, prompt: 'Hello' }))
await step('ollama chat, a model that embeds', async () => ollama.chat({ model: embedder, messages: [{ role: 'user', content: 'Hello' }] }))
await step('openai embeddings', async () => {
  const r = await openai.embeddings.create({ model: embedder, input: texts }) // which the client asks for in base64
  return { text: shown(r.data.map((d) => d.embedding)), object: r.object, usage: r.usage, models: r.data.map((d) => `${d.object} ${d.index}`) }
})
await step('openai embeddings, numbers', async () => ({ text: shown((await openai.embeddings.create({ model: embedder, input: texts[0], dimensions: 4, encoding_format: 'float', user: 'ada' })).data.map((d) => d.embedding)) }))
await step('openai embeddings, a long text', async () => openai.embeddings.create({ model: embedder, input: long }))
await step('openai embeddings, token ids', async () => openai.embeddings.create({ model: embedder, input: [1, 2] }))
await step('openai embeddings, nothing', async () => openai.embeddings.create({ model: embedder, input: [] }))
await step('openai embeddings, a model that does not', async () => openai.embeddings.create({ model, input: texts }))
await step('openai chat, a model that embeds', async () => openai.chat.completions.create({ model: embedder, messages: [{ role: 'user', content: 'Hello' }] }))
await step('langchain ollama, embeddings', async () => ({ text: shown(await new OllamaEmbeddings({ baseUrl: url, fetch: seen, model: embedder }).embedDocuments(texts)) }))
await step('langchain openai, embeddings', async () => {
  const e = new OpenAIEmbeddings({ model: embedder, apiKey: 'none', maxRetries: 0, configuration: { baseURL: `${url}/v1`, fetch: seen } })
  return { text: shown(await e.embedDocuments(texts)) }
})

await step('openai models', async () => ({ models: (await openai.models.list()).data.map((m) => m.id), one: (await openai.models.retrieve(model)).id }))
await step('openai chat', async () => {
  const r = await openai.chat.completions.create({ model, messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: [{ type: 'text', text: 'Hello' }] }], max_tokens: 12, max_completion_tokens: 12, temperature: 0 })
  return { text: r.choices[0].message.content, finish: r.choices[0].finish_reason, usage: r.usage, id: r.id }
})
await step('openai chat, a developer speaks', async () => {
  const r = await openai.chat.completions.create({ model, messages: [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: 'Hello' }], max_tokens: 12, temperature: 0 })
  return { finish: r.choices[0].finish_reason }
})
await step('openai chat, streamed', async () => {
  let text = ''
  let finish
  let usage
  let role
  for await (const part of await openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'Count to three.' }], max_tokens: 12, temperature: 0, stream: true, stream_options: { include_usage: true } })) {
    text += part.choices[0]?.delta?.content ?? ''
    role ??= part.choices[0]?.delta?.role
    finish ??= part.choices[0]?.finish_reason
    usage ??= part.usage
  }
  return { text, role, finish, written: usage?.completion_tokens }
})
await step('openai chat, logprobs', async () => {
  const r = await openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 12, temperature: 0, logprobs: true, top_logprobs: 2 })
  return { text: r.choices[0].message.content, ...tokensOf(r.choices[0].logprobs.content) }
})
await step('openai chat, logprobs, streamed', async () => {
  let text = ''
  const list = []
  for await (const part of await openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 12, temperature: 0, logprobs: true, top_logprobs: 2, stream: true })) {
    text += part.choices[0]?.delta?.content ?? ''
    list.push(...(part.choices[0]?.logprobs?.content ?? []))
  }
  return { text, ...tokensOf(list) }
})
await step('openai chat, too many logprobs', async () => openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4, logprobs: true, top_logprobs: 21 }))
await step('openai completion, logprobs', async () => {
  const r = await openai.completions.create({ model, prompt: 'Count to three.', max_tokens: 12, temperature: 0, logprobs: 2 })
  const l = r.choices[0].logprobs
  return { text: r.choices[0].text, streamed: l?.tokens.join(''), pieces: l?.text_offset.filter((at, i) => r.choices[0].text.startsWith(l.tokens[i], at) && l.token_logprobs[i] <= 0 && Object.keys(l.top_logprobs[i]).length === 2).length }
})
await step('openai chat, by a schema', async () => {
  const r = await openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'What is 2 + 3?' }], response_format: { type: 'json_schema', json_schema: { name: 'sum', schema } }, max_tokens: 200, temperature: 0 })
  return { value: JSON.parse(r.choices[0].message.content) }
})
await step('openai completion', async () => {
  const r = await openai.completions.create({ model, prompt: 'Count to three.', max_tokens: 12, temperature: 0 })
  return { text: r.choices[0].text, finish: r.choices[0].finish_reason, object: r.object }
})
await step('openai completion, streamed', async () => {
  let text = ''
  for await (const part of await openai.completions.create({ model, prompt: 'Count to three.', max_tokens: 12, temperature: 0, stream: true })) text += part.choices[0]?.text ?? ''
  return { text }
})
await step('openai, a model that is not there', async () => openai.chat.completions.create({ model: 'nobody:1b', messages: [{ role: 'user', content: 'x' }] }))
await step('openai, a parameter that is not supported', async () => openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'x' }], max_tokens: 4, logit_bias: { 50256: -100 } }))
await step('openai, several answers', async () => openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'x' }], max_tokens: 4, n: 2 }))
await step('openai chat, images', async () => {
  const ask = async (image) => (await openai.chat.completions.create({ model: seer, max_tokens: 12, temperature: 0, messages: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, { type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } }] }] })).choices[0].message.content
  return { one: await ask(red), streamed: await ask(blue) } // no text to compare: Ollama makes a message of each part
})
await step('openai chat, tools', async () => {
  const r = await openai.chat.completions.create({ model: caller, messages: sum, tools })
  const [{ message, finish_reason }] = r.choices
  const after = await openai.chat.completions.create({ model: caller, messages: [...sum, message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '5' }], tools })
  return { calls: message.tool_calls.map((c) => ({ id: c.id, name: c.function.name, arguments: JSON.parse(c.function.arguments) })), text: message.content ?? '', finish: finish_reason, prompt: after.usage.prompt_tokens - r.usage.prompt_tokens }
})
await step('openai chat, tools, streamed', async () => {
  const calls = []
  let finish
  for await (const part of await openai.chat.completions.create({ model: caller, messages: sum, tools, stream: true })) {
    for (const c of part.choices[0]?.delta?.tool_calls ?? []) calls[c.index] = { id: c.id, name: c.function.name, arguments: JSON.parse(c.function.arguments) }
    finish ??= part.choices[0]?.finish_reason
  }
  return { calls, finish }
})
await step('openai chat, tools that must be called', async () => openai.chat.completions.create({ model: caller, messages: sum, tools, tool_choice: 'required' }))

// Batches are nothing of Ollama's.
if (!process.argv.includes('--no-batches')) {
  const line = (id, body) => JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body: { model, max_tokens: 6, temperature: 0, ...body } })
  const ask = (content) => ({ messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content }] })
  const send = async (lines) => openai.files.create({ purpose: 'batch', file: new File([lines.join('\n')], 'class.jsonl') })
  const done = async (id) => {
    for (;;) {
      const b = await openai.batches.retrieve(id)
      if (['completed', 'failed', 'expired', 'cancelled'].includes(b.status)) return b
      await new Promise((resume) => setTimeout(resume, 50))
    }
  }
  await step('openai batch', async () => {
    const file = await send(Array.from({ length: 5 }, (_, i) => line(`s-${i}`, ask(`Count to ${i}.`))))
    const b = await done((await openai.batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { course: 'one' } })).id)
    const out = (await (await openai.files.content(b.output_file_id)).text()).trim().split('\n').map((l) => JSON.parse(l))
    const content = await (await openai.files.content(file.id)).text()
    return { reason: b.status, usage: b.request_counts, text: b.metadata.course, models: out.map((o) => o.custom_id).sort(), written: out[0].response.body.usage.completion_tokens, streamed: content.split('\n')[0], one: b.error_file_id ?? 'no errors' }
  })
  await step('openai batch, embeddings', async () => {
    const file = await send(texts.map((input, i) => JSON.stringify({ custom_id: `s-${i}`, method: 'POST', url: '/v1/embeddings', body: { model: embedder, input } })))
    const b = await done((await openai.batches.create({ input_file_id: file.id, endpoint: '/v1/embeddings', completion_window: '24h' })).id)
    const out = (await (await openai.files.content(b.output_file_id)).text()).trim().split('\n').map((l) => JSON.parse(l)).sort((a, b) => a.custom_id < b.custom_id ? -1 : 1)
    return { reason: b.status, text: shown(out.map((o) => o.response.body.data[0].embedding)) }
  })
  await step('openai batch, a bad line', async () => {
    const file = await send([line('a', ask('x')), '{"custom_id": "b", ', line('a', ask('y')), line('c', { ...ask('z'), logit_bias: {} }), line('d', { ...ask('z'), model: 'nobody:1b' })])
    const b = await done((await openai.batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' })).id)
    return { reason: b.status, models: b.errors.data.map((e) => `${e.line}: ${e.message}`) }
  })
  await step('openai batch, cancelled', async () => {
    const file = await send(Array.from({ length: 20 }, (_, i) => line(`s-${i}`, { ...ask('x'), max_tokens: 20000 })))
    const made = await openai.batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' })
    const b = await done((await openai.batches.cancel(made.id)).id)
    const bad = (await (await openai.files.content(b.error_file_id)).text()).trim().split('\n').map((l) => JSON.parse(l))
    return { reason: b.status, usage: b.request_counts, models: [...new Set(bad.map((o) => o.error.code))], pieces: bad.length }
  })
  await step('openai batches and files, page by page', async () => {
    const ids = []
    for await (const b of openai.batches.list({ limit: 1 })) ids.push(b.id)
    const files = []
    for await (const f of openai.files.list({ limit: 2, purpose: 'batch' })) files.push(f.id)
    const gone = await openai.files.delete(files[0])
    return { pieces: ids.length, models: files, written: new Set([...ids, ...files]).size, done: gone.deleted }
  })
  await step('openai batch, no such file', async () => openai.batches.create({ input_file_id: 'file-0', endpoint: '/v1/chat/completions', completion_window: '24h' }))
}

await step('langchain ollama', async () => ({ text: (await new ChatOllama({ baseUrl: url, fetch: seen, model, numPredict: 12, temperature: 0 }).invoke('Hello')).content }))
await step('langchain openai', async () => {
  const chat = new ChatOpenAI({ model, apiKey: 'none', maxTokens: 12, temperature: 0, maxRetries: 0, configuration: { baseURL: `${url}/v1`, fetch: seen } })
  let streamed = ''
  for await (const part of await chat.stream('Hello')) streamed += part.content
  return { text: (await chat.invoke('Hello')).content, streamed }
})
await step('langchain ollama, tools', async () => {
  const r = await new ChatOllama({ baseUrl: url, fetch: seen, model: caller }).bindTools(tools).invoke('What is 2 + 3?')
  return { calls: r.tool_calls.map((c) => ({ id: c.id, name: c.name, arguments: c.args })) }
})
await step('langchain openai, tools', async () => {
  const r = await new ChatOpenAI({ model: caller, apiKey: 'none', maxRetries: 0, configuration: { baseURL: `${url}/v1`, fetch: seen } }).bindTools(tools).invoke('What is 2 + 3?')
  return { calls: r.tool_calls.map((c) => ({ id: c.id, name: c.name, arguments: c.args })) }
})
