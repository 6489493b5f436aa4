// Says whether the page is live. The page itself is htmx's and the server's.
const said = document.getElementById('connection')
const say = (state, text) => {
  if (said && said.dataset.state !== state) {
    said.dataset.state = state
    said.textContent = text
  }
}
document.addEventListener('htmx:sse:after:connection', () => say('live', 'live'))
document.addEventListener('htmx:sse:error', () => say('lost', 'reconnecting …'))
document.addEventListener('htmx:sse:before:connection', (e) => {
  const { connection } = e.detail
  if (connection.attempt > 0) say('lost', 'reconnecting …')
  connection.config.reconnectMaxDelay = 5000
})
