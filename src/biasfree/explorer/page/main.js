// The page: state in, questions out, and everything that is shown follows one cursor in time.

import { Answers, Lost, Runner, stored, unpack } from "explorer/answers.js";
import { firstTheme, keepTheme, setTheme } from "explorer/colours.js";
import { Controls } from "explorer/controls.js";
import { Curve } from "explorer/curve.js";
import { download, picturePNG, pictureSVG } from "explorer/exports.js";
import { brief, digits, escaped } from "explorer/numbers.js";
import { Panels } from "explorer/panels.js";
import { Player } from "explorer/player.js";
import { Points } from "explorer/points.js";
import { LONGEST_ADDRESS, State } from "explorer/state.js";

const $ = (id) => document.getElementById(id);
const SLOW = 4; // seconds from which on a coarser run is offered
const STILL = 300; // ms that the controls must have rested before theory and diagnosis are requested
const COARSE = { width: 40, rtol: 1e-3 };
const PLACES = { beside: "theory", plateaus: "plateau", diagnose: "diagnosis" }; // where answers that come later are shown

class Page {
  constructor(offline, answers, choices) {
    Object.assign(this, { offline, answers, choices });
    this.state = new State(choices.defaults);
    this.run = this.beside = this.plateaus = this.departure = this.newest = null;
    this.frame = 0;
    this.pending = new Set(); // answers that are still to come
    this.wanted = null; // share of the way, of a prepared view
    this.atEnd = false;
    this.curve = new Curve((share) => this.player.to(share), (part) => this.state.set({ zoom: part }, "shown"));
    this.panels = new Panels();
    this.player = new Player(this);
    this.points = new Points(
      (inputs, targets) => this.state.set({ data: "points", inputs, targets, name: this.ownName() }),
      (file) => this.upload(file),
    );
    this.state.choose = (data) => this.choose(data);
    this.controls = new Controls(this.state, choices, this.points.element);
    this.runner = new Runner(answers, {
      done: (run, waited, view) => this.arrived(run, waited, view), failed: (error) => this.failed(error), progress: (standing) => this.progress(standing),
    });
    this.gallery();
    this.options();
    this.buttons();
    this.state.listeners.push((what) => this.changed(what));
    addEventListener("hashchange", (event) => this.read(new URL(event.newURL).hash.slice(1)));
    if (offline) {
      this.controls.disable();
      document.body.classList.add("offline");
      this.state.replace(offline.view, offline.shown);
    } else this.read(location.hash.slice(1));
  }

  // State

  read(address) {
    if (address === this.known) return;
    this.known = address;
    if (!address) return this.open(this.choices.gallery.find((each) => each.id === "six-points"));
    const { view, shown } = State.parse(address, this.choices.defaults);
    this.atEnd = false;
    this.state.replace(view, shown);
  }

  changed(what) {
    this.controls.update();
    for (const [id, field] of [["axis", "axis"], ["loss-axis", "lossAxis"], ["map-scale", "mapScale"], ["arrow-scale", "arrowScale"]]) $(id).value = this.state.shown[field];
    $("events").checked = this.state.shown.events;
    for (const id of ["zoom-out", "zoom-all"]) $(id).disabled = !this.state.shown.zoom;
    for (const button of document.querySelectorAll("#gallery button")) button.setAttribute("aria-current", button.dataset.id === this.state.shown.gallery);
    const prepared = this.choices.gallery.find((each) => each.id === this.state.shown.gallery);
    $("caption").hidden = !prepared;
    $("caption").textContent = prepared?.description ?? "";
    if (what === "view") {
      this.newest = this.state.request();
      document.body.dataset.state = "requested";
      this.runner.ask(this.newest);
    } else if (this.run) this.redraw();
    this.write();
  }

  write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const address = this.state.address();
      if (this.offline) return;
      this.tooLong = address.length > LONGEST_ADDRESS;
      // An address that somebody has just put there, and that is yet to be read, is not written over.
      if (this.tooLong || location.hash.slice(1) !== this.known) return;
      history.replaceState(null, "", `#${address}`);
      this.known = location.hash.slice(1);
    }, 120);
  }

  open(prepared) {
    const { axis, share, focus } = prepared.shown;
    this.wanted = share;
    this.atEnd = false;
    this.state.replace(prepared.view, { axis, gallery: prepared.id });
    if (focus) this.controls.point(focus);
  }

  choose(data) {
    if (data !== "points") return this.state.set({ data, offset: null, dim: null, pairs: null, whiten: false, inputs: [], targets: [], name: "points" });
    const samples = this.points.samples;
    this.state.set(samples.length
      ? { data, inputs: samples.map(({ x, y }) => [x, y]), targets: samples.map(({ target }) => target), name: "points" }
      : { data, inputs: [[1, 0.5], [-1, -0.5]], targets: [1, -1], name: "points" });
  }

  ownName() {
    return this.state.view.data === "points" ? this.state.view.name : "points";
  }

  async upload(file, target) {
    try {
      const { name, inputs, targets } = await this.answers.upload(file, target);
      this.state.set({ data: "points", inputs, targets, name });
      this.toast(`Read ${file.name}: ${inputs.length} samples.`);
    } catch (error) {
      const column = !target && /no column 'target'/.test(error.message) && prompt(`${error.message}\n\nColumn to predict:`);
      if (column) return this.upload(file, column);
      this.failed(error);
    }
  }

  // Answers

  arrived(run, waited, view) {
    this.banner("");
    this.run = run;
    this.code = { run: run.head.code };
    this.headline = "";
    this.beside = this.plateaus = this.departure = null;
    this.waited = waited;
    const { times } = run.arrays;
    this.points.show(run.head.data.editable);
    this.panels.show(run, this.state.shown);
    // A cursor at the end stays at the end; elsewhere it stays at its time.
    const time = this.state.shown.time;
    const end = this.atEnd || (time === null && this.wanted === null);
    this.frame = this.frameAt(this.wanted !== null ? this.wanted * times.at(-1) : end ? times.at(-1) : time);
    this.wanted = null;
    this.remember();
    this.words();
    this.redraw().then(() => { if (view === this.newest) document.body.dataset.state = "drawn"; });
    this.write();
    if (view === this.newest) this.askBeside(view);
    else this.pending.clear();
  }

  async askBeside(view) {
    clearTimeout(this.askingLater);
    for (const [kind, place] of Object.entries(PLACES)) {
      this.answers.drop(kind);
      delete document.body.dataset[kind];
      this.pending.add(kind);
      $(place).classList.add("waiting");
    }
    this.waiting(performance.now());
    // A slider that is still moving need not be diagnosed.
    await new Promise((resolve) => { this.askingLater = setTimeout(resolve, this.offline ? 0 : STILL); });
    if (view !== this.newest) return;
    this.answered("beside", view, (buffer) => {
      this.beside = unpack(buffer);
      this.code.beside = this.beside.head.code;
      this.redraw();
      this.showTheory();
    });
    this.answered("diagnose", view, (buffer) => {
      const diagnosis = JSON.parse(new TextDecoder().decode(buffer));
      this.code.diagnose = diagnosis.code;
      this.headline = diagnosis.headline;
      const [, verdict, rest] = diagnosis.headline.match(/^([^:]*): (.*)$/s) ?? [null, diagnosis.verdict, diagnosis.headline];
      $("diagnosis").innerHTML = `<span class="chip">${escaped(verdict)}</span>${escaped(rest)}.`;
    });
    this.answered("plateaus", view, (buffer) => {
      const answer = JSON.parse(new TextDecoder().decode(buffer));
      this.plateaus = answer.plateaus;
      this.departure = answer.departure;
      this.code.plateaus = answer.code;
      this.redraw();
      this.showTheory();
    });
  }

  // What is being computed, and for how long already.
  waiting(began) {
    clearTimeout(this.waitingAgain);
    const seconds = Math.floor((performance.now() - began) / 1000);
    for (const kind of this.pending) {
      $(PLACES[kind]).textContent = `${kind === "plateaus" ? "Plateaus: computing" : "Computing"} …${seconds ? ` ${seconds} s` : ""}`;
    }
    if (this.pending.size) this.waitingAgain = setTimeout(() => this.waiting(began), 1000);
  }

  async answered(kind, view, then) {
    const place = PLACES[kind];
    try {
      const buffer = await this.answers.ask(kind, view);
      if (!buffer || view !== this.newest) return;
      this.pending.delete(kind);
      then(buffer);
    } catch (error) {
      if (error instanceof Lost) return this.lost();
      if (view !== this.newest) return;
      this.pending.delete(kind);
      $(place).textContent = error.message;
    }
    this.showCode();
    $(place).classList.remove("waiting");
    document.body.dataset[kind] = "done";
  }

  failed(error) {
    if (error instanceof Lost) return this.lost();
    document.body.dataset.state = "failed";
    this.banner(error.message);
  }

  lost() {
    if (this.waitingForServer) return;
    this.banner("The server does not answer. Start it again with “biasfree explore”; this page will go on by itself.");
    this.waitingForServer = setInterval(async () => {
      try {
        await this.answers.fetched("api/alive");
      } catch { return; }
      clearInterval(this.waitingForServer);
      this.waitingForServer = null;
      this.banner("");
      this.toast("The server is back.");
      this.runner.ask(this.newest);
    }, 1000);
  }

  progress(standing) {
    const element = $("progress");
    element.hidden = !standing;
    if (!standing) return;
    const { state, share = 0, waited, seconds = 0 } = standing;
    element.querySelector("div").style.backgroundSize = `${100 * share}% 100%`;
    const left = share > 0.02 ? seconds / share : 0;
    const long = left > SLOW || waited > SLOW;
    const text = { starting: "the server compiles, some seconds …", waiting: "waiting for a free worker …" }[state]
      ?? (left > SLOW ? `this takes about ${Math.round(left)} s` : `${waited.toFixed(1)} s`);
    element.querySelector("span").textContent = text;
    $("coarser").hidden = !(long && state === "running" && (this.state.view.width > COARSE.width || this.state.view.rtol < COARSE.rtol));
  }

  // What is shown

  async redraw() {
    if (!this.run) return;
    this.curve.at = this.index();
    await this.curve.show(this.run, this.beside, this.plateaus, this.departure, this.state.shown);
    this.panels.show(this.run, this.state.shown);
    this.draw();
  }

  index() {
    return this.run.arrays.frames[this.frame];
  }

  draw() {
    const { times, losses } = this.run.arrays, index = this.index();
    this.curve.cursor(index);
    this.panels.draw(this.frame);
    this.showPlateau();
    this.showCode();
    const time = $("time"), place = 1000 * this.curve.place(index);
    time.value = place;
    time.setAttribute("aria-valuetext", `t = ${brief(times[index])}, loss ${digits(losses[index], 4)}`);
    $("readout").innerHTML = `<span>t = <b id="now-time">${digits(times[index])}</b></span><span>loss = <b id="now-loss">${digits(losses[index])}</b></span>
      <span>end: <b id="end-loss">${digits(losses.at(-1))}</b> at t = ${brief(times.at(-1))}</span><span>${this.frame + 1} of ${this.run.arrays.frames.length} saved times</span>`;
  }

  // What is known of the plateau that the cursor stands on.
  showPlateau() {
    if (!this.plateaus) return;
    const now = this.run.arrays.times[this.index()];
    const at = this.plateaus.findIndex(({ begin, end }) => begin <= now && now <= end);
    const text = at < 0 ? "The cursor is between plateaus." : `Plateau ${at + 1} of ${this.plateaus.length}. ${this.plateaus[at].description}`;
    if ($("plateau").textContent !== text) $("plateau").textContent = text;
  }

  // One program: the run, the network at the cursor, and what came after.
  showCode() {
    const { times } = this.run.arrays, index = this.index();
    const now = `now = run.networks[${index}]  # at t = ${times[index]}, the time of the cursor\n`;
    const { run, beside, plateaus, diagnose } = this.code;
    const later = { beside: "theory", plateaus: "plateaus", diagnose: "diagnosis" };
    const missing = [...this.pending].map((kind) => later[kind]).join(", ");
    const more = missing && `# ${missing}: the lines follow as soon as they are computed …\n`;
    const text = [run, now, beside, plateaus, diagnose, more].filter(Boolean).join("");
    if ($("code").textContent !== text) $("code").textContent = text;
  }

  go(frame) {
    if (!this.run) return;
    this.frame = Math.max(0, Math.min(this.run.arrays.frames.length - 1, frame));
    this.remember();
    const part = this.curve.following(this.index());
    if (part) return this.state.set({ zoom: part }, "shown"); // draws and writes
    this.draw();
    this.write();
  }

  remember() {
    this.state.shown.time = this.run.arrays.times[this.index()];
    this.atEnd = this.frame === this.run.arrays.frames.length - 1;
  }

  // The saved time nearest to a time.
  frameAt(time) {
    const { frames, times } = this.run.arrays;
    let best = 0;
    for (let i = 1; i < frames.length; i++) if (Math.abs(times[frames[i]] - time) < Math.abs(times[frames[best]] - time)) best = i;
    return best;
  }

  words() {
    const { head } = this.run, { summary } = head;
    $("subtitle").textContent = `${summary.network} on ${head.data.description}`;
    const gauges = [["balance drift", summary.balance_drift], ["energy gap", summary.energy_gap], ["admissibility", summary.admissibility]];
    $("gauges").innerHTML = gauges.map(([name, value]) => {
      const size = value === null ? 0 : Math.min(100, Math.max(2, 100 * (1 + Math.log10(Math.max(value, 1e-16)) / 16)));
      return `<dt>${name}</dt><dd class="meter" aria-hidden="true"><i style="width:${size}%"${value > 1e-2 ? ' class="poor"' : ""}></i></dd><dd>${value === null ? "does not apply" : brief(value)}</dd>`;
    }).join("");
    const sentence = summary.message.startsWith(summary.status) ? summary.message[0].toUpperCase() + summary.message.slice(1) : `${summary.status}: ${summary.message}`;
    $("status").textContent = `${sentence} ${summary.accepted} steps, ${head.events.known ? `${head.events.all} events, ` : ""}${(1000 * summary.wall_time).toFixed(0)} ms to compute${this.offline ? "" : `, ${this.waited.toFixed(0)} ms from question to answer`}.`;
    $("axis").querySelector("[value=ratio]").disabled = head.scales.ratio === null;
  }

  showTheory() {
    if (!this.beside) return;
    const { predictions, why_no_prediction: why } = this.beside.head;
    const notes = predictions.map(({ name, note }) => `${name}: ${note}`);
    $("theory").textContent = [this.departure?.description, ...notes, why].filter(Boolean).join(" ");
  }

  banner(text) {
    $("banner").hidden = !text;
    $("banner").textContent = text;
  }

  toast(text) {
    $("toast").textContent = text;
    $("toast").classList.add("there");
    clearTimeout(this.toasting);
    this.toasting = setTimeout(() => $("toast").classList.remove("there"), 2600);
  }

  // Wiring

  gallery() {
    this.choices.gallery.forEach((prepared, i) => {
      const item = document.createElement("li");
      item.innerHTML = `<button type="button" data-id="${prepared.id}"><b>${i + 1}</b>${prepared.title}</button>`;
      item.firstChild.addEventListener("click", () => this.open(prepared));
      item.firstChild.disabled = Boolean(this.offline);
      $("gallery").append(item);
    });
  }

  options() {
    for (const [id, field] of [["axis", "axis"], ["loss-axis", "lossAxis"], ["map-scale", "mapScale"], ["arrow-scale", "arrowScale"]]) {
      // Another axis of time has another part to show.
      $(id).addEventListener("change", () => this.state.set({ [field]: $(id).value, ...(field === "axis" ? { zoom: null } : {}) }, "shown"));
    }
    $("zoom-in").addEventListener("click", () => this.run && this.curve.zoom(0.5));
    $("zoom-out").addEventListener("click", () => this.run && this.curve.zoom(2));
    $("zoom-all").addEventListener("click", () => this.state.set({ zoom: null }, "shown"));
    $("events").addEventListener("change", () => this.state.set({ events: $("events").checked }, "shown"));
    $("coarser").addEventListener("click", () => this.state.set({ width: Math.min(this.state.view.width, COARSE.width), rtol: COARSE.rtol }));
  }

  buttons() {
    $("copy-link").addEventListener("click", async () => {
      if (this.tooLong) return this.toast("The data are too many for a link. Save the view as one HTML file instead.");
      await this.copy(`${location.origin}${location.pathname}#${this.state.address()}`, "Link copied.");
    });
    $("copy-link").hidden = Boolean(this.offline);
    $("copy-code").addEventListener("click", () => this.copy($("code").textContent, "Code copied."));
    $("theme").addEventListener("click", () => {
      const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      keepTheme(theme);
      this.themed(theme);
    });
    $("help").addEventListener("click", () => $("keys").showModal());
    for (const button of document.querySelectorAll("[data-save]")) {
      if (this.offline && ["html", "netcdf", "csv"].includes(button.dataset.save)) button.hidden = true;
      button.addEventListener("click", () => {
        $("save-menu").open = false;
        this.save(button.dataset.save).catch((error) => this.failed(error));
      });
    }
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
    for (const kind of ["dragleave", "drop"]) addEventListener(kind, () => document.body.classList.remove("dropping"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0] && !this.offline) this.upload(event.dataTransfer.files[0]);
    });
  }

  themed(theme) {
    setTheme(theme);
    $("theme").textContent = theme === "dark" ? "☀" : "☾";
    this.points.draw();
    if (this.run) this.redraw();
  }

  async copy(text, message) {
    try {
      await navigator.clipboard.writeText(text);
      this.toast(message);
    } catch {
      this.toast("This browser does not let pages copy; the address bar holds the link.");
    }
  }

  async save(kind) {
    const { summary, data } = this.run.head;
    const caption = `${summary.network} on ${data.description}; loss ${digits(this.run.arrays.losses[this.index()])} at t = ${digits(this.run.arrays.times[this.index()])}. ${this.headline ? `Diagnosis: ${this.headline}.` : ""}`;
    if (kind === "png") return download(await picturePNG(caption, this.panels), "biasfree-view.png");
    if (kind === "svg") return download(await pictureSVG(caption, this.panels), "biasfree-view.svg", "image/svg+xml");
    this.toast("One moment …");
    const answer = await this.answers.ask(kind, this.newest, this.state.shown);
    const names = { html: ["biasfree-view.html", "text/html"], netcdf: ["run.nc", "application/x-netcdf"], csv: ["run.csv", "text/csv"] };
    if (answer) download(answer, ...names[kind]);
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || $("keys").open) return;
    const where = event.target;
    const typing = where.matches?.("input[type=text], select, textarea");
    if (typing) return;
    const slider = where.matches?.("input[type=range]") && where.id !== "time";
    const step = event.shiftKey ? 10 : 1;
    const keys = {
      ArrowLeft: () => this.go(this.frame - step), ArrowRight: () => this.go(this.frame + step),
      Home: () => this.go(0), End: () => this.go(Infinity),
    };
    const others = {
      "?": () => $("keys").showModal(), "+": () => this.run && this.curve.zoom(0.5), "-": () => this.run && this.curve.zoom(2),
      0: () => this.state.set({ zoom: null }, "shown"), d: () => !this.offline && this.controls.roll("seed"),
    };
    if (event.key === " " && !where.matches?.("button, summary, input[type=checkbox], input[type=radio]")) this.player.toggle();
    else if (keys[event.key] && !slider && !where.matches?.("input[type=radio]")) {
      this.player.pause();
      keys[event.key]();
    } else if (others[event.key]) others[event.key]();
    else if (/^[1-8]$/.test(event.key) && !this.offline) this.open(this.choices.gallery[event.key - 1]);
    else return;
    event.preventDefault();
  }
}

async function begin() {
  setTheme(firstTheme());
  const offline = stored();
  const answers = new Answers(offline);
  let choices = null;
  while (!choices) {
    try {
      choices = await answers.choices();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  const page = new Page(offline, answers, choices);
  page.themed(document.documentElement.dataset.theme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.themed(firstTheme()));
  return page;
}

// Plotly is a classic script that is deferred like this one, and comes first.
window.explorer = begin();
