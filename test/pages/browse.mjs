// What the scripts that drive the console share: a browser that notes what is wrong, steps, and looking at a page in all its sizes. Arguments: URL [LEVER [TOKEN]].
import { mkdir } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
export const [url, lever, token] = process.argv.slice(2)
const pictures = process.env.TANDEM_PICTURES
if (pictures) await mkdir(pictures, { recursive: true })
export const browser = await puppeteer.launch({ executablePath: process.env.TANDEM_BROWSER, pipe: true, args: process.getuid() === 0 ? ['--no-sandbox'] : [] })
export const wrong = []
export const want = (holds, what) => { if (!holds) wrong.push(what) }
export const step = async (name, f) => {
  try {
    await f()
  } catch (e) {
    wrong.push(String(e))
  }
  console.log(JSON.stringify({ step: name, wrong: wrong.splice(0) }))
}
export const pull = (what) => fetch(lever + what).then((r) => { if (!r.ok) throw new Error(`${what}: ${r.status}`) })
export const page = await browser.newPage()
await page.setViewport({ width: 1440, height: 900 })
let quiet = true // or else what the browser says is no fault: the gateway is away, or an answer is to be an error
export const mayComplain = (may) => { quiet = !may }
const loud = (text) => { if (quiet) wrong.push(text) }
page.on('request', (r) => { if (!r.url().startsWith(url + '/console/')) loud(`it asks for ${r.url()}`) })
page.on('console', (m) => { if (['error', 'warn'].includes(m.type())) loud(`the browser says ${m.text()}`) })
page.on('pageerror', (e) => loud(`a script failed: ${e}`))
let asked // what to answer if a page asks whether to go on
export const willAccept = () => { asked = true }
page.on('dialog', (d) => {
  if (asked) {
    asked = false
    return d.accept()
  }
  wrong.push(`it opened ${d.message()}`)
  d.dismiss()
})
export const text = (selector) => page.$eval(selector, (e) => e.textContent.trim())
export const says = (selector, words) => page.waitForFunction((s, w) => document.querySelector(s)?.textContent.includes(w), { timeout: 20_000 }, selector, words)
  .catch(async () => { throw new Error(`${selector} does not say ${words}, but ${(await text(selector).catch(() => 'is not there')).slice(0, 1500)}`) })

export async function lookAt(name) {
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

// signInAs begins a session with a token, in place of the one before.
export async function signInAs(token) {
  await browser.deleteCookie(...(await browser.cookies()))
  await page.goto(url + '/console/sign-in')
  await page.type('#token', token)
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
  want(page.url().endsWith('/console/'), `with a token it is at ${page.url()}`)
}

// leave does what leads to another page, and waits until that is there; a change of the address alone is none.
export async function leave(act) {
  await page.evaluate(() => { globalThis.stays = true })
  await act()
  await page.waitForFunction(() => !globalThis.stays && document.readyState === 'complete', { timeout: 20_000 })
}

// focusOn goes on with the Tab key until an element has the focus.
export async function focusOn(selector) {
  for (let i = 0; i < 60; i++) {
    if (await page.evaluate((s) => document.activeElement?.matches(s), selector)) return
    await page.keyboard.press('Tab')
  }
  want(false, `the keyboard does not reach ${selector}`)
}
