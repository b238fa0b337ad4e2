// The left column: every control is made from one line of a table, and writes one field of the view.

import { brief } from "explorer/numbers.js";

const NAMES = {
  "six-points": "Six points", "orthogonal-pair": "Orthogonal pair", xor: "XOR", "depth-separation": "Depth separation (Eq. 3)",
  separable: "Separable, two classes", "symmetric-gaussian": "Symmetric Gaussian, linear target",
  "linear-plus-sine": "Symmetric Gaussian, wᵀx + sin 4wᵀx", digits: "Digits 0 and 1", points: "My own points", file: "",
};

// Positions of sliders are whole numbers; a table of stops, or a function of the position, gives the value.
const stops = (values) => ({
  max: values.length - 1, value: (i) => values[i],
  position: (v) => values.reduce((best, each, i) => (near(each, v) < near(values[best], v) ? i : best), 0),
});
const near = (a, b) => Math.abs(Math.log((Math.abs(a) + 1e-200) / (Math.abs(b) + 1e-200)));
const even = (low, high, step) => ({
  max: Math.round((high - low) / step), value: (i) => Number((low + i * step).toFixed(6)), position: (v) => Math.round((v - low) / step),
});
const decades = (low, high, marks) => {
  const values = [];
  for (let e = low; e <= high; e++) for (const m of marks) values.push(Number(`${m}e${e}`));
  return stops(values.filter((v) => v <= Number(`1e${high}`)));
};
const scales = () => {
  const exponents = [];
  for (let e = 1; e <= 12; e += 0.5) exponents.push(e);
  for (let e = 14; e <= 30; e += 2) exponents.push(e);
  for (let e = 35; e <= 100; e += 5) exponents.push(e);
  return stops(exponents.map((e) => (Number.isInteger(e) ? Number(`1e-${e}`) : Number((10 ** -e).toPrecision(2)))));
};

const ROWS = [
  { group: "Data", kind: "select", field: "data", label: "data set", wide: true },
  // Before what only some sets have: nothing may move under a point that is being dragged.
  { group: "Data", kind: "points" },
  { group: "Data", kind: "slider", field: "offset", label: "sixth point’s offset", slider: even(0, 1, 0.01), fallback: 0.15, takes: true },
  { group: "Data", kind: "slider", field: "dim", label: "dimensions", slider: stops([2, 3, 4, 5, 7, 10, 15, 20, 30, 50]), fallback: { separable: 2, other: 20 }, takes: true },
  { group: "Data", kind: "slider", field: "pairs", label: "pairs ±x", slider: stops([5, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000]), fallback: { "depth-separation": 100, other: 1000 }, takes: true },
  { group: "Data", kind: "seed", field: "data_seed", label: "seed of the data", takes: true },
  { group: "Data", kind: "tick", field: "whiten", label: "whiten the inputs, Σ = I", takes: true },
  { group: "Data", kind: "tick", field: "mirrored", label: "mirror: add (−x, −y)" },
  { group: "Data", kind: "tick", field: "ones", label: "stack a one: [x, 1]" },
  { group: "Network", kind: "slider", field: "width", label: "width", slider: stops([1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 80, 100, 130, 160, 200, 250, 300, 400, 500]) },
  { group: "Network", kind: "slider", field: "slope", label: "slope α", slider: even(0, 1, 0.05) },
  { group: "Network", kind: "either", field: "depth", label: "layers", options: [[2, "2"], [3, "3"]] },
  { group: "Network", kind: "slider", field: "scale", label: "initial scale γ", slider: scales() },
  { group: "Network", kind: "seed", field: "seed", label: "seed of the weights", dice: true },
  { group: "Training", kind: "select", field: "loss", label: "loss", options: "losses" },
  { group: "Training", kind: "slider", field: "until", label: "until t", slider: decades(0, 6, [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8]) },
  { group: "Training", kind: "slider", field: "weight_decay", label: "weight decay λ", slider: stops([0, ...[-5, -4, -3, -2, -1].flatMap((e) => [1, 2, 3, 5].map((m) => Number(`${m}e${e}`)))]) },
  { group: "Training", kind: "either", field: "method", label: "by", options: [["flow", "flow"], ["descent", "descent"]] },
  { group: "Training", kind: "slider", field: "rate", label: "learning rate η", slider: decades(-4, 0, [1, 2, 5]), only: (view) => view.method === "descent" },
  { group: "Training", kind: "select", field: "rtol", label: "relative tolerance", options: "rtols", only: (view) => view.method === "flow" },
];

export class Controls {
  constructor(state, choices, pointsElement) {
    Object.assign(this, { state, choices });
    this.form = document.getElementById("controls");
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.rows = [];
    const groups = {};
    for (const row of ROWS) {
      const group = (groups[row.group] ??= this.group(row.group));
      const element = row.kind === "points" ? pointsElement : this[row.kind](row);
      group.append(element);
      this.rows.push({ ...row, element });
    }
    this.update();
  }

  group(name) {
    const field = document.createElement("fieldset");
    field.innerHTML = `<legend>${name}</legend>`;
    this.form.append(field);
    return field;
  }

  line(row, inside) {
    const element = document.createElement("div");
    element.className = `row${row.wide ? " wide" : ""}`;
    element.dataset.field = row.field;
    element.innerHTML = `<label for="c-${row.field}">${row.label}</label>${inside}`;
    return element;
  }

  write(row, value) {
    this.state.set({ [row.field]: value });
  }

  slider(row) {
    const element = this.line(row, `<input type="text" inputmode="decimal" id="c-${row.field}-text" aria-label="${row.label}">
      <input type="range" id="c-${row.field}" min="0" max="${row.slider.max}" step="1">`);
    const [text, range] = element.querySelectorAll("input");
    range.addEventListener("input", () => this.write(row, row.slider.value(Number(range.value))));
    text.addEventListener("change", () => {
      const value = Number(text.value);
      const bad = text.value.trim() === "" || !Number.isFinite(value);
      text.setAttribute("aria-invalid", bad);
      if (!bad) this.write(row, value);
    });
    row.show = (value) => {
      if (document.activeElement !== range || Number(range.value) !== row.slider.position(value)) {
        range.value = row.slider.position(value);
      }
      range.setAttribute("aria-valuetext", brief(value));
      text.value = brief(value);
      text.removeAttribute("aria-invalid");
    };
    return element;
  }

  select(row) {
    let options;
    if (row.field === "data") {
      const file = this.choices.file ? [["file", this.choices.file.name]] : [];
      options = [...file, ...[...Object.keys(this.choices.data), "points"].map((name) => [name, NAMES[name]])];
    } else options = this.choices[row.options].map((each) => [each, typeof each === "number" ? brief(each) : each]);
    const inside = options.map(([value, label]) => `<option value="${value}">${label}</option>`).join("");
    const element = this.line(row, `<select id="c-${row.field}">${inside}</select>`);
    const select = element.querySelector("select");
    const number = typeof options[0][0] === "number";
    select.addEventListener("change", () => (row.field === "data" ? this.state.choose(select.value) : this.write(row, number ? Number(select.value) : select.value)));
    row.show = (value) => { select.value = String(value); };
    return element;
  }

  tick(row) {
    const element = document.createElement("label");
    element.className = "tick";
    element.dataset.field = row.field;
    element.innerHTML = `<input type="checkbox" id="c-${row.field}"> ${row.label}`;
    const input = element.querySelector("input");
    input.addEventListener("change", () => this.write(row, input.checked));
    row.show = (value) => { input.checked = value; };
    return element;
  }

  either(row) {
    const element = document.createElement("div");
    element.className = "row";
    element.dataset.field = row.field;
    const inside = row.options.map(([value, label]) => `<label><input type="radio" name="${row.field}" value="${value}" id="c-${row.field}-${value}">${label}</label>`).join("");
    element.innerHTML = `<label id="l-${row.field}">${row.label}</label><div class="either" role="radiogroup" aria-labelledby="l-${row.field}">${inside}</div>`;
    const number = typeof row.options[0][0] === "number";
    element.addEventListener("change", (event) => this.write(row, number ? Number(event.target.value) : event.target.value));
    row.show = (value) => { for (const input of element.querySelectorAll("input")) input.checked = input.value === String(value); };
    return element;
  }

  seed(row) {
    const element = this.line(row, `<span class="with-dice"><input type="text" inputmode="numeric" id="c-${row.field}">
      <button type="button" aria-label="another ${row.label}">⚄</button></span>`);
    const input = element.querySelector("input");
    input.addEventListener("change", () => {
      const value = Number(input.value);
      const bad = !Number.isInteger(value) || value < 0;
      input.setAttribute("aria-invalid", bad);
      if (!bad) this.write(row, value);
    });
    element.querySelector("button").addEventListener("click", () => this.roll(row.field));
    row.show = (value) => { input.value = value; input.removeAttribute("aria-invalid"); };
    return element;
  }

  roll(field) {
    this.state.set({ [field]: Math.floor(Math.random() * 1000) });
  }

  // Controls show what the state holds, and only where they mean something.
  update() {
    const { view } = this.state;
    const takes = this.choices.data[view.data] ?? [];
    for (const row of this.rows) {
      if (row.takes) row.element.hidden = !takes.includes(row.field);
      if (row.only) row.element.hidden = !row.only(view);
      if (!row.field || row.element.hidden) continue;
      let value = view[row.field];
      if (value === null) value = typeof row.fallback === "object" ? row.fallback[view.data] ?? row.fallback.other : row.fallback;
      ROWS.find((each) => each.field === row.field).show(value);
    }
  }

  point(field) {
    const element = this.form.querySelector(`[data-field="${field}"]`);
    if (!element) return;
    element.classList.remove("pointed");
    void element.offsetWidth;
    element.classList.add("pointed");
  }

  disable() {
    for (const group of this.form.querySelectorAll("fieldset")) group.disabled = true;
  }
}
