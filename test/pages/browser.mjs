// Looks at pages in a real browser and prints a line of JSON for what it sees of each.
// Usage: node browser.mjs FOLDER PAGE...   with TANDEM_BROWSER, the browser's path, and TANDEM_PICTURES, a folder for pictures, or "" for none.
import { mkdir } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import puppeteer from 'puppeteer-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']
const screens = {
  desktop: { width: 1280, height: 900, picture: 1500 },
  phone: { width: 360, height: 740, picture: 1480, isMobile: true, hasTouch: true, deviceScaleFactor: 1.5 },
}
const say = (line) => console.log(JSON.stringify(line))

const [folder, ...pages] = process.argv.slice(2)
const pictures = process.env.TANDEM_PICTURES
if (pictures) await mkdir(pictures, { recursive: true })
const browser = await puppeteer.launch({
  executablePath: process.env.TANDEM_BROWSER,
  pipe: true, // the browser ends with this program, however it ends
  args: process.getuid() === 0 ? ['--no-sandbox'] : [], // as root, in a container, the browser's sandbox does not start
})
try {
  for (const name of pages) await look(name)
} finally {
  await browser.close()
}

async function look(name) {
  const page = await browser.newPage()
  const url = pathToFileURL(join(folder, name)).href
  const requests = []
  page.on('request', (r) => { if (r.url() !== url) requests.push(r.url()) })
  await page.goto(url)
  for (const [screen, { picture, ...size }] of Object.entries(screens)) {
    await page.setViewport(size) // loads the page anew where it makes a phone of it
    await page.evaluate(axe)
    for (const scheme of ['light', 'dark']) {
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
      if (pictures) await take(page, join(pictures, `${name.replaceAll('/', '-').replace('.html', '')}-${screen}-${scheme}.png`), size.width, picture)
      say({ page: name, view: `${screen}, ${scheme}`, requests, ...(await page.evaluate(examine, rules, size.width)) })
    }
  }
  await page.emulateMediaType('print')
  const hidden = await page.evaluate(() =>
    [...document.querySelectorAll('details > :not(summary)')].filter((e) => !e.checkVisibility()).map((e) => e.textContent.slice(0, 80)))
  const pdf = Buffer.from(await page.pdf({ format: 'A4', preferCSSPageSize: true })).toString('latin1')
  say({ page: name, view: 'print', requests, hidden, sheets: pdf.match(/\/Type\s*\/Page\b/g)?.length ?? 0 })
  await page.close()
}

// take takes a picture of the upper part of a page.
async function take(page, path, width, most) {
  const height = await page.evaluate(() => document.documentElement.scrollHeight)
  await page.screenshot({ path, clip: { x: 0, y: 0, width, height: Math.min(height, most) }, captureBeyondViewport: true })
}

// examine runs in the page, with all its parts open.
async function examine(rules, width) {
  const closed = [...document.querySelectorAll('details:not([open])')]
  for (const d of closed) d.open = true
  const { scrollWidth } = document.scrollingElement
  const { violations } = await globalThis.axe.run(document, { runOnly: { type: 'tag', values: rules }, resultTypes: ['violations'] })
  for (const d of closed) d.open = false
  return {
    overflow: Math.max(0, scrollWidth - width),
    violations: violations.map((v) => `${v.id}: ${v.help}\n${v.nodes.map((n) => `${n.html}\n${n.failureSummary}`).join('\n')}`),
  }
}
