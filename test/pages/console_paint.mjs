// Says how fast a real browser has the console's pages: node console_paint.mjs URL.
import puppeteer from 'puppeteer-core'

const url = process.argv[2]
const browser = await puppeteer.launch({ executablePath: process.env.TANDEM_BROWSER, pipe: true, args: process.getuid() === 0 ? ['--no-sandbox'] : [] })
const seen = []
for (const path of ['', 'jobs', 'jobs?state=dead+letter&error=broke', 'queues']) {
  const times = []
  let nodes
  for (let i = 0; i < 5; i++) {
    const page = await (await browser.createBrowserContext()).newPage()
    await page.goto(`${url}/console/${path}`, { waitUntil: 'load' })
    times.push(await page.evaluate(() => new Promise((done) => new PerformanceObserver((list) => {
      const first = list.getEntriesByName('first-contentful-paint')[0]
      if (first) done(first.startTime)
    }).observe({ type: 'paint', buffered: true }))))
    nodes = await page.$$eval('*', (list) => list.length)
    await page.close()
  }
  times.sort((a, b) => a - b)
  seen.push(`/console/${path} ${times[2].toFixed(0)} ms, ${nodes} nodes`)
}
await browser.close()
console.log(`first paint, median of five: ${seen.join('; ')}`)
