// The whole state of a view, in the page's address: fields of the server's View, and how the page shows them.

const SHOWN = {
  axis: "linear", lossAxis: "linear", events: false, mapScale: "targets", arrowScale: "log", time: null, zoom: null, gallery: "",
};
const FLAGS = new Set(["whiten", "mirrored", "ones", "events"]);
const TEXTS = new Set(["data", "name", "loss", "method", "axis", "lossAxis", "mapScale", "arrowScale", "gallery"]);
export const LONGEST_ADDRESS = 60000;

export class State {
  constructor(defaults) {
    this.defaults = defaults;
    this.view = { ...defaults };
    this.shown = { ...SHOWN };
    this.listeners = [];
  }

  // `what` is "view" when a run has to be computed anew, else "shown".
  changed(what) {
    for (const listener of this.listeners) listener(what);
  }

  set(fields, what = "view") {
    Object.assign(what === "view" ? this.view : this.shown, fields);
    if (what === "view" && !("gallery" in fields)) this.shown.gallery = "";
    this.changed(what);
  }

  replace(view, shown) {
    this.view = { ...this.defaults, ...view };
    this.shown = { ...SHOWN, ...shown };
    this.changed("view");
  }

  // What differs from the defaults: all that the server needs to know.
  request() {
    return Object.fromEntries(Object.entries(this.view).filter(([name, value]) => !same(value, this.defaults[name])));
  }

  address() {
    const address = new URLSearchParams();
    for (const [name, value] of Object.entries(this.request())) {
      if (name === "inputs") {
        address.set("points", value.map((row, i) => [...row, this.view.targets[i]].join(",")).join(";"));
      } else if (name !== "targets") {
        address.set(name, Array.isArray(value) ? value.join(",") : String(value));
      }
    }
    for (const [name, value] of Object.entries(this.shown)) {
      if (value !== SHOWN[name]) address.set(name, String(value));
    }
    // Commas and semicolons may stand in an address as they are, and read better.
    return address.toString().replaceAll("%2C", ",").replaceAll("%3B", ";");
  }

  static parse(address, defaults) {
    const view = {}, shown = {};
    for (const [name, text] of new URLSearchParams(address)) {
      const into = name in SHOWN ? shown : view;
      if (name === "points") {
        const rows = text.split(";").filter(Boolean).map((row) => row.split(",").map(Number));
        view.inputs = rows.map((row) => row.slice(0, -1));
        view.targets = rows.map((row) => row.at(-1));
      } else if (name === "slopes") {
        view.slopes = text.split(",").map(Number);
      } else if (name === "zoom") {
        const [low, high] = text.split(",").map(Number);
        if (low < high) shown.zoom = [low, high];
      } else if (FLAGS.has(name)) {
        into[name] = text === "true";
      } else if (TEXTS.has(name)) {
        into[name] = text;
      } else if (name === "time" || name in defaults) {
        into[name] = Number(text);
      }
    }
    return { view, shown };
  }
}

export function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}
