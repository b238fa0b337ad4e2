// Numbers as the page prints them.

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// Six significant digits, as Python's format(x, "#.6g") has them.
export function digits(value, count = 6) {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  return value.toPrecision(count);
}

export function brief(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(4)));
  return value.toExponential(Number(value.toPrecision(3)) === Number(value.toPrecision(1)) ? 0 : 1).replace("e+", "e");
}

export function powerOfTen(exponent) {
  const text = (Math.round(exponent * 10) / 10).toString();
  return text.includes(".") ? `10^${text}` : `10${[...text].map((letter) => RAISED[letter]).join("")}`;
}

export function escaped(text) {
  return String(text).replace(/[&<>"]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[mark]);
}
