// Colours of the style sheet, for what is drawn by hand.

let known = {};

export function colours() {
  return known;
}

function channels(colour) {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "card", "ink", "quiet", "line", "field", "accent", "plus", "minus", "run", "twin", "theory", "zero",
    "grid", "shade"];
  known = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  const [low, middle, high] = [known.minus, known.zero, known.plus].map(channels);
  // Negative to positive in 511 steps, through the page's own zero.
  known.scale = new Uint8Array(511 * 3);
  for (let i = 0; i < 511; i++) {
    const share = (i - 255) / 255;
    const end = share < 0 ? low : high;
    const amount = Math.abs(share) ** 0.85;
    for (let c = 0; c < 3; c++) known.scale[3 * i + c] = middle[c] + (end[c] - middle[c]) * amount;
  }
  known.outside = channels(known.field);
  known.slopes = document.documentElement.dataset.theme === "dark"
    ? ["#cfd8e6", "#8fd3c1", "#56b4e9", "#8e9bef", "#d08fe8", "#e3c463"]
    : ["#3a4356", "#00795a", "#0072b2", "#5b5bc0", "#a03fa8", "#8a6d1f"];
}

export function bar() {
  const { minus, zero, plus } = known;
  return `linear-gradient(90deg, ${minus}, ${zero}, ${plus})`;
}

export function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readColours();
}

export function firstTheme() {
  let kept = null;
  try {
    kept = localStorage.getItem("theme");
  } catch { /* a page from disk may not keep anything */ }
  return kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export function keepTheme(theme) {
  try {
    localStorage.setItem("theme", theme);
  } catch { /* as above */ }
}
