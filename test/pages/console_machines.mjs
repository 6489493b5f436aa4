// Drives the console's charts, machines, usage and Try it: node console_machines.mjs URL LEVER TOKEN, of which LEVER has jobs done (/job), one whose KV state is refused
// (/refused), a program ask with the token (/program), and says whether the job that was stopped has ended (/ended).
import { browser, focusOn, lookAt, mayComplain, page, pull, says, signInAs, step, text, token, url, want } from './browse.mjs'

const at = async (path) => {
  await page.goto(url + '/console/' + path)
  await says('#connection', 'live')
}
const label = (selector) => page.$eval(selector, (e) => e.getAttribute('aria-label'))
const labelled = (selector, words) =>
  page.waitForFunction((s, w) => [...document.querySelectorAll(s)].some((e) => e.getAttribute('aria-label').includes(w)), { timeout: 20_000 }, selector, words)
const inked = () => page.$eval('.plot canvas', (c) => {
  const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height)
  const colours = new Set()
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) colours.add(data.slice(i, i + 3).join())
  return [...colours]
})

try {
  await step('sign in', async () => {
    await signInAs(token)
    await says('#connection', 'live')
  })
  await step('charts', async () => {
    await page.waitForSelector('.plot canvas')
    want((await page.$$('.plot canvas')).length === 4, 'there are not four charts')
    want((await label('.plot')).includes('now 0 a minute'), `before the first request: ${await label('.plot')}`)
    await page.evaluate(() => { globalThis.canvas = document.querySelector('.plot canvas') })
    for (let i = 0; i < 3; i++) await pull('/job')
    await pull('/refused')
    await labelled('.plot', 'Requests ended over the last hour: now 4')
    want(await page.evaluate(() => globalThis.canvas.isConnected), 'the chart was made anew')
    const light = await inked()
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }])
    await page.waitForFunction(() => !globalThis.canvas.isConnected)
    want(JSON.stringify(await inked()) !== JSON.stringify(light), 'the dark chart has the colours of the light one')
    await page.emulateMediaFeatures([])
  })
  await step('what each slot did', async () => {
    await labelled('.lanes svg', 'on spark-1 was busy')
    await labelled('.lanes svg', '4 requests')
    await page.waitForSelector('.lanes path.move')
  })
  await step('the tables, by keyboard', async () => {
    for (const id of ['charts', 'lanes']) {
      await focusOn(`section[aria-labelledby=${id}] summary`)
      await page.keyboard.press('Enter')
      want(await page.$eval(`section[aria-labelledby=${id}] details`, (e) => e.open), `the table of ${id} does not open`)
    }
    await pull('/job')
    await labelled('.plot', 'now 5')
    want(await page.$eval('section[aria-labelledby=charts] details', (e) => e.open), 'it does not stay open')
    want((await text('section[aria-labelledby=charts] tbody tr')).startsWith('now5'), 'the table has not what the chart has')
    await lookAt('overview-open')
  })
  await step('machines', async () => {
    await at('machines')
    const all = await text('#main')
    for (const words of ['spark-1', '<img src=x onerror=alert(1)>', '1,500 tok/s', '1.2 GB/s', 'b6100', 'f16, f16', '2 shared prefixes of 12,000 tokens', '3,400']) {
      want(all.includes(words), `the page does not say ${words}`)
    }
    await says('section[aria-labelledby=pairs]', 'digest')
    await says('section[aria-labelledby=pairs]', 'the bytes are not those that were written')
    await says('section[aria-labelledby=trials]', 'measured ')
    await says('section[aria-labelledby=trials]', '342 MB')
    await page.evaluate(() => { globalThis.untouched = true })
    await pull('/refused')
    await says('section[aria-labelledby=pairs]', '2 ×')
    want(await page.evaluate(() => globalThis.untouched), 'the page was loaded anew')
    want((await page.$$('section img, main script')).length === 0, 'the name of a machine became markup')
    await lookAt('machines')
  })
  await step('usage', async () => {
    await at('usage')
    await pull('/program')
    await says('section[aria-labelledby=tokens] tbody', 'ada')
    const before = await text('section[aria-labelledby=tokens] tbody td')
    await pull('/program')
    await page.waitForFunction((old) => document.querySelector('section[aria-labelledby=tokens] tbody td').textContent !== old, { timeout: 20_000 }, before)
    want((await page.$$('.bars rect')).length > 0, 'there is no bar')
    await lookAt('usage')
  })
  await step('try it, by keyboard alone', async () => {
    await page.goto(url + '/console/try')
    await page.evaluate(() => document.activeElement.blur())
    await focusOn('#prompt')
    await page.keyboard.type('Say <b>hello</b>')
    await focusOn('#ask')
    await page.keyboard.press('Enter')
    await says('#text', 'You said: Say <b>hello</b>')
    await says('#state', 'Done.')
    await says('#metrics', 'disaggregated')
    for (const words of ['342 MB', '1,500 tok/s', '50 tok/s', '1,000', '400 computed', '600 cached']) want((await text('#metrics')).includes(words), `it does not say ${words}: ${await text('#metrics')}`)
    want((await page.$$('#text b')).length === 0, 'an answer became markup')
    await lookAt('try')
  })
  await step('stop', async () => {
    await page.$eval('#prompt', (e) => { e.value = 'wait' })
    await page.click('#ask')
    await says('#text', 'I wait')
    await focusOn('#stop')
    await page.keyboard.press('Enter')
    await says('#state', 'Stopped')
    await pull('/ended')
    want((await page.$eval('#ask', (e) => e.disabled)) === false, 'nothing more can be asked')
  })
  await step('what is refused', async () => {
    await page.$eval('#prompt', (e) => { e.value = 'fail' })
    mayComplain(true)
    await page.click('#ask')
    await says('#state', 'the engine refuses this')
    mayComplain(false)
  })
} finally {
  await browser.close()
}
