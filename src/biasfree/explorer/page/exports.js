// What can be taken away: a link, pictures, files.

import { colours } from "explorer/colours.js";

export function download(content, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Curve and panels side by side, with the caption below: what stands on the page, and nothing else.
function pieces(caption, panels) {
  // With a legend inside: on the page its words stand above the plot.
  const { data, layout } = document.getElementById("plot");
  const legend = { orientation: "h", x: 0, y: 1.01, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" };
  const plot = { data, layout: { ...layout, width: undefined, height: undefined, showlegend: true, legend, margin: { ...layout.margin, t: 60 } } };
  const wide = 860, high = 500, side = high - 40, figures = panels.pictures(side);
  return { plot, wide, high, figures, side, width: wide + figures.length * (side + 20) + 20, height: high + 70, caption };
}

export async function picturePNG(caption, panels) {
  const all = pieces(caption, panels), c = colours();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * all.width, height: 2 * all.height });
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = c.card;
  context.fillRect(0, 0, all.width, all.height);
  const address = await Plotly.toImage(all.plot, { format: "svg", width: all.wide, height: all.high });
  context.drawImage(await loaded(address), 0, 0, all.wide, all.high);
  context.fillStyle = c.ink;
  context.font = "600 15px system-ui, sans-serif";
  all.figures.forEach((figure, i) => {
    const x = all.wide + i * (all.side + 20);
    context.fillText(figure.title, x, 22);
    context.drawImage(figure.canvas, x, 34, all.side, all.side);
  });
  context.font = "14px system-ui, sans-serif";
  wrapped(all.caption, all.width - 40, (text) => context.measureText(text).width).forEach((line, i) => context.fillText(line, 20, all.high + 24 + 20 * i));
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export async function pictureSVG(caption, panels) {
  const all = pieces(caption, panels), c = colours();
  const curve = await Plotly.toImage(all.plot, { format: "svg", width: all.wide, height: all.high, imageDataOnly: true });
  const text = (words, x, y, weight = 400, size = 15) => `<text x="${x}" y="${y}" font-family="system-ui, sans-serif" font-size="${size}" font-weight="${weight}" fill="${c.ink}">${words.replace(/[&<>]/g, (mark) => `&#${mark.charCodeAt(0)};`)}</text>`;
  const figures = all.figures.map((figure, i) => {
    const x = all.wide + i * (all.side + 20);
    return `${text(figure.title, x, 22, 600)}<image x="${x}" y="34" width="${all.side}" height="${all.side}" href="${figure.canvas.toDataURL("image/png")}"/>`;
  });
  const lines = wrapped(all.caption, all.width - 40, (words) => words.length * 7.2).map((line, i) => text(line, 20, all.high + 24 + 20 * i, 400, 14));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${all.width}" height="${all.height}" viewBox="0 0 ${all.width} ${all.height}"><rect width="100%" height="100%" fill="${c.card}"/>${curve.replace(/^<\?xml[^>]*>/, "")}${figures.join("")}${lines.join("")}</svg>`;
}

function loaded(address) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = reject;
    image.src = address;
  });
}

function wrapped(text, width, measure) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (measure(`${lines.at(-1)} ${word}`) > width) lines.push(word);
    else lines[lines.length - 1] += `${lines.at(-1) ? " " : ""}${word}`;
  }
  return lines.slice(0, 2);
}
