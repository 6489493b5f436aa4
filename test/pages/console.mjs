// Drives the console in a real browser: node console.mjs URL [LEVER [TOKEN]], of which LEVER is where the test has jobs done (/job) and the gateway stopped and started
// (/stop, /start); with a token it signs in first, and without a lever it only looks. Prints a line of JSON for each step: what went wrong, if anything did.
import { browser, lever, lookAt, mayComplain, page, pull, says, step, text, token, url, want } from './browse.mjs'

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
  if (!lever) await step('looks at the other pages', async () => {
    for (const name of ['jobs', 'grading', 'queues', 'machines', 'usage', 'try']) {
      await page.goto(`${url}/console/${name}`)
      if (name !== 'try') await says('#connection', 'live')
      await lookAt(name)
    }
    await page.goto(`${url}/console/grading/homework-4`)
    await says('#main', 'Report of the class')
    await lookAt('class')
    await page.goto(`${url}/console/jobs?method=disaggregated`)
    await Promise.all([page.waitForNavigation(), page.click('table.jobs tbody a')])
    await says('#connection', 'live')
    await lookAt('job')
  })
  if (lever) await step('a gateway that is away for a while', async () => {
    mayComplain(true)
    await pull('/stop')
    await says('#connection', 'reconnecting')
    await pull('/start')
    await says('#connection', 'live')
    mayComplain(false)
    await pull('/job')
    await says('section[aria-labelledby=last] tbody tr:first-child', 'succeeded')
    want(await page.evaluate(() => globalThis.untouched), 'the page was loaded anew')
  })
} finally {
  await browser.close()
}
