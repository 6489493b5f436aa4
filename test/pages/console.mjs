// Drives the console in a real browser: node console.mjs URL [LEVER [TOKEN]], of which LEVER is where the test has jobs done (/job) and the gateway stopped and started
// (/stop, /start); with a token it signs in first, and without a lever it only looks. Prints a line of JSON for each step: what went wrong, if anything did.
import { mkdir } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const [url, lever, token] = process.argv.slice(2)
const pictures = process.env.TANDEM_PICTURES
if (pictures) await mkdir(pictures, { recursive: true })
const browser = await puppeteer.launch({ executablePath: process.env.TANDEM_BROWSER, pipe: true, args: process.getuid() === 0 ? ['--no-sandbox'] : [] })
const wrong = []
const want = (holds, what) => { if (!holds) wrong.push(what) }
const step = async (name, f) => {
  try {
    await f()
  } catch (e) {
    wrong.push(String(e))
  }
  console.log(JSON.stringify({ step: name, wrong: wrong.splice(0) }))
}
const pull = (what) => fetch(lever + what).then((r) => { if (!r.ok) throw new Error(`${what}: ${r.status}`) })
const page = await browser.newPage()
await page.setViewport({ width: 1440, height: 900 })
let quiet = true // or else the gateway is away, and the browser says so
const loud = (text) => { if (quiet) wrong.push(text) }
page.on('request', (r) => { if (!r.url().startsWith(url + '/console/')) loud(`it asks for ${r.url()}`) })
page.on('console', (m) => { if (['error', 'warn'].includes(m.type())) loud(`the browser says ${m.text()}`) })
page.on('pageerror', (e) => loud(`a script failed: ${e}`))
page.on('dialog', (d) => { wrong.push(`it opened ${d.message()}`); d.dismiss() })
const text = (selector) => page.$eval(selector, (e) => e.textContent.trim())
const says = (selector, words) => page.waitForFunction((s, w) => document.querySelector(s)?.textContent.includes(w), { timeout: 20_000 }, selector, words)

async function lookAt(name) {
  for (const [screen, size] of Object.entries({ wide: { width: 1440, height: 900 }, tablet: { width: 768, height: 1000 }, phone: { width: 390, height: 844, deviceScaleFactor: 2 } })) {
    await page.setViewport(size)
    await page.evaluate(axe)
    for (const scheme of ['light', 'dark']) {
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
      if (pictures) await page.screenshot({ path: join(pictures, `console-${name}-${screen}-${scheme}.png`), fullPage: true })
      const seen = await page.evaluate(async () => {
        const { violations } = await globalThis.axe.run(document, { runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }, resultTypes: ['violations'] })
        return { wider: document.scrollingElement.scrollWidth - innerWidth, nodes: document.querySelectorAll('*').length, violations: violations.map((v) => `${v.id}: ${v.help} ${v.nodes.map((n) => n.html).join(' ')}`) }
      })
      want(seen.wider <= 0, `${screen}: ${seen.wider} pixels wider than the screen`)
      want(seen.nodes < 2000, `${screen}: ${seen.nodes} nodes`)
      for (const v of seen.violations) wrong.push(`${screen}, ${scheme}: ${v}`)
    }
  }
  await page.setViewport({ width: 1440, height: 900 })
}

try {
  if (token) {
    await step('sign in', async () => {
      await page.goto(url + '/console/')
      want(page.url().endsWith('/console/sign-in'), `without a session it is at ${page.url()}`)
      await lookAt('sign-in')
      await page.keyboard.press('Tab') // past the link to the content
      await page.keyboard.press('Tab')
      await page.keyboard.type('tandem-wrong')
      await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
      want((await text('[role=alert]')).includes('not known'), 'a wrong token is not refused')
      await page.type('#token', token)
      await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
      want(page.url().endsWith('/console/'), `with a token it is at ${page.url()}`)
      const [cookie] = await browser.cookies()
      want(cookie.httpOnly && cookie.sameSite === 'Strict' && cookie.path === '/console/' && !cookie.value.includes(token), `the cookie is ${JSON.stringify({ ...cookie, value: '' })}`)
    })
  } else {
    await page.goto(url + '/console/')
  }
  await step('overview', async () => {
    await says('#main', 'healthy')
    await page.evaluate(() => { globalThis.untouched = true })
    want(!lever || (await text('#main')).includes('No') || (await text('#main')).includes('None has ended'), 'there are requests before the first')
  })
  if (lever) await step('live', async () => {
    for (let n = 1; n <= 3; n++) {
      await pull('/job')
      await says('section[aria-labelledby=last] tbody tr:first-child th', String(n))
    }
    await says('section[aria-labelledby=last] tbody tr:first-child', 'succeeded')
    await says('section[aria-labelledby=last] tbody tr:first-child', '1,000 → 50 tok/s')
    await says('section[aria-labelledby=whole]', 'the last 3 requests')
    await says('.card', 'mean of the last 3 requests')
    want(await page.evaluate(() => globalThis.untouched), 'the page was loaded anew')
  })
  if (lever) await step('what others call themselves stays text', async () => {
    want((await text('section[aria-labelledby=servers]')).includes('<img src=x onerror=alert(1)>'), 'the name of a machine is not shown as it is')
    want((await page.$$('section img, main script')).length === 0, 'the name of a machine became markup')
  })
  await step('looks', () => lookAt('overview'))
  if (lever) await step('a gateway that is away for a while', async () => {
    quiet = false
    await pull('/stop')
    await says('#connection', 'reconnecting')
    await pull('/start')
    await says('#connection', 'live')
    quiet = true
    await pull('/job')
    await says('section[aria-labelledby=last] tbody tr:first-child', 'succeeded')
    want(await page.evaluate(() => globalThis.untouched), 'the page was loaded anew')
  })
} finally {
  await browser.close()
}
