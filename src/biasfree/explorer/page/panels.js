// The network at one saved time: outputs over a plane, neurons as arrows, outputs against targets. All on canvas.

import { bar, colours } from "explorer/colours.js";
import { brief } from "explorer/numbers.js";

const PIXELS = 128; // of the output map, enlarged smoothly

// As large as the page shows it, or as `side` says of one that is drawn for a picture to take away.
function sized(canvas) {
  const ratio = canvas.side ? 2 : Math.min(devicePixelRatio || 1, 2);
  const [w, h] = canvas.side ? [canvas.side, canvas.side] : [canvas.clientWidth, canvas.clientHeight];
  const width = Math.round(w * ratio), height = Math.round(h * ratio);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, w, h };
}

export class Panels {
  constructor() {
    for (const name of ["map", "neurons", "outputs"]) this[name] = document.getElementById(name);
    this.small = document.createElement("canvas");
    this.small.width = this.small.height = PIXELS;
    this.image = this.small.getContext("2d").createImageData(PIXELS, PIXELS);
    this.run = null;
    new ResizeObserver(() => this.run && this.draw(this.frame)).observe(document.querySelector(".panels"));
  }

  show(run, shown) {
    if (run !== this.run) this.look = null;
    Object.assign(this, { run, shown });
    document.getElementById("outputs-figure").hidden = run.head.samples.dim - (run.head.plane.kind === "stacked ones") <= 2;
    // Samples are distinguished by their sign where they are labels, else by shade.
    this.labels = run.arrays.targets.every((y) => Math.abs(y) === 1);
    this.legends();
  }

  legends() {
    const { head } = this.run;
    const marks = '<span class="marked"><span class="mark plus"></span>positive,</span> <span class="marked"><span class="mark minus"></span>negative</span>';
    const { neurons, plane, samples } = head;
    const shownNeurons = neurons.shown < neurons.all ? `${neurons.shown} of ${neurons.all}` : `${neurons.all}`;
    const grows = this.shown.arrowScale === "log"
      ? `from ${brief(10 ** neurons.smallest)} to ${brief(10 ** neurons.largest)}` : `up to ${brief(10 ** neurons.largest)}`;
    const inPlane = neurons.reach < 0.999 ? " Drawn as far as they lie in this plane." : "";
    const lines = head.boundaries.length ? " Grey lines: where a neuron's response to a sample switches." : "";
    document.getElementById("neurons-legend").innerHTML =
      `${shownNeurons} neurons, by the sign of ${neurons.sign_of}: ${marks}. Length ${this.shown.arrowScale === "log" ? "by log ‖w‖" : "‖w‖"}, ${grows}.${lines}${inPlane}`;
    const of = plane.kind === "principal directions" ? `first two principal directions of ${samples.dim}` : plane.kind === "stacked ones" ? "where the stacked input is one" : "";
    this.planeNote = [of, samples.shown < samples.all ? `${samples.shown} of ${samples.all} samples shown` : ""].filter(Boolean).join("; ");
    document.getElementById("outputs-legend").textContent =
      "Each sample's output over its target; on the line they agree.";
  }

  draw(frame) {
    if (!this.run) return;
    this.frame = frame;
    this.drawMap(frame);
    this.drawNeurons(frame);
    if (!document.getElementById("outputs-figure").hidden) this.drawOutputs(frame);
  }

  // Titles and canvases of what is shown now, drawn anew as squares.
  pictures(side) {
    const shown = ["map", "neurons", "outputs"].filter((name) => this[name].offsetParent), own = {};
    for (const name of shown) {
      own[name] = this[name];
      this[name] = Object.assign(document.createElement("canvas"), { side });
    }
    this.draw(this.frame);
    return shown.map((name) => {
      const canvas = this[name];
      this[name] = own[name];
      return { title: own[name].closest("figure").querySelector("h2").textContent, canvas };
    });
  }

  row(name, frame) {
    const array = this.run.arrays[name];
    const size = array.length / array.shape[0];
    return array.subarray(frame * size, (frame + 1) * size);
  }

  // Where each pixel takes its value from: f(x) = ‖x‖ f(x/‖x‖) on a plane through the origin, a grid elsewhere.
  lookup(w, h) {
    if (this.look && this.look.w === w && this.look.h === h) return this.look;
    const { half, homogeneous } = this.run.head.plane;
    const values = this.row("surface", 0).length;
    const reachX = half * Math.max(1, w / h), reachY = half * Math.max(1, h / w);
    const first = new Int32Array(PIXELS * PIXELS), second = new Int32Array(PIXELS * PIXELS);
    const share = new Float32Array(PIXELS * PIXELS), factor = new Float32Array(PIXELS * PIXELS).fill(1);
    const up = new Int32Array(PIXELS * PIXELS), upShare = new Float32Array(PIXELS * PIXELS);
    const side = Math.round(Math.sqrt(values));
    for (let j = 0, k = 0; j < PIXELS; j++) {
      for (let i = 0; i < PIXELS; i++, k++) {
        const x = (2 * (i + 0.5) / PIXELS - 1) * reachX, y = (1 - 2 * (j + 0.5) / PIXELS) * reachY;
        if (homogeneous) {
          const turn = (Math.atan2(y, x) / (2 * Math.PI) + 1) % 1 * values;
          first[k] = Math.floor(turn) % values;
          second[k] = (first[k] + 1) % values;
          share[k] = turn - Math.floor(turn);
          factor[k] = Math.hypot(x, y);
        } else if (Math.max(Math.abs(x), Math.abs(y)) > half) {
          first[k] = -1; // nothing is known there
        } else {
          const at = (value) => Math.min(side - 1, Math.max(0, (value / half + 1) / 2 * (side - 1)));
          const column = at(x), row = at(y);
          first[k] = Math.floor(row) * side + Math.floor(column);
          second[k] = first[k] + (column < side - 1 ? 1 : 0);
          share[k] = column - Math.floor(column);
          up[k] = row < side - 1 ? side : 0;
          upShare[k] = row - Math.floor(row);
        }
      }
    }
    this.look = { w, h, reachX, reachY, first, second, share, factor, up, upShare, side };
    return this.look;
  }

  limit(largest) {
    const { targets } = this.run.arrays;
    const ofTargets = targets.reduce((most, y) => Math.max(most, Math.abs(y)), 0) || 1;
    if (this.shown.mapScale === "targets") return ofTargets;
    const reach = this.run.head.plane.homogeneous ? this.run.head.plane.half : 1;
    return largest * reach || 1e-300;
  }

  drawMap(frame) {
    const { context, w, h } = sized(this.map);
    if (!w) return;
    const values = this.row("surface", frame), look = this.lookup(w, h), c = colours();
    // Values come in units of the frame's largest.
    const largest = this.run.arrays.largest[frame], limit = this.limit(largest), shown = largest / limit, pixels = this.image.data, scale = c.scale;
    const across = (k, shift) => values[look.first[k] + shift] * (1 - look.share[k]) + values[look.second[k] + shift] * look.share[k];
    for (let k = 0; k < PIXELS * PIXELS; k++) {
      if (look.first[k] < 0) {
        pixels.set([...c.outside, 255], 4 * k);
        continue;
      }
      const f = look.up[k]
        ? across(k, 0) * (1 - look.upShare[k]) + across(k, look.up[k]) * look.upShare[k]
        : look.factor[k] * across(k, 0);
      const shade = 255 + Math.max(-255, Math.min(255, Math.round(255 * f * shown)));
      pixels[4 * k] = scale[3 * shade];
      pixels[4 * k + 1] = scale[3 * shade + 1];
      pixels[4 * k + 2] = scale[3 * shade + 2];
      pixels[4 * k + 3] = 255;
    }
    this.small.getContext("2d").putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = true;
    context.drawImage(this.small, 0, 0, w, h);
    const px = (x) => (x / look.reachX + 1) / 2 * w, py = (y) => (1 - y / look.reachY) / 2 * h;
    cross(context, w, h, c);
    this.boundary(context, values, look, px, py, w, h, c);
    this.points(context, px, py, c);
    ticks(context, w, h, look.reachX, look.reachY, this.run.head.plane.names, c);
    const max = brief(limit);
    document.getElementById("map-legend").innerHTML =
      `f: −${max}<span class="bar" style="background:${bar()}"></span>${max}. Line: decision boundary.${this.planeNote ? ` ${this.planeNote[0].toUpperCase()}${this.planeNote.slice(1)}.` : ""}`;
  }

  boundary(context, values, look, px, py, w, h, c) {
    context.strokeStyle = c.ink;
    context.lineWidth = 2;
    context.beginPath();
    if (this.run.head.plane.homogeneous) {
      const far = 2 * Math.max(look.reachX, look.reachY);
      for (let i = 0; i < values.length; i++) {
        const a = values[i], b = values[(i + 1) % values.length];
        if ((a < 0 && b > 0) || (a > 0 && b < 0)) {
          const angle = 2 * Math.PI * (i + a / (a - b)) / values.length;
          context.moveTo(px(0), py(0));
          context.lineTo(px(far * Math.cos(angle)), py(far * Math.sin(angle)));
        }
      }
    } else {
      contour(values, look.side, this.run.head.plane.half, (x0, y0, x1, y1) => {
        context.moveTo(px(x0), py(y0));
        context.lineTo(px(x1), py(y1));
      });
    }
    context.stroke();
  }

  points(context, px, py, c) {
    const { samples, targets } = this.run.arrays;
    const radius = targets.length > 60 ? 3 : 6.5;
    const most = targets.reduce((m, y) => Math.max(m, Math.abs(y)), 0) || 1;
    for (let i = 0; i < targets.length; i++) {
      const [x, y] = [px(samples[2 * i]), py(samples[2 * i + 1])];
      context.beginPath();
      if (targets[i] >= 0) context.arc(x, y, radius, 0, 2 * Math.PI);
      else context.rect(x - 0.88 * radius, y - 0.88 * radius, 1.76 * radius, 1.76 * radius);
      context.globalAlpha = this.labels ? 1 : 0.25 + 0.75 * Math.abs(targets[i]) / most;
      context.fillStyle = targets[i] >= 0 ? c.plus : c.minus;
      context.fill();
      context.globalAlpha = 1;
      context.lineWidth = radius > 4 ? 2 : 1;
      context.strokeStyle = c.card;
      context.stroke();
    }
  }

  drawNeurons(frame) {
    const { context, w, h } = sized(this.neurons);
    if (!w) return;
    const c = colours(), { neurons, boundaries } = this.run.head;
    const directions = this.row("directions", frame), sizes = this.row("sizes", frame), signs = this.row("signs", frame);
    const [x0, y0] = [w / 2, h / 2], reach = Math.min(w, h) / 2 - 12;
    context.fillStyle = c.field;
    context.fillRect(0, 0, w, h);
    context.lineWidth = 1;
    context.strokeStyle = c.line;
    const rings = this.rings();
    for (const { part } of rings) {
      context.beginPath();
      context.arc(x0, y0, reach * part, 0, 2 * Math.PI);
      context.stroke();
    }
    context.strokeStyle = c.quiet;
    context.globalAlpha = boundaries.length > 30 ? 0.18 : 0.45;
    context.beginPath();
    for (const angle of boundaries) {
      const [dx, dy] = [2 * reach * Math.cos(angle), -2 * reach * Math.sin(angle)];
      context.moveTo(x0 - dx, y0 - dy);
      context.lineTo(x0 + dx, y0 + dy);
    }
    context.stroke();
    context.globalAlpha = 1;
    const span = neurons.largest - neurons.smallest;
    for (let i = 0; i < signs.length; i++) {
      const share = sizes[i] / neurons.units;
      // On the logarithmic scale a sixth of the radius is left to the smallest, so that its direction can be seen.
      const length = reach * (this.shown.arrowScale === "log" ? 1 / 6 + 5 / 6 * share : 10 ** ((share - 1) * span));
      const [dx, dy] = [directions[2 * i], -directions[2 * i + 1]].map((part) => part / neurons.units / neurons.reach);
      arrow(context, x0, y0, x0 + length * dx, y0 + length * dy, signs[i], c, share);
    }
    for (const { part, label } of rings) written(context, label, x0 + 0.8 * reach * part, y0 - 0.6 * reach * part, c, "center");
    const { names } = this.run.head.plane;
    written(context, names[0], w - 6, y0 - 6, c, "right");
    written(context, names[1], x0 + 6, 14, c);
  }

  // Circles of equal ‖w‖: parts of the radius, and what they stand for.
  rings() {
    const { smallest, largest } = this.run.head.neurons, span = largest - smallest;
    if (this.shown.arrowScale !== "log") return [1 / 3, 2 / 3, 1].map((part) => ({ part, label: brief(part * 10 ** largest) }));
    const step = Math.max(1, Math.ceil(span / 4)), rings = [];
    for (let e = Math.ceil(smallest / step) * step; e <= largest; e += step) {
      rings.push({ part: 1 / 6 + 5 / 6 * (e - smallest) / span, label: e >= -3 && e <= 3 ? brief(10 ** e) : `1e${e}` });
    }
    return rings.length ? rings : [{ part: 1, label: brief(10 ** largest) }];
  }

  drawOutputs(frame) {
    const { context, w, h } = sized(this.outputs);
    if (!w) return;
    const c = colours(), outputs = this.row("outputs", frame), { targets } = this.run.arrays;
    const most = 1.1 * Math.max(...targets.map(Math.abs), 1e-9);
    const px = (x) => (x / most + 1) / 2 * w, py = (y) => (1 - y / most) / 2 * h;
    context.fillStyle = c.field;
    context.fillRect(0, 0, w, h);
    cross(context, w, h, c);
    context.strokeStyle = c.quiet;
    context.globalAlpha = 0.5;
    context.beginPath();
    context.moveTo(0, h); context.lineTo(w, 0);
    context.stroke();
    for (let i = 0; i < targets.length; i++) {
      context.beginPath();
      context.globalAlpha = 0.75;
      context.fillStyle = targets[i] >= 0 ? c.plus : c.minus;
      if (targets[i] >= 0) context.arc(px(targets[i]), py(outputs[i]), 3.4, 0, 2 * Math.PI);
      else context.rect(px(targets[i]) - 3, py(outputs[i]) - 3, 6, 6);
      context.fill();
    }
    context.globalAlpha = 1;
    ticks(context, w, h, most, most, ["target y", "output f(x)"], c);
  }
}

// Two lines through the origin.
function cross(context, w, h, c) {
  context.strokeStyle = c.quiet;
  context.globalAlpha = 0.35;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(0, h / 2); context.lineTo(w, h / 2);
  context.moveTo(w / 2, 0); context.lineTo(w / 2, h);
  context.stroke();
  context.globalAlpha = 1;
}

// Numbers along the lower and the left edge, and the names of the axes.
function ticks(context, w, h, reachX, reachY, names, c) {
  const step = round(Math.min(reachX, reachY) / 1.7);
  const mark = (x0, y0, x1, y1) => {
    Object.assign(context, { strokeStyle: c.ink, lineWidth: 1 });
    context.beginPath();
    context.moveTo(x0, y0); context.lineTo(x1, y1);
    context.stroke();
  };
  for (let k = -Math.floor(reachX / step); k <= reachX / step; k++) {
    const x = (k * step / reachX + 1) / 2 * w;
    if (x < 34 || x > w - 34) continue;
    mark(x, h - 5, x, h);
    written(context, brief(k * step), x, h - 8, c, "center");
  }
  for (let k = -Math.floor(reachY / step); k <= reachY / step; k++) {
    const y = (1 - k * step / reachY) / 2 * h;
    if (y < 26 || y > h - 26) continue;
    mark(0, y, 5, y);
    written(context, brief(k * step), 8, y + 4, c);
  }
  written(context, names[0], w - 6, h - 8, c, "right");
  written(context, names[1], 6, 14, c);
}

// 1, 2 or 5 times a power of ten, not above a value.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [5, 2, 1].find((m) => m * power <= value * (1 + 1e-9)) * power;
}

// Small words that can be read on any colour.
function written(context, text, x, y, c, align = "left") {
  context.font = "12px system-ui, sans-serif";
  context.textAlign = align;
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeStyle = c.card;
  context.globalAlpha = 0.65;
  context.strokeText(text, x, y);
  context.globalAlpha = 1;
  context.fillStyle = c.ink;
  context.fillText(text, x, y);
}

// Filled heads for positive signs, open ones for negative.
function arrow(context, x0, y0, x1, y1, sign, c, share) {
  const colour = sign > 0 ? c.plus : sign < 0 ? c.minus : c.quiet;
  const angle = Math.atan2(y1 - y0, x1 - x0), size = 6;
  context.strokeStyle = context.fillStyle = colour;
  context.globalAlpha = 0.45 + 0.5 * share;
  context.lineWidth = 1 + 1.2 * share;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - size * Math.cos(angle - 0.45), y1 - size * Math.sin(angle - 0.45));
  context.lineTo(x1 - size * Math.cos(angle + 0.45), y1 - size * Math.sin(angle + 0.45));
  context.closePath();
  if (sign > 0) context.fill();
  else {
    context.fillStyle = c.field;
    context.fill();
    context.stroke();
  }
  context.globalAlpha = 1;
}

// Zero line of values on a square grid, cell by cell.
function contour(values, side, half, segment) {
  const at = (i) => (2 * i / (side - 1) - 1) * half;
  for (let j = 0; j + 1 < side; j++) {
    for (let i = 0; i + 1 < side; i++) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const f = corners.map(([a, b]) => values[b * side + a]);
      const crossed = [];
      for (let k = 0; k < 4; k++) {
        const l = (k + 1) % 4;
        if (f[k] * f[l] < 0) {
          const share = f[k] / (f[k] - f[l]);
          crossed.push(at(corners[k][0] + share * (corners[l][0] - corners[k][0])), at(corners[k][1] + share * (corners[l][1] - corners[k][1])));
        }
      }
      for (let k = 0; k + 3 < crossed.length; k += 4) segment(...crossed.slice(k, k + 4));
    }
  }
}
