// Keeps a page live: the server sends the part that changes whenever it has, and htmx puts into the page what differs, so that focus and scrolling stay.
const main = document.getElementById('main')
const said = document.getElementById('connection')
let source

const say = (state, text) => {
  if (said.dataset.state !== state) {
    said.dataset.state = state
    said.textContent = text
  }
}

const connect = () => {
  source?.close()
  if (!main.dataset.live) return // what is shown now has no news
  const mine = (source = new EventSource(main.dataset.live))
  mine.onopen = () => say('live', 'live')
  mine.onmessage = (e) => {
    if (mine === source) htmx.swap({ text: e.data, target: main, sourceElement: main, swap: 'innerMorph' })
  }
  mine.onerror = async () => {
    if (mine !== source) return
    mine.close()
    say('lost', 'reconnecting …')
    const page = await fetch(location, { redirect: 'manual' }).catch(() => null)
    if (page?.type === 'opaqueredirect' || page?.status === 404) return location.reload() // the session has ended, or what the page is about is gone
    setTimeout(() => mine === source && connect(), 1000)
  }
}

if (main.dataset.live) {
  connect()
  new MutationObserver(connect).observe(main, { attributeFilter: ['data-live'] }) // another filter has another address
}
htmx.config.morphSkipChildren = '[data-kept]' // what is in it, a script has drawn
htmx.registerExtension('open', { htmx_before_morph_attr: (elt, { attrName }) => attrName !== 'open' }) // what is open, whoever looks has opened
