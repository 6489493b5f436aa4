// Draws each element with data-plot, the data of which the server sends again and again: numbers of steps, in lines.
/* global uPlot */
const plots = new Map()
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const height = 140

const read = (element) => {
  const { From, Step, Span, Values } = JSON.parse(element.dataset.plot)
  const times = Values[0].map((_, i) => From + i * Step)
  const end = times.at(-1)
  return { range: [end - Span, end], data: [times, ...Values] }
}

const draw = (element) => {
  const { range, data } = read(element)
  const known = plots.get(element)
  if (known) {
    known.range = range
    known.plot.setData(data)
    return
  }
  const now = { range }
  const soft = colour('--soft')
  const line = colour('--line')
  const font = '12px system-ui, sans-serif'
  const axis = { stroke: soft, font, ticks: { show: false }, grid: { stroke: line, width: 1 } }
  now.plot = new uPlot({
    width: element.clientWidth, height, legend: { show: false }, cursor: { show: false }, padding: [8, 18, 0, 0],
    scales: { x: { range: () => now.range }, y: { range: (_, least, most) => [0, Math.max(4, most * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 24, values: (_, ticks) => ticks.map((t) => clock.format(t * 1000)) },
      { ...axis, size: 40, space: 36, values: (_, ticks) => ticks.map((t) => t.toLocaleString('en')) },
    ],
    series: [{}, ...data.slice(1).map((_, i) => {
      const stroke = colour(`--line-${i}`)
      return { stroke, width: 2, dash: i ? [4, 3] : undefined, fill: i ? undefined : stroke + '22', points: { show: false } }
    })],
  }, data, element)
  plots.set(element, now)
}

const all = () => {
  for (const [element, { plot }] of plots) {
    if (!element.isConnected) {
      plot.destroy()
      plots.delete(element)
      sizes.unobserve(element)
    }
  }
  for (const element of document.querySelectorAll('[data-plot]')) {
    if (!plots.has(element)) sizes.observe(element)
    draw(element)
  }
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) plots.get(target)?.plot.setSize({ width: target.clientWidth, height })
})

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { plot } of plots.values()) plot.destroy()
  plots.clear()
  all()
})

new MutationObserver(all).observe(document.getElementById('main'), { subtree: true, childList: true, attributeFilter: ['data-plot'] })
all()
