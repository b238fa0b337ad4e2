// Points placed by hand: a canvas on which samples are added, dragged, relabelled, mirrored and removed.

import { colours } from "explorer/colours.js";
import { brief } from "explorer/numbers.js";

const NEAR = 14; // pixels
const MOST = 60;

export class Points {
  constructor(changed, upload) {
    this.changed = changed;
    this.samples = []; // {x, y, target}
    this.chosen = -1;
    this.label = 1;
    this.half = 1.5;
    this.element = document.createElement("div");
    this.element.innerHTML = `
      <canvas id="points" tabindex="0" role="application" aria-label="Samples; N and P choose a point, arrows move it, L relabels, A adds, Delete removes, M mirrors"></canvas>
      <div class="tools" role="group" aria-label="Samples">
        <div class="either" role="radiogroup" aria-label="Label of new points">
          <label><input type="radio" name="brush" value="1" checked><span class="mark plus"></span>+1</label>
          <label><input type="radio" name="brush" value="-1"><span class="mark minus"></span>−1</label>
        </div>
        <button type="button" data-tool="relabel" title="of the chosen point">Relabel</button>
        <button type="button" data-tool="mirror" title="add −x with the opposite label">Mirror</button>
        <button type="button" data-tool="remove">Remove</button>
        <button type="button" data-tool="file">Open CSV…</button>
        <input type="file" accept=".csv,.npz,.parquet" hidden>
      </div>
      <p class="hint" aria-live="polite"></p>`;
    this.canvas = this.element.querySelector("canvas");
    this.hint = this.element.querySelector(".hint");
    const file = this.element.querySelector("input[type=file]");
    this.element.addEventListener("click", (event) => {
      const tool = event.target.dataset?.tool;
      if (tool === "file") file.click();
      else if (tool) this[tool]();
    });
    this.element.addEventListener("change", (event) => {
      if (event.target.name === "brush") this.label = Number(event.target.value);
      event.stopPropagation();
    });
    file.addEventListener("change", () => file.files[0] && upload(file.files[0]));
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) this.canvas.addEventListener(kind, () => { this.dragged = false; });
    this.canvas.addEventListener("dblclick", () => this.relabel());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // Show samples of the server's; null where they are no points of a plane.
  show(editable) {
    this.element.querySelector(".tools").hidden = false;
    this.canvas.hidden = editable === null;
    for (const button of this.element.querySelectorAll("[data-tool]")) button.hidden = editable === null && button.dataset.tool !== "file";
    this.element.querySelector(".either").hidden = editable === null;
    if (editable === null) {
      this.samples = [];
      this.hint.textContent = "This set is not shown as points; its plane of principal directions is.";
      return;
    }
    if (this.dragged) return; // what is being dragged is newer than any answer
    this.samples = editable.inputs.map(([x, y], i) => ({ x, y, target: editable.targets[i] }));
    if (this.chosen >= this.samples.length) this.chosen = -1;
    const reach = Math.max(0.5, ...this.samples.flatMap(({ x, y }) => [Math.abs(x) / 1.25, Math.abs(y)]));
    if (reach * 1.15 > this.half || reach < 0.4 * this.half) this.half = 1.35 * reach;
    this.showHint();
    this.draw();
  }

  showHint(what) {
    const at = this.samples[this.chosen];
    this.hint.textContent = what ?? (at
      ? `Point ${this.chosen + 1} of ${this.samples.length}: (${brief(at.x)}, ${brief(at.y)}), target ${brief(at.target)}.`
      : "Click to place a point, drag to move it, double-click to change its label.");
  }

  write() {
    this.showHint();
    this.draw();
    this.changed(this.samples.map(({ x, y }) => [x, y]), this.samples.map(({ target }) => target));
  }

  sizes() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const unit = h / (2 * this.half);
    return { w, h, px: (x) => w / 2 + x * unit, py: (y) => h / 2 - y * unit, unit };
  }

  at(event) {
    const { w, h, unit } = this.sizes();
    const box = this.canvas.getBoundingClientRect();
    const round = (value) => Number(value.toFixed(Math.max(0, Math.ceil(Math.log10(unit)))));
    return { x: round((event.clientX - box.left - w / 2) / unit), y: round((h / 2 - (event.clientY - box.top)) / unit) };
  }

  down(event) {
    const { px, py } = this.sizes();
    const box = this.canvas.getBoundingClientRect();
    const place = [event.clientX - box.left, event.clientY - box.top];
    const far = this.samples.map(({ x, y }) => Math.hypot(px(x) - place[0], py(y) - place[1]));
    const nearest = far.indexOf(Math.min(...far));
    this.canvas.setPointerCapture(event.pointerId);
    if (nearest >= 0 && far[nearest] < NEAR) {
      this.chosen = nearest;
      this.showHint();
      this.draw();
    } else if (this.samples.length < MOST) {
      this.samples.push({ ...this.at(event), target: this.label });
      this.chosen = this.samples.length - 1;
      this.write();
    }
    this.dragged = true;
  }

  move(event) {
    if (!this.dragged || this.chosen < 0 || !event.buttons) return;
    const { x, y } = this.at(event), sample = this.samples[this.chosen];
    const inside = Math.abs(y) <= this.half && Math.abs(x) <= this.half * 1.25;
    if (!inside || (sample.x === x && sample.y === y)) return;
    Object.assign(sample, { x, y });
    this.write();
  }

  key(event) {
    const step = (event.shiftKey ? 0.1 : 0.01) * (this.half > 3 ? 5 : 1), count = this.samples.length;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    const acts = {
      n: () => this.choose((this.chosen + 1) % count), p: () => this.choose((this.chosen - 1 + count) % count),
      l: () => this.relabel(), m: () => this.mirror(), Delete: () => this.remove(), Backspace: () => this.remove(),
      a: () => this.add({ x: 0.5 * this.half, y: 0.5 * this.half, target: this.label }),
    };
    if (moves[event.key] && this.samples[this.chosen]) {
      const sample = this.samples[this.chosen];
      sample.x = Number((sample.x + moves[event.key][0]).toFixed(4));
      sample.y = Number((sample.y + moves[event.key][1]).toFixed(4));
      this.write();
    } else if (acts[event.key]) acts[event.key]();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  choose(index) {
    if (!this.samples.length) return;
    this.chosen = index;
    this.showHint();
    this.draw();
  }

  add(sample) {
    if (this.samples.length >= MOST) return;
    this.samples.push(sample);
    this.chosen = this.samples.length - 1;
    this.write();
  }

  relabel() {
    const sample = this.samples[this.chosen];
    if (!sample) return this.showHint("Choose a point first: click on it, or press N.");
    sample.target = sample.target ? -sample.target : 1;
    this.write();
  }

  remove() {
    if (!this.samples[this.chosen]) return this.showHint("Choose a point first: click on it, or press N.");
    this.samples.splice(this.chosen, 1);
    this.chosen = Math.min(this.chosen, this.samples.length - 1);
    this.write();
  }

  // Mirror images of points that have none yet.
  mirror() {
    const there = new Set(this.samples.map(({ x, y, target }) => `${x},${y},${target}`));
    const key = ({ x, y, target }) => `${x},${y},${target}`;
    const images = this.samples.map(({ x, y, target }) => ({ x: -x || 0, y: -y || 0, target: -target || 0 })).filter((image) => !there.has(key(image)));
    this.samples.push(...images.slice(0, MOST - this.samples.length));
    this.write();
  }

  draw() {
    const { canvas } = this, c = colours();
    if (!canvas.clientWidth || !c.ink) return;
    const ratio = devicePixelRatio || 1, { w, h, px, py } = this.sizes();
    Object.assign(canvas, { width: Math.round(w * ratio), height: Math.round(h * ratio) });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.strokeStyle = c.line;
    context.beginPath();
    const step = this.half > 8 ? 5 : this.half > 3 ? 1 : 0.5;
    for (let k = -Math.floor(1.3 * this.half / step); k <= 1.3 * this.half / step; k++) {
      context.moveTo(px(k * step), 0); context.lineTo(px(k * step), h);
      context.moveTo(0, py(k * step)); context.lineTo(w, py(k * step));
    }
    context.stroke();
    context.strokeStyle = c.quiet;
    context.beginPath();
    context.moveTo(px(0), 0); context.lineTo(px(0), h);
    context.moveTo(0, py(0)); context.lineTo(w, py(0));
    context.stroke();
    this.samples.forEach(({ x, y, target }, i) => {
      const radius = this.samples.length > 30 ? 4 : 7;
      context.beginPath();
      if (target >= 0) context.arc(px(x), py(y), radius, 0, 2 * Math.PI);
      else context.rect(px(x) - 0.88 * radius, py(y) - 0.88 * radius, 1.76 * radius, 1.76 * radius);
      context.fillStyle = target >= 0 ? c.plus : c.minus;
      context.fill();
      context.lineWidth = i === this.chosen ? 3 : 1.5;
      context.strokeStyle = i === this.chosen ? c.ink : c.card;
      context.stroke();
      context.lineWidth = 1;
    });
  }
}
