// The loss curve by Plotly, and the time cursor on a canvas above it.

import { colours } from "explorer/colours.js";
import { brief, digits, escaped } from "explorer/numbers.js";

const MARGIN = { l: 58, r: 14, t: 8, b: 40 };
const UNIT = " (one unit: 1/η steps of descent at rate η)";
const TITLES = { linear: "flow time t", log: "flow time t", ratio: "t / ln(1/γ)", rescaled: "rescaled time (1+α)t/2" };
const CLOSEST = 1e-4; // of the whole axis: no zoom goes further
const DASHES = ["dot", "dashdot", "longdash"];

export class Curve {
  // `scrubbed` is called with a place on the axis, from 0 to 1, `zoomed` with a part of it, or null for all.
  constructor(scrubbed, zoomed) {
    this.plot = document.getElementById("plot");
    this.canvas = document.getElementById("cursor");
    this.hover = document.getElementById("hover");
    Object.assign(this, { scrubbed, zoomed });
    this.run = this.beside = this.pointed = this.chosen = null;
    this.listen();
    new ResizeObserver(() => this.run && this.draw()).observe(this.plot);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.drawn()) return;
      canvas.setPointerCapture(event.pointerId);
      this.point(null);
      if (event.shiftKey) this.chosen = [this.under(event), this.under(event)];
      else this.scrubbed(this.under(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drawn()) return;
      if (!event.buttons) return this.point(event);
      if (!this.chosen) return this.scrubbed(this.under(event));
      this.chosen[1] = this.under(event);
      this.cursor(this.at);
    });
    canvas.addEventListener("pointerup", () => {
      if (!this.chosen) return;
      const [from, to] = [...this.chosen].sort((a, b) => a - b), [low, high] = this.range();
      this.chosen = null;
      if (to - from > 0.01) this.zoomed(this.within(low + from * (high - low), low + to * (high - low)));
      else this.cursor(this.at);
    });
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("dblclick", () => this.zoomed(null));
    // A plain wheel scrolls the page, as everywhere.
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey || !this.drawn()) return;
      event.preventDefault();
      this.zoom(2 ** (Math.sign(event.deltaY) / 2), this.under(event));
    }, { passive: false });
  }

  drawn() {
    return this.run && this.plot._fullLayout;
  }

  // The place on the axis that the pointer is over, from 0 to 1.
  under(event) {
    const axis = this.plot._fullLayout.xaxis;
    const place = event.clientX - this.canvas.getBoundingClientRect().left - axis._offset;
    return Math.min(1, Math.max(0, place / axis._length));
  }

  // Show more of the axis, or less, around a place on it.
  zoom(factor, around = Math.min(1, Math.max(0, this.place(this.at)))) {
    const [low, high] = this.range(), middle = low + around * (high - low);
    this.zoomed(this.within(middle - around * factor * (high - low), middle + (1 - around) * factor * (high - low)));
  }

  // A part of the axis, not beyond its ends and not too small; null for all of it.
  within(low, high) {
    const [first, last] = this.whole(), least = CLOSEST * (last - first);
    if (high - low >= last - first) return null;
    const size = Math.max(high - low, least), begin = Math.min(Math.max(low, first), last - size);
    return [begin, begin + size];
  }

  // Where a zoomed axis must move to show a saved time; null if that is seen already.
  following(index) {
    const at = this.place(index);
    if (!this.shown.zoom || (at >= 0 && at <= 1)) return null;
    const [low, high] = this.range(), move = (at < 0 ? at - 0.1 : at - 0.9) * (high - low);
    return this.within(low + move, high + move);
  }

  // A time on the chosen axis. The factors are the server's.
  on(axis, time, scales) {
    return axis === "ratio" ? time * scales.ratio : axis === "rescaled" ? time * scales.rescaled : time;
  }

  show(run, beside, plateaus, departure, shown) {
    Object.assign(this, { run, beside, plateaus, departure, shown });
    return this.draw();
  }

  // What is seen of an interval: its middle on the axis, and its width in pixels.
  seen(low, high) {
    const [first, last] = this.range(), log = this.shown.axis === "log";
    const [a, b] = [low, high].map((value) => Math.min(last, Math.max(first, log ? Math.log10(value) : value)));
    return { middle: (a + b) / 2, width: (b - a) / (last - first) * (this.plot.clientWidth - MARGIN.l - MARGIN.r) };
  }

  traces() {
    const { run, beside, shown } = this;
    const c = colours();
    const { times, losses } = run.arrays;
    const scales = run.head.scales;
    const own = scales.name;
    const stretched = (array, by) => Array.from(array, (t) => this.on(shown.axis, t, by));
    const traces = [];
    const others = beside?.head.curves ?? [];
    others.forEach((curve, i) => {
      const twin = curve.slope === 1;
      traces.push({
        x: stretched(beside.arrays[`${curve.key}_times`], curve.scales), y: beside.arrays[`${curve.key}_losses`],
        name: curve.name, mode: "lines",
        line: { color: twin ? c.twin : c.slopes[1 + (i % 4)], width: twin ? 2.2 : 2, dash: twin ? "dash" : "solid" },
      });
    });
    traces.push({
      x: stretched(times, scales), y: losses, name: own, mode: "lines", line: { color: c.run, width: 3 },
    });
    (beside?.head.predictions ?? []).forEach((prediction, i) => {
      traces.push({
        x: stretched(beside.arrays[`${prediction.key}_times`], scales), y: beside.arrays[`${prediction.key}_losses`],
        name: `predicted: ${prediction.name}`, mode: "lines",
        line: { color: c.theory, width: 2.4, dash: DASHES[i % DASHES.length] },
      });
    });
    if (shown.events && run.arrays.event_times) {
      traces.push({
        x: stretched(run.arrays.event_times, scales), y: Array(run.arrays.event_times.length).fill(0.02), yaxis: "y2",
        name: "events", mode: "markers",
        marker: { symbol: "line-ns-open", size: 9, color: c.quiet, line: { width: 1 } },
      });
    }
    return traces;
  }

  range() {
    const [first, last] = this.whole(), { zoom } = this.shown;
    return zoom && zoom[0] < last && zoom[1] > first ? [Math.max(zoom[0], first), Math.min(zoom[1], last)] : [first, last];
  }

  whole() {
    const { run, shown } = this;
    const { times } = run.arrays;
    const last = this.on(shown.axis, times.at(-1), run.head.scales);
    if (shown.axis !== "log") return [0, last];
    // Where the loss begins to move: before that a logarithmic axis has nothing to show.
    const first = times.find((t) => t > 0) ?? last;
    return [Math.log10(Math.max(first, last * 1e-5)), Math.log10(last)];
  }

  // Of the loss, for a linear axis: from zero, or what is seen of the curves where the axis of time is zoomed.
  height(traces) {
    const { run, shown } = this, [first, last] = this.range(), whole = this.whole();
    const most = run.arrays.losses.reduce((a, b) => Math.max(a, b), 0);
    if (first === whole[0] && last === whole[1]) return [0, 1.13 * most]; // room above for the names of plateaus
    let low = Infinity, high = -Infinity;
    for (const { x, y, mode } of traces) {
      if (mode !== "lines") continue;
      x.forEach((value, i) => {
        const at = shown.axis === "log" ? Math.log10(value) : value;
        if (at < first || at > last) return;
        low = Math.min(low, y[i]);
        high = Math.max(high, y[i]);
      });
    }
    if (!(low < high)) return [0, 1.13 * most];
    return [low - 0.06 * (high - low), high + 0.16 * (high - low)];
  }

  layout(traces) {
    const { run, shown } = this;
    const c = colours();
    const lossLog = shown.lossAxis === "log";
    const shapes = [], annotations = [];
    for (const [i, plateau] of (this.plateaus ?? []).entries()) {
      const name = `${i + 1} · ${plateau.name}`;
      const [x0, x1] = [plateau.begin, plateau.end].map((t) => this.on(shown.axis, t, run.head.scales));
      shapes.push({ type: "rect", x0, x1, y0: 0, y1: 1, yref: "paper", fillcolor: c.shade, line: { width: 0 }, layer: "below" });
      const { middle, width } = this.seen(x0, x1);
      if (width > 0) {
        annotations.push({
          x: middle, y: 0.985, yref: "paper", text: width < 6.3 * name.length ? `${i + 1}` : name, showarrow: false, yanchor: "top",
          font: { size: 11.5, color: c.quiet },
        });
      }
      if (plateau.predicted_end !== null) {
        const at = this.on(shown.axis, plateau.predicted_end, run.head.scales);
        shapes.push({ type: "line", x0: at, x1: at, y0: 0, y1: 0.88, yref: "paper", line: { color: c.theory, width: 1.6, dash: "dot" } });
      }
    }
    if (this.departure) {
      const at = this.on(shown.axis, this.departure.time, run.head.scales);
      shapes.push({ type: "line", x0: at, x1: at, y0: 0, y1: 0.8, yref: "paper", line: { color: c.theory, width: 2.4, dash: "longdash" } });
      annotations.push({
        x: shown.axis === "log" ? Math.log10(at) : at, y: 0.8, yref: "paper", text: "law of departure", showarrow: false,
        yanchor: "bottom", font: { size: 12, color: c.theory }, bgcolor: c.card,
      });
    }
    const axis = { gridcolor: c.grid, zeroline: false, linecolor: c.line, tickcolor: c.line, ticks: "outside", fixedrange: true };
    return {
      // The size is said, since to have Plotly look for it takes a second drawing.
      width: this.plot.clientWidth, height: this.plot.clientHeight, margin: MARGIN, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      font: { family: "system-ui, 'Segoe UI', Roboto, sans-serif", size: 12.5, color: c.ink },
      legend: { orientation: "h", x: 0, y: 1.005, yanchor: "bottom", font: { size: 12 }, bgcolor: "rgba(0,0,0,0)" },
      xaxis: { ...axis, type: shown.axis === "log" ? "log" : "linear", range: this.range(), title: { text: TITLES[shown.axis] + (this.plot.clientWidth > 480 && ["linear", "log"].includes(shown.axis) ? UNIT : ""), standoff: 6 } },
      yaxis: {
        ...axis, type: lossLog ? "log" : "linear", title: { text: `${run.head.loss} loss`, standoff: 6 }, exponentformat: "power",
        ...(lossLog ? { autorange: true } : { autorange: false, range: this.height(traces) }),
      },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
      shapes, annotations, hovermode: false, dragmode: false, uirevision: "one",
    };
  }

  async draw() {
    const traces = this.traces();
    await Plotly.react(this.plot, traces, this.layout(traces), { displayModeBar: false, responsive: false, staticPlot: true });
    this.legend();
    this.plot.setAttribute("aria-label", this.description());
    this.cursor(this.at ?? 0);
  }

  // Names of the curves, as words of the page: Plotly's own legend takes half of a small plot.
  legend() {
    const items = this.plot.data.filter(({ mode }) => mode === "lines").map(({ name, line }) => {
      const style = { solid: "solid", dash: "dashed" }[line.dash ?? "solid"] ?? "dotted";
      const item = document.createElement("li");
      item.innerHTML = `<i style="border-top: ${line.width}px ${style} ${line.color}"></i>`;
      item.append(name);
      return item;
    });
    if ((this.plateaus ?? []).some(({ predicted_end: end }) => end !== null)) {
      const item = document.createElement("li");
      item.innerHTML = `<i style="border-left: 2px dotted ${colours().theory}; width: 0; height: 1em"></i>predicted end of a plateau`;
      items.push(item);
    }
    document.getElementById("curve-legend").replaceChildren(...items);
  }

  description() {
    const { times, losses } = this.run.arrays;
    return `Loss from ${digits(losses[0], 4)} at t = 0 to ${digits(losses.at(-1), 4)} at t = ${digits(times.at(-1), 4)}`;
  }

  // Where a saved time is on the axis: from 0 to 1, and beyond where that is zoomed.
  place(index) {
    const value = this.on(this.shown.axis, this.run.arrays.times[index], this.run.head.scales);
    const [low, high] = this.range();
    const at = this.shown.axis === "log" ? Math.log10(Math.max(value, 1e-300)) : value;
    const place = (at - low) / (high - low || 1);
    return this.shown.zoom ? place : Math.min(1, Math.max(0, place));
  }

  // The curves' values at the saved times nearest to the pointer. Nothing is interpolated.
  point(event) {
    this.pointed = event && { share: this.under(event), curves: [] };
    this.hover.hidden = !event;
    if (event) {
      const [low, high] = this.range(), at = low + this.pointed.share * (high - low), log = this.shown.axis === "log";
      const lines = this.plot.data.filter(({ mode, x }) => mode === "lines" && x.length);
      this.pointed.curves = lines.map(({ x, y, name, line }) => {
        const i = nearest(x, log ? 10 ** at : at);
        return { x: x[i], y: y[i], name, colour: line.color };
      });
      this.describe(event);
    }
    this.cursor(this.at);
  }

  describe(event) {
    const unit = { ratio: "t/ln(1/γ)", rescaled: "(1+α)t/2" }[this.shown.axis] ?? "t";
    const rows = this.pointed.curves.map(({ x, y, name, colour }) =>
      `<tr><td><i style="background:${colour}"></i>${escaped(name)}</td><td><b>${digits(y)}</b></td><td>${unit} = ${brief(x)}</td></tr>`);
    const time = this.pointed.curves.find(({ name }) => name === this.run.head.scales.name)?.x;
    const on = (t) => this.on(this.shown.axis, t, this.run.head.scales);
    const at = (this.plateaus ?? []).findIndex(({ begin, end }) => on(begin) <= time && time <= on(end));
    const wait = at < 0 ? "" : `<p>Plateau ${at + 1}: ${escaped(this.plateaus[at].name)}</p>`;
    this.hover.innerHTML = `<table>${rows.join("")}</table>${wait}`;
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, right = x > box.width / 2;
    this.hover.style.left = right ? "auto" : `${x + 16}px`;
    this.hover.style.right = right ? `${box.width - x + 16}px` : "auto";
    this.hover.style.top = event.clientY - box.top > box.height / 2 ? "26px" : "auto";
    this.hover.style.bottom = event.clientY - box.top > box.height / 2 ? "auto" : "52px";
  }

  cursor(index) {
    this.at = index;
    const full = this.plot._fullLayout;
    if (!full || !this.run) return;
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const { xaxis, yaxis } = full, c = colours();
    const high = (loss) => yaxis._offset + yaxis.l2p(this.shown.lossAxis === "log" ? Math.log10(loss) : loss);
    this.drawChosen(context, xaxis, yaxis, c);
    this.drawPointed(context, xaxis, yaxis, high, c);
    const place = this.place(index);
    if (place < 0 || place > 1) return;
    const x = xaxis._offset + place * xaxis._length, y = high(this.run.arrays.losses[index]);
    context.strokeStyle = c.ink;
    context.globalAlpha = 0.55;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, yaxis._offset);
    context.lineTo(x, yaxis._offset + yaxis._length);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (!Number.isFinite(y)) return;
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.fillStyle = c.run;
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = c.card;
    context.stroke();
  }

  // The part that a drag with Shift has chosen so far.
  drawChosen(context, xaxis, yaxis, c) {
    if (!this.chosen) return;
    const [from, to] = this.chosen;
    context.fillStyle = c.accent;
    context.globalAlpha = 0.18;
    context.fillRect(xaxis._offset + from * xaxis._length, yaxis._offset, (to - from) * xaxis._length, yaxis._length);
    context.globalAlpha = 1;
  }

  drawPointed(context, xaxis, yaxis, high, c) {
    for (const { x, y, colour } of this.pointed?.curves ?? []) {
      const left = xaxis._offset + xaxis.l2p(this.shown.axis === "log" ? Math.log10(x) : x), top = high(y);
      if (!Number.isFinite(left + top) || left < xaxis._offset || left > xaxis._offset + xaxis._length) continue;
      context.beginPath();
      context.arc(left, top, 4, 0, 2 * Math.PI);
      context.fillStyle = c.card;
      context.fill();
      context.lineWidth = 2;
      context.strokeStyle = colour;
      context.stroke();
    }
  }
}

// Of increasing numbers, the place of the one nearest to a value.
function nearest(numbers, value) {
  let low = 0, high = numbers.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < value) low = middle;
    else high = middle;
  }
  return value - numbers[low] < numbers[high] - value ? low : high;
}
