// The heat-map viewer of the report, first part: the data, and pictures as sums of them. Plain script, no network, no
// framework. Every count in a picture is a sum of counts that the file holds: columns and rows that share a pixel are
// added up, never skipped. The parts stand in one function, in the order data, paint, state, draw, input.
const holder = document.getElementById("heat-data");
const room = document.getElementById("heat-viewer");
if (!holder || !room) return;
const dataset = JSON.parse(holder.textContent);
// A row of the maps holds the times from its own edge to just below the next; the edges go on above the last row that is used.
// Between the edges of a row places grow evenly.
const EDGES = Float64Array.from(dataset.edges_ns), ROWS = dataset.rows, LAST = EDGES.length - 2;
const rowsAt = (ns) => {
  let row = 0, above = LAST;
  while (row < above) { const middle = (row + above + 1) >> 1; if (EDGES[middle] <= ns) row = middle; else above = middle - 1; }
  return Math.max(row + (ns - EDGES[row]) / (EDGES[row + 1] - EDGES[row]), 0);
};
const timeOf = (rows) => { const row = Math.min(Math.max(Math.floor(rows), 0), LAST); return EDGES[row] + (rows - row) * (EDGES[row + 1] - EDGES[row]); };
const maps = new Map(dataset.maps.map((map) => [map.id, map]));
if (!maps.size) return;

// ---- Small tools ------------------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};
const draw = (parent, tag, attributes, text) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  }
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
};
const digits = (value) => {
  const size = Math.abs(value);
  return size === 0 ? "0" : value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
};
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const unitOf = (ns) => UNITS.find(([by]) => Math.abs(ns) >= by * 0.9995) || UNITS[3];
const span = (ns) => { const [by, unit] = unitOf(ns); return by === 1 ? Math.round(ns) + " ns" : digits(ns / by) + " " + unit; };
const spans = (a, b) => {
  const [by, unit] = unitOf(b);
  return unitOf(a)[1] === unit && by > 1 ? `${digits(a / by)} to ${digits(b / by)} ${unit}` : `${span(a)} to ${span(b)}`;
};
const tick = (ns) => {
  if (ns === 0) return "0";
  const [by, unit] = unitOf(ns);
  return String(Number((ns / by).toPrecision(3))) + " " + unit;
};
const grouped = (count) => String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
const short = (count) => (count >= 1e6 ? Number((count / 1e6).toPrecision(2)) + "M" : count >= 1e4 ? Number((count / 1e3).toPrecision(2)) + "k" : String(count));
const percent = (share) => {
  const value = share * 100;
  return (value === 0 || value >= 10 ? value.toFixed(1) : value >= 1 ? value.toFixed(2) : Number(value.toPrecision(2))) + " %";
};
const rankWord = (share) => {
  if (share >= 1) return "p100";
  const shown = share > 0.99 ? Math.ceil(-Math.log10(1 - share)) : 1;
  return "p" + (Math.floor(share * 100 * 10 ** shown) / 10 ** shown).toFixed(shown);
};
const seconds = (at, step) => at.toFixed(clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 6)) + " s";

// ---- Data -------------------------------------------------------------------------------------------------------

async function bytesOf(text, packed) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  if (!packed) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Columns of sparse counts: for each column how many rows are not empty, then pairs of distance and count, all as
// LEB128 numbers.
async function unpack(stored) {
  const bytes = await bytesOf(stored.data, stored.packed);
  let at = 0;
  const number = () => {
    let value = 0, by = 1, byte;
    do {
      if (at >= bytes.length) throw new Error("a map ends early");
      byte = bytes[at++];
      value += (byte & 127) * by;
      by *= 128;
    } while (byte > 127);
    return value;
  };
  const starts = new Uint32Array(stored.columns + 1);
  const rows = [], counts = [], totals = new Float64Array(stored.columns);
  for (let column = 0; column < stored.columns; column += 1) {
    let row = -1;
    for (let left = number(); left > 0; left -= 1) {
      row += 1 + number();
      const count = number();
      rows.push(row);
      counts.push(count);
      totals[column] += count;
    }
    starts[column + 1] = rows.length;
  }
  return {
    from: stored.from_s, step: stored.step_s, columns: stored.columns, starts, totals,
    rows: Uint16Array.from(rows), counts: Uint32Array.from(counts),
  };
}

const planes = new Map();
// The counts of one quantity of one map, unpacked at most once.
function plane(id, quantity) {
  const key = id + "/" + quantity;
  if (!planes.has(key)) {
    const stored = maps.get(id).planes[quantity];
    planes.set(key, stored ? (async () => {
      const whole = await unpack(stored);
      whole.fine = await Promise.all(stored.fine.map(unpack));
      whole.max_ns = stored.max_ns;
      whole.count = stored.count;
      return whole;
    })() : Promise.resolve(null));
  }
  return planes.get(key);
}

// ---- Rows of a picture ------------------------------------------------------------------------------------------

const position = (view, ns) => view.linear
  ? (ns - view.low) / (view.high - view.low)
  : (rowsAt(ns) - rowsAt(view.low)) / (rowsAt(view.high) - rowsAt(view.low));
const valueAt = (view, share) => view.linear
  ? view.low + share * (view.high - view.low)
  : timeOf(rowsAt(view.low) + share * (rowsAt(view.high) - rowsAt(view.low)));

// Which stored rows make one row of the picture. Rows above and below the picture are counted in lanes of their own.
function layers(view, height, coarse = 1) {
  const pixel = (ns) => Math.round((1 - clamp(position(view, ns), 0, 1)) * height);
  const list = [];
  const place = new Int32Array(ROWS).fill(-1);
  let first = 0;
  while (first < ROWS && EDGES[first + 1] <= view.low) first += 1;
  let end = ROWS;
  while (end > first && EDGES[end - 1] >= view.high) end -= 1;
  for (let row = end; row < ROWS; row += 1) place[row] = -2;
  const one = height / Math.max(rowsAt(view.high) - rowsAt(view.low), 1);
  const join = view.linear ? 1 : Math.max(coarse, Math.ceil(1 / one - 1e-6));
  let row = first;
  while (row < end) {
    let next = Math.min(end, (Math.floor(row / join) + 1) * join);
    while (next < end && pixel(EDGES[next]) === pixel(EDGES[row])) next += 1;
    const bottom = pixel(EDGES[row]), top = pixel(EDGES[next]);
    for (let each = row; each < next; each += 1) place[each] = list.length;
    list.push({ low: EDGES[row], high: EDGES[next], first: row, end: next, top: Math.min(top, bottom - 1), bottom });
    row = next;
  }
  return { list, place };
}

// The rows of 2011: of one width, times rounded up. They come as a map of their own, so nothing is converted.
function oldLayers(height) {
  const { step_ns: step, rows } = dataset.old;
  const list = [], place = new Int32Array(rows);
  for (let row = 0; row < rows; row += 1) {
    place[row] = row;
    list.push({ low: row * step, high: (row + 1) * step,
      top: Math.round((1 - (row + 1) / rows) * height), bottom: Math.round((1 - row / rows) * height) });
  }
  return { list, place };
}

// ---- Columns of a picture ---------------------------------------------------------------------------------------

// The picture's cells: `every` stored columns make one of the picture.
function cells(source, layout, t0, t1, every) {
  const own = (time) => (time - source.from) / source.step;
  const begin = clamp(Math.floor(own(t0) / every + 1e-9), 0, Math.ceil(source.columns / every));
  const stop = clamp(Math.ceil(own(t1) / every - 1e-9), begin, Math.ceil(source.columns / every));
  const wide = stop - begin, high = layout.list.length;
  const out = {
    from: source.from + begin * every * source.step, width: every * source.step, wide, high,
    counts: new Float64Array(wide * high), above: new Float64Array(wide), below: new Float64Array(wide),
    totals: new Float64Array(wide), first: begin * every, every,
  };
  for (let column = 0; column < wide; column += 1) {
    const base = column * high;
    const last = Math.min((begin + column + 1) * every, source.columns);
    for (let stored = (begin + column) * every; stored < last; stored += 1) {
      out.totals[column] += source.totals[stored];
      for (let at = source.starts[stored]; at < source.starts[stored + 1]; at += 1) {
        const place = layout.place[source.rows[at]];
        if (place >= 0) out.counts[base + place] += source.counts[at];
        else if (place === -2) out.above[column] += source.counts[at];
        else out.below[column] += source.counts[at];
      }
    }
  }
  return out;
}

// How many stored columns share one of the picture's, so that none is narrower than a pixel.
const joined = (source, t0, t1, pixels) => {
  const shown = Math.min(t1, source.from + source.columns * source.step) - Math.max(t0, source.from);
  return Math.max(1, Math.ceil(shown / source.step / Math.max(pixels, 1) - 1e-6));
};

const largest = (list) => { let most = 0; for (const value of list) if (value > most) most = value; return most; };

// Times that a share of a stretch's messages did not exceed, stretch by stretch. A stretch is as many columns as the
// quantile needs to have 10 messages beyond it.
function quantileSteps(source, t0, t1, every, share) {
  const needs = share >= 1 ? 1 : 10 / (1 - share);
  const own = (time) => clamp((time - source.from) / source.step, 0, source.columns);
  const stop = Math.ceil(own(t1));
  const sums = new Float64Array(ROWS), steps = [];
  let column = Math.floor(own(t0) / every) * every, from = column, total = 0;
  const close = (end) => {
    if (total >= needs && total > 0) {
      const rank = Math.max(1, Math.ceil(total * share - 1e-9));
      let row = 0, seen = sums[0];
      while (seen < rank && row < ROWS - 1) { row += 1; seen += sums[row]; }
      steps.push([source.from + from * source.step, source.from + end * source.step, EDGES[row + 1]]);
    }
    sums.fill(0);
    total = 0;
    from = end;
  };
  while (column < stop) {
    const end = Math.min(column + every, source.columns);
    for (; column < end; column += 1) {
      for (let at = source.starts[column]; at < source.starts[column + 1]; at += 1) sums[source.rows[at]] += source.counts[at];
      total += source.totals[column];
    }
    if (total >= needs || (share >= 1 && total === 0)) close(end);
  }
  if (total > 0) close(Math.min(column, source.columns));
  return steps;
}
