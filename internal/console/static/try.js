// Asks a model, shows the answer as it comes, and then what it took. All that comes is shown as text.
const $ = (id) => document.getElementById(id)
let asking = null

const tell = (words, state = '') => {
  $('state').textContent = words
  $('state').className = state && `state ${state}`
}
const seconds = (s) => (s <= 0 ? '–' : s < 0.9995 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`)
const number = (n) => Math.round(n).toLocaleString('en')
const bytes = (n) => (n < 1e6 ? `${number(n / 1e3)} kB` : n < 1e9 ? `${number(n / 1e6)} MB` : `${(n / 1e9).toFixed(1)} GB`)
const rate = (r) => (r > 0 ? `${r < 10 ? r.toFixed(1) : number(r)} tok/s` : '')

const element = (name, text, className = '') => {
  const e = document.createElement(name)
  e.textContent = text
  e.className = className
  return e
}

const show = (m) => {
  const { timings: t, usage: u, handover: h } = m
  const list = element('dl', '', 'figures')
  const figure = (name, value, ...of) => {
    const group = element('div', '')
    const dd = element('dd', value)
    for (const line of of) if (line) dd.append(element('span', line, 'of'))
    group.append(element('dt', name), dd)
    list.append(group)
  }
  const computed = u.prefill_computed + u.decode_computed
  figure('Total', seconds(t.total_seconds))
  figure('First text', seconds(t.time_to_first_token_seconds))
  figure('Waited', seconds(t.queue_prefill_seconds + t.queue_decode_seconds))
  figure('Prefill', seconds(t.prefill_seconds + t.decode_prefill_seconds), rate(t.prefill_tokens_per_second))
  figure('Hand-over', seconds(t.save_seconds + t.transfer_seconds + t.restore_seconds + t.check_seconds), ...(h?.bytes ? [bytes(h.bytes), `${number(u.handed_over)} tokens`] : []))
  figure('Decode', seconds(t.decode_seconds), rate(t.decode_tokens_per_second))
  figure('Prompt', number(u.prompt_tokens), 'tokens', `${number(computed)} computed`, `${number(Math.max(0, u.prompt_tokens - computed))} cached`)
  figure('Generated', number(u.generated_tokens), 'tokens')
  const card = element('div', '', 'card')
  card.append(element('p', `Way: ${m.method}${m.decision ? ' – ' + m.decision : ''}`), list)
  for (const warning of m.warnings ?? []) card.append(element('p', warning, 'state warn'))
  if (h?.failure) card.append(element('p', `The KV state was not used: ${h.message}`, 'state warn'))
  const who = [...new Set([m.servers.prefill, m.servers.decode])].filter(Boolean).join(' → ')
  card.append(element('p', `${who} · job ${m.job_id}`, 'what'))
  $('metrics').replaceChildren(card)
}

const take = (line) => {
  const piece = JSON.parse(line)
  if (piece.error) throw new Error(piece.error)
  if (piece.thinking) {
    $('thinking').hidden = false
    $('thoughts').append(piece.thinking)
  }
  if (piece.response) {
    $('text').hidden = false
    $('text').append(piece.response)
  }
  if (piece.done) {
    show(piece.tandem)
    tell(piece.done_reason === 'length' ? 'Done: it was cut off at the number of tokens.' : 'Done.', 'good')
  }
}

const ask = async (signal) => {
  const answer = await fetch('/console/ask', {
    method: 'POST', signal, headers: { 'Content-Type': 'application/json', 'Tandem-Plan': $('plan').value },
    body: JSON.stringify({ model: $('model').value, prompt: $('prompt').value, options: { num_predict: Number($('most').value) } }),
  })
  if (answer.status === 401 || answer.redirected) return location.reload() // the session has ended
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = '';;) {
    const { value, done } = await reader.read()
    const lines = (rest + (value ?? '')).split('\n')
    rest = done ? '' : lines.pop()
    for (const line of lines) if (line.trim()) take(line)
    if (done) return
  }
}

$('stop')?.addEventListener('click', () => asking?.abort())
$('try')?.addEventListener('submit', async (e) => {
  e.preventDefault()
  if (asking) return
  asking = new AbortController()
  for (const id of ['text', 'thoughts', 'metrics']) $(id).replaceChildren()
  $('text').hidden = $('thinking').hidden = true
  $('ask').disabled = !($('stop').disabled = false)
  $('stop').focus()
  tell('Asked; waiting for the first text …')
  $('text').scrollIntoView({ block: 'nearest' })
  try {
    await ask(asking.signal)
  } catch (e) {
    tell(asking.signal.aborted ? 'Stopped: its job was cancelled.' : e.message, asking.signal.aborted ? 'warn' : 'bad')
  } finally {
    asking = null
    $('ask').disabled = false
    if (document.activeElement === $('stop')) $('ask').focus()
    $('stop').disabled = true
  }
})
