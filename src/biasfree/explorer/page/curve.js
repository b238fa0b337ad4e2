// The loss curve by Plotly, and the time cursor on a canvas above it.

import { colours } from "explorer/colours.js";
import { digits } from "explorer/numbers.js";

const MARGIN = { l: 58, r: 14, t: 8, b: 40 };
const TITLES = { linear: "flow time t", log: "flow time t", ratio: "t / ln(1/γ)", rescaled: "rescaled time (1+α)t/2" };
const DASHES = ["dot", "dashdot", "longdash"];

export class Curve {
  constructor(scrubbed) {
    this.plot = document.getElementById("plot");
    this.canvas = document.getElementById("cursor");
    this.scrubbed = scrubbed;
    this.run = this.beside = null;
    this.ready = Promise.resolve();
    const follow = (event) => {
      if (!this.run || !this.plot._fullLayout) return;
      const axis = this.plot._fullLayout.xaxis;
      const place = event.clientX - this.canvas.getBoundingClientRect().left - axis._offset;
      scrubbed(Math.min(1, Math.max(0, place / axis._length)));
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      follow(event);
    });
    this.canvas.addEventListener("pointermove", (event) => event.buttons && follow(event));
    new ResizeObserver(() => this.run && this.draw()).observe(this.plot);
  }

  // A time on the chosen axis. The factors are the server's.
  on(axis, time, scales) {
    return axis === "ratio" ? time * scales.ratio : axis === "rescaled" ? time * scales.rescaled : time;
  }

  show(run, beside, plateaus, departure, shown) {
    Object.assign(this, { run, beside, plateaus, departure, shown });
    return this.draw();
  }

  // Of an interval on the axis, in pixels.
  widthOf(low, high) {
    const [first, last] = this.range(), log = this.shown.axis === "log";
    const [a, b] = log ? [Math.log10(Math.max(low, 1e-9)), Math.log10(high)] : [low, high];
    return (Math.min(b, last) - Math.max(a, first)) / (last - first) * (this.plot.clientWidth - MARGIN.l - MARGIN.r);
  }

  traces() {
    const { run, beside, shown } = this;
    const c = colours();
    const { times, losses } = run.arrays;
    const scales = run.head.scales;
    const own = scales.name;
    const stretched = (array, by) => Array.from(array, (t) => this.on(shown.axis, t, by));
    const found = [];
    const others = beside?.head.curves ?? [];
    others.forEach((curve, i) => {
      const twin = curve.slope === 1;
      found.push({
        x: stretched(beside.arrays[`${curve.key}_times`], curve.scales), y: beside.arrays[`${curve.key}_losses`],
        name: curve.name, mode: "lines",
        line: { color: twin ? c.twin : c.slopes[1 + (i % 4)], width: twin ? 2.2 : 2, dash: twin ? "dash" : "solid" },
      });
    });
    found.push({
      x: stretched(times, scales), y: losses, name: own, mode: "lines", line: { color: c.run, width: 3 },
    });
    (beside?.head.predictions ?? []).forEach((prediction, i) => {
      found.push({
        x: stretched(beside.arrays[`${prediction.key}_times`], scales), y: beside.arrays[`${prediction.key}_losses`],
        name: `predicted: ${prediction.name}`, mode: "lines",
        line: { color: c.theory, width: 2.4, dash: DASHES[i % DASHES.length] },
      });
    });
    if (shown.events && run.arrays.event_times) {
      found.push({
        x: stretched(run.arrays.event_times, scales), y: Array(run.arrays.event_times.length).fill(0.02), yaxis: "y2",
        name: "events", mode: "markers",
        marker: { symbol: "line-ns-open", size: 9, color: c.quiet, line: { width: 1 } },
      });
    }
    return found;
  }

  range() {
    const { run, shown } = this;
    const { times } = run.arrays;
    const last = this.on(shown.axis, times.at(-1), run.head.scales);
    if (shown.axis !== "log") return [0, last];
    // Where the loss begins to move: before that a logarithmic axis has nothing to show.
    const first = times.find((t) => t > 0) ?? last;
    return [Math.log10(Math.max(first, last * 1e-5)), Math.log10(last)];
  }

  layout() {
    const { run, shown } = this;
    const c = colours();
    const lossLog = shown.lossAxis === "log";
    const shapes = [], annotations = [];
    for (const [i, plateau] of (this.plateaus ?? []).entries()) {
      const name = `${i + 1} · ${plateau.name}`;
      const [x0, x1] = [plateau.begin, plateau.end].map((t) => this.on(shown.axis, t, run.head.scales));
      shapes.push({ type: "rect", x0, x1, y0: 0, y1: 1, yref: "paper", fillcolor: c.shade, line: { width: 0 }, layer: "below" });
      annotations.push({
        x: shown.axis === "log" ? (Math.log10(Math.max(x0, 1e-9)) + Math.log10(x1)) / 2 : (x0 + x1) / 2, y: 0.985,
        yref: "paper", text: this.widthOf(x0, x1) < 6.3 * name.length ? `${i + 1}` : name, showarrow: false, yanchor: "top", font: { size: 11.5, color: c.quiet },
      });
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
      xaxis: { ...axis, type: shown.axis === "log" ? "log" : "linear", range: this.range(), title: { text: TITLES[shown.axis], standoff: 6 } },
      yaxis: {
        ...axis, type: lossLog ? "log" : "linear", title: { text: "loss", standoff: 6 }, exponentformat: "power",
        // Room above for the names of plateaus.
        ...(lossLog ? { autorange: true } : { autorange: false, range: [0, 1.13 * run.arrays.losses.reduce((a, b) => Math.max(a, b), 0)] }),
      },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
      shapes, annotations, hovermode: false, dragmode: false, uirevision: "one",
    };
  }

  async draw() {
    await Plotly.react(this.plot, this.traces(), this.layout(), { displayModeBar: false, responsive: false, staticPlot: true });
    this.legend();
    this.plot.setAttribute("aria-label", this.told());
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

  told() {
    const { times, losses } = this.run.arrays;
    return `Loss from ${digits(losses[0], 4)} at t = 0 to ${digits(losses.at(-1), 4)} at t = ${digits(times.at(-1), 4)}`;
  }

  // Where a saved time is on the axis, from 0 to 1.
  place(index) {
    const axis = this.plot._fullLayout?.xaxis;
    if (!axis) return 0;
    const value = this.on(this.shown.axis, this.run.arrays.times[index], this.run.head.scales);
    const [low, high] = this.range();
    const at = this.shown.axis === "log" ? Math.log10(Math.max(value, 1e-300)) : value;
    return Math.min(1, Math.max(0, (at - low) / (high - low || 1)));
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
    const { xaxis, yaxis } = full;
    const x = xaxis._offset + this.place(index) * xaxis._length;
    const loss = this.run.arrays.losses[index];
    const y = yaxis._offset + yaxis.l2p(this.shown.lossAxis === "log" ? Math.log10(loss) : loss);
    const c = colours();
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
}
