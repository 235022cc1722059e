// The heat-map viewer, second part: colours, cells on a canvas, axes in SVG.
// ---- Colours ----------------------------------------------------------------------------------------------------

const darkQuery = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const dark = () => darkQuery.matches && !printing;
const parsed = new Map();
// Colours of a ramp as little-endian RGBA words.
function ramp(name) {
  const text = dataset.ramps[name];
  if (!parsed.has(text)) {
    const words = new Uint32Array(text.length / 6);
    for (let index = 0; index < words.length; index += 1) {
      const rgb = parseInt(text.slice(index * 6, index * 6 + 6), 16);
      words[index] = 0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16);
    }
    parsed.set(text, words);
  }
  return parsed.get(text);
}
const css = (word) => `rgb(${word & 255} ${(word >> 8) & 255} ${(word >> 16) & 255})`;
const rampName = (view) => (view.old ? "old" : dark() ? "dark" : "light");

// From a count to a colour. `most` is the count of the last colour; `ranks` are the counts that occur, ascending.
function painter(view, most, ranks) {
  const colours = ramp(rampName(view));
  const last = colours.length - 1;
  if (view.old) return (count) => colours[clamp(Math.ceil(last * count / Math.max(most, 1)), 1, last)];
  if (view.scale === "linear") return (count) => colours[Math.round(last * clamp((count - 1) / Math.max(most - 1, 1), 0, 1))];
  if (view.scale === "rank" && ranks && ranks.length > 1) {
    return (count) => {
      const find = (more) => {
        let low = 0, high = ranks.length;
        while (low < high) { const middle = (low + high) >> 1; if (more(ranks[middle])) low = middle + 1; else high = middle; }
        return low;
      };
      const end = find((other) => other <= count);
      if (end === ranks.length) return colours[last];
      return colours[count <= 1 ? 0 : Math.round(last * (find((other) => other < count) + end) / 2 / ranks.length)];
    };
  }
  const whole = Math.log(Math.max(most, 2));
  return (count) => colours[Math.round(last * clamp(Math.log(count) / whole, 0, 1))];
}
// The counts of all cells that hold messages, ascending: a colour by rank is used for as many cells as any other.
const ascending = (lists) => {
  let size = 0;
  for (const list of lists) for (const count of list) if (count > 0) size += 1;
  const all = new Float64Array(size);
  size = 0;
  for (const list of lists) for (const count of list) if (count > 0) all[size++] = count;
  return all.sort();
};

// The count that the last colour begins at: the fullest cell's, or the one that 99.5 % of the cells do not exceed. A
// scale by rank has no such end.
const lastAt = (view, most, ranks) => view.full === "p99.5" && view.scale !== "rank" && ranks && ranks.length
  ? Math.max(Math.min(2, most), ranks[Math.max(Math.ceil(ranks.length * 0.995 - 1e-9) - 1, 0)]) : most;

// Places a picture's canvas and its SVG in shares of their frame, so that both scale with it, on paper too.
function place(frame, canvas, svg, area, high) {
  const share = (part, whole) => (100 * part / whole).toFixed(4) + "%";
  frame.style.aspectRatio = `${area.all} / ${high}`;
  Object.assign(canvas.style, { left: share(area.left, area.all), width: share(area.width, area.all), top: share(area.top, high), height: share(area.height, high) });
  svg.setAttribute("viewBox", `0 0 ${area.all} ${high}`);
}
// Paints cells on a canvas whose plot is `width` by `height` CSS pixels.
function paint(canvas, view, width, height, layers) {
  const sharp = Math.min(devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  if (view.old) { context.fillStyle = "#fff"; context.fillRect(0, 0, canvas.width, canvas.height); }
  for (const { picture, layout, colour } of layers) {
    if (!picture.wide) continue;
    const sheet = document.createElement("canvas");
    sheet.width = picture.wide;
    sheet.height = height;
    const paper = sheet.getContext("2d");
    const image = paper.createImageData(picture.wide, height);
    const words = new Uint32Array(image.data.buffer);
    for (let column = 0; column < picture.wide; column += 1) {
      for (let row = 0; row < picture.high; row += 1) {
        const word = colour(picture, column * picture.high + row, column);
        if (!word) continue;
        const { top, bottom } = layout.list[row];
        for (let y = Math.max(top, 0); y < Math.min(bottom, height); y += 1) words[y * picture.wide + column] = word;
      }
    }
    paper.putImageData(image, 0, 0);
    const x = (time) => (time - view.t0) / (view.t1 - view.t0) * canvas.width;
    const from = x(picture.from), to = x(picture.from + picture.wide * picture.width);
    if (picture.over) context.clearRect(from, 0, to - from, canvas.height);
    context.drawImage(sheet, 0, 0, sheet.width, sheet.height, from, 0, to - from, canvas.height);
  }
}

// ---- Axes -------------------------------------------------------------------------------------------------------

const nice = (rough) => {
  const decade = 10 ** Math.floor(Math.log10(rough));
  return decade * [1, 2, 5, 10].find((digit) => digit * decade >= rough * 0.9999);
};
function valueTicks(view, room) {
  const ticks = [];
  if (view.linear) {
    const step = nice((view.high - view.low) / Math.max(room, 1));
    for (let value = Math.ceil(view.low / step) * step; value <= view.high * 1.0001; value += step) ticks.push(value);
    return ticks;
  }
  const decades = Math.log10(view.high / view.low);
  const inner = decades * 3 <= room ? [1, 2, 5] : [1];
  for (let power = Math.floor(Math.log10(view.low)); power <= Math.ceil(Math.log10(view.high)); power += 1) {
    for (const digit of inner) {
      const value = digit * 10 ** power;
      if (value >= view.low * 0.9999 && value <= view.high * 1.0001) ticks.push(value);
    }
  }
  return ticks.length > 1 ? ticks : valueTicks({ ...view, linear: true }, room);
}
const timeTicks = (t0, t1, room) => {
  const rough = (t1 - t0) / Math.max(room, 1);
  const step = rough > 30 ? [60, 120, 300, 600, 900, 1200, 1800, 3600].find((step) => step >= rough) || Math.ceil(rough / 3600) * 3600 : nice(rough);
  const ticks = [];
  for (let at = Math.ceil(t0 / step - 1e-6) * step; at <= t1 + step * 1e-6; at += step) ticks.push(at);
  return { step, ticks };
};
function axes(svg, box, view, { below = true, names = true } = {}) {
  const x = (time) => box.left + (time - view.t0) / (view.t1 - view.t0) * box.width;
  const y = (ns) => box.top + (1 - position(view, ns)) * box.height;
  let free = Infinity;
  for (const value of valueTicks(view, box.height / 26)) {
    const at = y(value);
    draw(svg, "line", { class: "hm-grid", x1: box.left, x2: box.left + box.width, y1: at, y2: at });
    if (at > free - 13) continue;
    draw(svg, "text", { class: "tick", x: box.left - 6, y: at + 4, "text-anchor": "end" }, tick(value));
    free = at;
  }
  if (below) {
    const { step, ticks } = timeTicks(view.t0, view.t1, box.width / 80);
    for (const at of ticks) {
      draw(svg, "line", { class: "mark", x1: x(at), x2: x(at), y1: box.base, y2: box.base + 4 });
      draw(svg, "text", { class: "tick", x: x(at), y: box.base + 17, "text-anchor": "middle" },
        step >= 60 ? Math.round(at / 60) + " min" : Number(at.toFixed(clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 6))) + " s");
    }
    if (names) {
      draw(svg, "text", { class: "axis-name", x: box.left + box.width / 2, y: box.base + 34, "text-anchor": "middle" },
        "time since the first message, by intended send");
    }
  }
  draw(svg, "rect", { class: "hm-frame", x: box.left, y: box.top, width: box.width, height: box.height });
  return { x, y };
}
