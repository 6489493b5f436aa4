// Keeps a page live: the server sends the part that changes whenever it has, and of it only what differs is put into the page, so that focus and scrolling stay.
const main = document.getElementById('main')
const said = document.getElementById('connection')

const say = (state, text) => {
  if (said.dataset.state !== state) {
    said.dataset.state = state
    said.textContent = text
  }
}

const morph = (now, next) => {
  if (now.isEqualNode(next)) return
  if (now.nodeName !== next.nodeName || now.nodeType !== Node.ELEMENT_NODE) return now.replaceWith(next)
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name) && name !== 'open') now.removeAttribute(name) // what is open, whoever looks has opened
  for (const { name, value } of next.attributes) now.setAttribute(name, value)
  if (!next.hasAttribute('data-kept')) morphChildren(now, next) // what is in it, a script has drawn
}

const morphChildren = (now, next) => {
  const here = [...now.childNodes]
  const there = [...next.childNodes]
  there.forEach((node, i) => (here[i] ? morph(here[i], node) : now.append(node)))
  here.slice(there.length).forEach((node) => node.remove())
}

const connect = () => {
  const source = new EventSource(main.dataset.live)
  source.onopen = () => say('live', 'live')
  source.onmessage = (e) => {
    const next = document.createElement('template')
    next.innerHTML = e.data
    morphChildren(main, next.content)
  }
  source.onerror = async () => {
    source.close()
    say('lost', 'reconnecting …')
    const page = await fetch(location, { redirect: 'manual' }).catch(() => null)
    if (page?.type === 'opaqueredirect') return location.reload() // the session has ended
    setTimeout(connect, 1000)
  }
}

if (main.dataset.live) connect()
