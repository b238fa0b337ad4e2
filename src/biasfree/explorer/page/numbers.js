// Numbers as the page prints them.

// Significant digits, zeros at the end included; with an exponent where Python's "#.6g" has one.
export function digits(value, count = 6) {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-4 && size < 10 ** count)) return value.toPrecision(count);
  return value.toExponential(count - 1).replace("e+", "e");
}

export function brief(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(4)));
  return value.toExponential(Number(value.toPrecision(3)) === Number(value.toPrecision(1)) ? 0 : 1).replace("e+", "e");
}

export function escaped(text) {
  return String(text).replace(/[&<>"]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[mark]);
}
