// Moving through time: by the slider, by the curve, by play.

const SWEEP = 9000; // ms from one end of the axis to the other

export class Player {
  constructor(page) {
    this.page = page;
    this.playing = false;
    this.button = document.getElementById("play");
    this.button.addEventListener("click", () => this.toggle());
    const slider = document.getElementById("time");
    slider.addEventListener("input", () => this.to(Number(slider.value) / 1000));
  }

  // To the saved time nearest to a place on the axis, from 0 to 1.
  to(share) {
    const { page } = this;
    if (!page.run) return;
    this.pause();
    page.go(this.nearest(share));
  }

  nearest(share) {
    const { frames } = this.page.run.arrays;
    let best = 0, least = Infinity;
    for (let i = 0; i < frames.length; i++) {
      const far = Math.abs(this.page.curve.place(frames[i]) - share);
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  toggle() {
    if (this.playing) return this.pause();
    const { page } = this;
    if (!page.run) return;
    if (page.curve.place(page.index()) >= 1) page.go(this.nearest(0));
    this.playing = true;
    this.button.textContent = "❚❚";
    this.button.setAttribute("aria-label", "Pause");
    this.share = Math.max(0, page.curve.place(page.index()));
    let last = performance.now();
    const step = (now) => {
      if (!this.playing) return;
      this.share += (now - last) / SWEEP;
      last = now;
      const frame = this.nearest(Math.min(1, this.share));
      if (frame !== page.frame) page.go(frame);
      if (this.share >= 1) return this.pause();
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  pause() {
    this.playing = false;
    this.button.textContent = "▶";
    this.button.setAttribute("aria-label", "Play");
  }
}
