// Asking the server, or the run that is stored in the page itself. The newest question wins.

const WAIT_FOR_OLDER = 350; // ms that a run may go on before a newer question ends it, so that a dragged slider moves curves
const QUIET = 300; // ms before progress is shown

export class Lost extends Error {}

// Head and arrays of what `_packing.py` packed.
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const kinds = {
    float64: Float64Array, float32: Float32Array, int32: Int32Array, int16: Int16Array, int8: Int8Array, uint8: Uint8Array,
  };
  const arrays = {};
  for (const [name, entry] of Object.entries(head.arrays)) {
    const count = entry.shape.reduce((a, b) => a * b, 1);
    arrays[name] = new kinds[entry.type](buffer, 4 + length + entry.at, count);
    arrays[name].shape = entry.shape;
  }
  head.bytes = buffer.byteLength;
  return { head, arrays };
}

export function stored() {
  const element = document.getElementById("stored");
  return element ? JSON.parse(element.textContent) : null;
}

// An answer that was stored in the page; one that the server refused when the page was made is refused again.
function kept(text) {
  const letters = atob(text);
  if (letters.startsWith('{"error"')) throw new Error(JSON.parse(letters).error);
  return Uint8Array.from(letters, (letter) => letter.charCodeAt(0)).buffer;
}

export class Answers {
  constructor(offline) {
    this.offline = offline;
    this.page = [...crypto.getRandomValues(new Uint8Array(9))].map((n) => (n % 36).toString(36)).join("");
    this.flying = {};
  }

  async choices() {
    return this.offline ? this.offline.choices : (await this.fetched("api/choices")).json();
  }

  // An answer to a view; null if a newer question took its place.
  async ask(kind, view, shown) {
    if (this.offline) return kept(this.offline.answers[kind]);
    this.flying[kind]?.abort();
    const control = (this.flying[kind] = new AbortController());
    try {
      const body = JSON.stringify({ page: this.page, view, ...(shown ? { shown } : {}) });
      const answer = await this.fetched(`api/${kind}`, {
        method: "POST", body, headers: { "content-type": "application/json" }, signal: control.signal,
      });
      const buffer = await answer.arrayBuffer();
      return control.signal.aborted ? null : buffer;
    } catch (error) {
      if (control.signal.aborted || error.status === 409) return null;
      throw error;
    } finally {
      if (this.flying[kind] === control) delete this.flying[kind];
    }
  }

  drop(kind) {
    this.flying[kind]?.abort();
    delete this.flying[kind];
  }

  async progress(kind) {
    return (await this.fetched(`api/progress?page=${this.page}&kind=${kind}`)).json();
  }

  async upload(file, target) {
    const query = new URLSearchParams({ page: this.page, name: file.name, ...(target ? { target } : {}) });
    return (await this.fetched(`api/data?${query}`, { method: "POST", body: await file.arrayBuffer() })).json();
  }

  async fetched(address, options) {
    let answer;
    try {
      answer = await fetch(address, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Lost("the server does not answer");
    }
    if (!answer.ok) {
      const refusal = await answer.json().catch(() => ({ error: `the server answered ${answer.status}.` }));
      throw Object.assign(new Error(refusal.error), { status: answer.status });
    }
    return answer;
  }
}

// Runs, one at a time: while one is being computed the newest question waits for it a little, then takes its place.
export class Runner {
  constructor(answers, { done, failed, progress }) {
    Object.assign(this, { answers, done, failed, progress });
    this.waiting = null;
    this.began = 0;
    this.busy = false;
  }

  ask(view) {
    this.waiting = view;
    if (!this.busy) this.next();
    else if (performance.now() - this.began > WAIT_FOR_OLDER) this.answers.drop("run");
    else setTimeout(() => this.waiting && this.busy && this.answers.drop("run"), WAIT_FOR_OLDER);
  }

  async next() {
    const view = this.waiting;
    this.waiting = null;
    if (!view) return;
    this.busy = true;
    this.began = performance.now();
    const watch = setTimeout(() => this.watch(), QUIET);
    try {
      const buffer = await this.answers.ask("run", view);
      if (buffer) this.done(unpack(buffer), performance.now() - this.began, view);
    } catch (error) {
      this.failed(error);
    } finally {
      clearTimeout(watch);
      this.busy = false;
      this.progress(null);
      if (this.waiting) this.next();
    }
  }

  async watch() {
    while (this.busy) {
      if (this.answers.offline) return;
      const standing = await this.answers.progress("run").catch(() => null);
      if (!this.busy) return;
      this.progress({ ...standing, waited: (performance.now() - this.began) / 1000 });
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}
