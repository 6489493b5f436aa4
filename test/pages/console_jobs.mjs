// Drives the pages of jobs and queues in a real browser: node console_jobs.mjs URL LEVER OPERATOR GRADER VIEWER, the last three being tokens. The lever is said in
// console_jobs_test.go.
import { browser, focusOn, leave, lever, lookAt, mayComplain, page, says, signInAs, step, text, url, want, willAccept } from './browse.mjs'

const [operator, grader, viewer] = process.argv.slice(4)
const ask = async (what, query = {}) => {
  const r = await fetch(`${lever}/${what}?${new URLSearchParams(query)}`)
  if (!r.ok) throw new Error(`${what}: ${r.status}`)
  const body = await r.text()
  return body && JSON.parse(body)
}
const rows = () => page.$$eval('table.jobs tbody tr', (list) => list.map((tr) => tr.textContent))
const press = (selector) => leave(() => page.click(selector))
const show = async (query) => {
  await page.goto(`${url}/console/jobs?${new URLSearchParams(query)}`)
}
const shown = (n) => page.waitForFunction((n) => document.querySelectorAll('table.jobs tbody tr').length === n, { timeout: 20_000 }, n)

const wrongRows = async (query, n) => want(false, `${JSON.stringify(query)} shows ${(await rows()).length} jobs, want ${n}: ${await text('#main')}`)

try {
  let mine, held, bad
  await step('sign in', () => signInAs(operator))
  await step('what the streams hold from before is there', async () => {
    mine = await ask('submit', { user: 'grace', batch: 'homework-1', n: 3 })
    for (const id of mine) want((await ask('await', { user: 'grace', id })) === 'succeeded', 'a job did not succeed')
    bad = await ask('submit', { user: 'grace', batch: 'broken', custom: 'bad', n: 4 })
    bad.push(...(await ask('submit', { user: 'program', batch: 'broken', custom: 'bad', n: 2 })))
    for (const [i, id] of bad.entries()) want((await ask('await', { user: i < 4 ? 'grace' : 'program', id })) === 'failed', 'a bad job did not fail')
    await page.click('nav a[href="/console/jobs"]')
    await shown(9)
  })
  await step('filter', async () => {
    for (const [query, n] of [[{ state: 'succeeded' }, 3], [{ state: 'dead letter' }, 6], [{ user: 'program' }, 2], [{ batch: 'homework-1' }, 3], [{ method: 'local' }, 3], [{ error: 'NO USE for' }, 6],
      [{ error: 'engine_refused', user: 'grace' }, 4], [{ model: 'pages:1b' }, 9], [{ state: 'running' }, 0]]) {
      await show(query)
      await shown(n).catch(() => wrongRows(query, n))
    }
    await show({})
    await shown(9)
    await page.evaluate(() => { globalThis.untouched = true })
    await page.select('#state', 'dead letter') // shows without a press
    await shown(6)
    await page.type('#user', 'program')
    await shown(2)
    want(new URL(page.url()).searchParams.get('user') === 'program', `the address is ${page.url()}`)
    want((await page.$eval(':focus', (e) => e.id)) === 'user', 'the focus is lost')
    await ask('submit', { user: 'program', batch: 'broken', custom: 'bad' }).then((ids) => bad.push(...ids)) // comes by itself
    await shown(3)
    await page.goBack()
    await shown(7)
    want(await page.evaluate(() => globalThis.untouched), 'the page was loaded anew')
  })
  await step('bad input', async () => {
    mayComplain(true)
    for (const [path, status, words] of [['jobs?state=sleeping', 400, 'want one of'], ['jobs?method=walk', 400, 'want one of'], [`jobs?batch=${'x'.repeat(900)}`, 400, 'bytes long'], ['jobs/grace/nonsense', 404, 'UUID'],
      ['jobs/grace/01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6', 404, 'not known'], ['tasks/99', 404, 'no task'], ['jobs/confirm?verb=sell', 400, 'want cancel']]) {
      const r = await page.goto(`${url}/console/${path}`)
      want(r.status() === status && (await text('#main')).includes(words), `${path}: ${r.status()}, ${await text('#main')}`)
    }
    await page.goto('about:blank')
    mayComplain(false)
  })
  await step('a job that runs: its steps, and its text live', async () => {
    ;[held] = await ask('submit', { user: 'grace', batch: 'story', custom: 'story', held: '' })
    await show({ state: 'running' })
    await shown(1)
    want((await rows())[0].includes('decode on <img src=x'), `the row says ${(await rows())[0]}`)
    await press('table.jobs tbody a')
    await says('#main', 'running')
    await says('#main', 'first token')
    await page.evaluate(() => { globalThis.untouched = true })
    await ask('release', { custom: 'story' })
    await says('.lead', 'succeeded')
    await says('#main', 'a text')
    await says('#main', 'ended')
    want(await page.evaluate(() => globalThis.untouched), 'the page was loaded anew')
    want((await page.$$('main script, main img')).length === 0, 'text became markup')
  })
  await step('live text', async () => {
    const [id] = await ask('submit', { user: 'grace', batch: 'story', custom: 'first', held: '' }) // takes a place, and so does the next
    await ask('submit', { user: 'grace', batch: 'story', custom: 'second', held: '' })
    const [waits] = await ask('submit', { user: 'grace', batch: 'story', custom: 'third', held: '' })
    await page.goto(`${url}/console/jobs/grace/${waits}`)
    await says('.lead', 'waiting')
    await says('#main', 'Nothing has been heard')
    await ask('release', { custom: 'first' })
    await says('section[aria-labelledby=text] pre', 'Once upon <script>alert(1)</script> a time')
    want((await page.$$('main script')).length === 0, 'text became markup')
    await lookAt('job')
    willAccept()
    await page.click('button.danger')
    await says('.lead', 'cancelled')
    await ask('release', { custom: 'second' })
    want((await ask('await', { user: 'grace', id })) === 'succeeded', 'the first did not succeed')
  })
  await step('looks', async () => {
    await show({ state: 'dead letter', error: 'no use' })
    await lookAt('jobs')
    await page.goto(url + '/console/queues')
    await says('#main', 'engine_refused')
    await lookAt('queues')
  })
  await step('replay of all that match', async () => {
    await ask('answer-replays')
    await page.goto(url + '/console/queues')
    await press('section[aria-labelledby=letters] tbody a')
    await shown(7)
    await press('button[value=replay]')
    want((await text('.lead')) === 'Replay 7 jobs?', `it asks ${await text('.lead')}`)
    await lookAt('confirm')
    await press('form.acts button')
    await says('.lead', '7 of 7 jobs done')
    await says('#main', '7 replayed')
    await lookAt('task')
    for (const [i, id] of bad.entries()) want((await ask('await', { user: i < 4 ? 'grace' : 'program', id })) === 'succeeded', 'a replay did not succeed')
  })
  await step('what came after one was asked stays', async () => {
    await page.goto(`${url}/console/jobs/confirm?verb=drop&user=program`)
    want((await text('.lead')) === 'Drop 3 jobs?', `it asks ${await text('.lead')}`)
    const [late] = await ask('submit', { user: 'program', batch: 'broken', custom: 'bad' })
    want((await ask('await', { user: 'program', id: late })) === 'failed', 'a bad job did not fail')
    await page.evaluate(() => fetch('/console/jobs?user=program')) // which has the streams read on
    const again = await page.$eval('form.acts', (form) => new URLSearchParams(new FormData(form)).toString())
    await press('form.acts button')
    await says('.lead', '3 of 3 jobs done')
    const body = await page.evaluate((form) => fetch('/console/jobs/act', { method: 'POST', body: new URLSearchParams(form) }).then((r) => r.text()), again)
    want(body.includes('Nothing has been done'), 'what was confirmed once counts twice')
    bad.push(late)
  })
  await step('a grader: the own jobs only', async () => {
    await signInAs(grader)
    await show({ state: 'dead letter' })
    await says('button[value=drop]', 'Drop 4 jobs')
    for (const selector of ['button[value=drop]', 'form.acts button']) { // by keyboard alone
      await focusOn(selector)
      await leave(() => page.keyboard.press('Enter'))
    }
    await says('.lead', '4 of 4 jobs done')
    await page.goto(`${url}/console/jobs/program/${bad.at(-1)}`)
    await says('#main', 'its own user and operators see')
    want((await page.$$('main form')).length === 0, 'a grader is offered to act on the job of another')
    mayComplain(true)
    const status = await page.evaluate((id) => fetch('/console/jobs/act', { method: 'POST', body: new URLSearchParams({ verb: 'drop', of: 'program', id }) }).then((r) => r.status), bad.at(-1))
    want(status === 403, `a grader who drops another's letter is answered ${status}`)
    mayComplain(false)
    await page.goto(`${url}/console/jobs/grace/${mine[0]}`)
    await says('section[aria-labelledby=text] pre', 'a text')
  })
  await step('a viewer: sees, and changes nothing', async () => {
    await signInAs(viewer)
    await show({ state: 'dead letter' })
    await shown(1)
    want((await page.$$('main .acts')).length === 0, 'a viewer is offered to act')
    await page.goto(`${url}/console/jobs/grace/${mine[0]}`)
    await says('#main', 'its own user and operators see')
    want(!(await text('#main')).includes('a text'), 'a viewer sees a text')
    mayComplain(true)
    for (const body of [{ verb: 'drop', of: 'program', id: bad.at(-1) }, { verb: 'drop', confirmed: 'x' }]) {
      const status = await page.evaluate((body) => fetch('/console/jobs/act', { method: 'POST', body: new URLSearchParams(body) }).then((r) => r.status), body)
      want(status === 403, `a viewer who acts is answered ${status}`)
    }
    mayComplain(false)
  })
} finally {
  await browser.close()
}
