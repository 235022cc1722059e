// The heat-map viewer of the report. Plain script, no network, no framework. Cells are painted on canvases, axes, lines
// and marks are SVG above them. Every count in a picture is a sum of counts that the file holds: columns and rows that
// share a pixel are added up, never skipped.
(() => {
  "use strict";
  const holder = document.getElementById("heat-data");
  const room = document.getElementById("heat-viewer");
  if (!holder || !room) return;
  const book = JSON.parse(holder.textContent);
  // Rows of the maps: each octave cut evenly, below the first octave a row is a nanosecond. A row holds the times from
  // its own edge to just below the next.
  const OCTAVE = book.rows_per_octave, BITS = Math.log2(OCTAVE), ROWS = book.rows;
  const edge = (row) => {
    const shift = Math.max(Math.floor(row / OCTAVE) - 1, 0);
    return (row - shift * OCTAVE) * 2 ** shift;
  };
  const EDGES = Float64Array.from({ length: ROWS + 1 }, (_, row) => edge(row));
  const rowsAt = (ns) => {
    if (ns < OCTAVE) return Math.max(ns, 0);
    let octave = Math.floor(Math.log2(ns));
    if (2 ** octave > ns) octave -= 1;
    return (octave - BITS) * OCTAVE + ns / 2 ** octave * OCTAVE;
  };
  const timeOf = (rows) => { const row = Math.floor(rows); return edge(row) + (rows - row) * (edge(row + 1) - edge(row)); };
  const maps = new Map(book.maps.map((map) => [map.id, map]));
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
  function layers(view, height) {
    const pixel = (ns) => Math.round((1 - clamp(position(view, ns), 0, 1)) * height);
    const list = [];
    const place = new Int32Array(ROWS).fill(-1);
    let first = 0;
    while (first < ROWS && EDGES[first + 1] <= view.low) first += 1;
    let end = ROWS;
    while (end > first && EDGES[end - 1] >= view.high) end -= 1;
    for (let row = end; row < ROWS; row += 1) place[row] = -2;
    const one = height / Math.max(rowsAt(view.high) - rowsAt(view.low), 1);
    const join = view.linear ? 1 : Math.max(1, Math.ceil(1 / one - 1e-6));
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
    const { step_ns: step, rows } = book.old;
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

  // ---- Colours ----------------------------------------------------------------------------------------------------

  const darkQuery = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const dark = () => darkQuery.matches && !printing;
  const parsed = new Map();
  // Colours of a ramp as little-endian RGBA words.
  function ramp(name) {
    const text = book.ramps[name];
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

  // Paints cells on a canvas whose plot is `width` by `height` CSS pixels.
  function paint(canvas, view, width, height, layers) {
    const sharp = Math.min(devicePixelRatio || 1, 3);
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
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
    const step = nice((t1 - t0) / Math.max(room, 1));
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
          Number(at.toFixed(clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 6))) + (names ? "" : " s"));
      }
      if (names) {
        draw(svg, "text", { class: "axis-name", x: box.left + box.width / 2, y: box.base + 34, "text-anchor": "middle" },
          "seconds since the first message, by intended send time");
      }
    }
    draw(svg, "rect", { class: "hm-frame", x: box.left, y: box.top, width: box.width, height: box.height });
    return { x, y };
  }

  // ---- State ------------------------------------------------------------------------------------------------------

  const QUANTITIES = [
    ["rtt", "RTT from actual send", "Round trip from the moment the message was really sent. A sender that stalls sends late, and its waiting does not show here."],
    ["rtt_intended", "RTT from intended send", "Round trip from the moment the schedule wanted the message sent: waiting in the sender counts, as it does for whoever waits for the answer."],
    ["lateness", "lateness", "How much later than the schedule wanted a message was sent."],
  ];
  const LINES = [["p50", 0.5], ["p99", 0.99], ["p99.9", 0.999], ["max", 1]];
  const shownPlane = () => (state.old ? "old" : state.quantity);
  const has = (map, quantity) => Boolean(map && map.planes[quantity]);
  const first = (map) => QUANTITIES.map(([name]) => name).find((name) => has(map, name));
  const ordered = [...maps.keys()];
  const state = {
    map: ordered[0], quantity: "rtt", linear: false, scale: "log", old: false, versus: null, pick: null,
    lines: new Set(["p50", "p99", "p99.9"]), outliers: true, same: true,
    t: null, y: null,
  };
  const usual = new Set(state.lines);
  let back = [];

  const reach = (quantity) => book.ranges[quantity] || book.ranges.rtt;
  // What the viewer shows now: time in seconds, values in ns.
  function viewOf(id = state.map, whole = false) {
    const map = maps.get(id);
    const [low, high] = reach(state.quantity);
    const view = {
      t0: 0, t1: Math.max(map.seconds, state.versus && !whole ? maps.get(state.versus).seconds : 0, 1e-3),
      low, high, linear: state.linear, scale: state.scale, old: state.old,
    };
    if (state.linear) view.low = 0;
    if (state.old) { view.linear = true; view.low = 0; view.high = book.old.step_ns * book.old.rows; view.scale = "linear"; }
    if (!whole && state.t) [view.t0, view.t1] = state.t;
    if (!whole && state.y && !state.old) [view.low, view.high] = state.y;
    return view;
  }

  const remember = () => {
    const now = JSON.stringify([state.t, state.y]);
    if (back[back.length - 1] !== now) back.push(now);
    if (back.length > 50) back.shift();
  };
  const stepBack = () => {
    if (!back.length) { state.t = null; state.y = null; return; }
    [state.t, state.y] = JSON.parse(back.pop());
  };

  const fragment = () => {
    const words = new URLSearchParams();
    words.set("heat", state.map);
    words.set("q", state.quantity);
    const exact = (value) => String(Number(value.toPrecision(7)));
    if (state.t) words.set("t", state.t.map(exact).join(","));
    if (state.y) words.set("y", state.y.map(exact).join(","));
    if (state.linear) words.set("axis", "linear");
    if (state.scale !== "log") words.set("colour", state.scale);
    if (state.old) words.set("old", "1");
    if (state.versus) words.set("vs", state.versus);
    if (state.pick !== null) words.set("pick", state.pick);
    if (!state.same) words.set("own", "1");
    if (!state.outliers) words.set("marks", "0");
    const lines = LINES.filter(([name]) => state.lines.has(name)).map(([name]) => name).join(",");
    if (lines !== "p50,p99,p99.9") words.set("lines", lines);
    return "#" + words.toString().replaceAll("%2C", ",");
  };
  let wrote = "";
  const start = fragment();
  // A page that nobody has touched keeps its address.
  const publish = () => {
    const next = fragment();
    if (next === location.hash || (next === start && !location.hash.startsWith("#heat="))) return;
    wrote = next;
    try { history.replaceState(null, "", next); } catch { location.hash = next; }
  };
  // Takes the view from the address. Says whether it held one.
  function obey() {
    const words = new URLSearchParams(location.hash.slice(1));
    if (!maps.has(words.get("heat"))) return false;
    const pair = (name) => {
      const parts = (words.get(name) || "").split(",").map(Number);
      return parts.length === 2 && parts.every(Number.isFinite) && parts[1] > parts[0] ? parts : null;
    };
    const map = maps.get(words.get("heat"));
    const quantity = words.get("q");
    back = [];
    Object.assign(state, {
      map: map.id, quantity: QUANTITIES.some(([name]) => name === quantity) && has(map, quantity) ? quantity : first(map), t: pair("t"), y: pair("y"),
      linear: words.get("axis") === "linear", old: words.get("old") === "1", same: words.get("own") !== "1",
      scale: ["linear", "rank"].includes(words.get("colour")) ? words.get("colour") : "log",
      versus: maps.has(words.get("vs")) && words.get("vs") !== map.id ? words.get("vs") : null,
      pick: words.has("pick") ? Number(words.get("pick")) : null, outliers: words.get("marks") !== "0",
      lines: words.has("lines") ? new Set(words.get("lines").split(",")) : new Set(usual),
    });
    return true;
  }

  // ---- The viewer's parts -----------------------------------------------------------------------------------------

  const choice = (name, entries, get, set) => {
    const group = make("div", { class: "hm-choice", role: "group", "aria-label": name });
    const buttons = entries.map(([value, label, tip]) => {
      const button = make("button", { type: "button", "data-value": value, "data-tip": tip || false,
        onclick: () => { set(value); refresh(); } }, label);
      group.append(button);
      return button;
    });
    group.update = (allowed = () => true) => buttons.forEach((button) => {
      button.setAttribute("aria-pressed", String(get() === button.dataset.value));
      button.disabled = !allowed(button.dataset.value);
    });
    return group;
  };
  const toggle = (label, get, set, tip, sample) => {
    const button = make("button", { type: "button", class: "hm-toggle", "data-tip": tip || false,
      onclick: () => { set(!get()); refresh(); } });
    if (sample) button.append(sample);
    button.append(label);
    button.update = () => button.setAttribute("aria-pressed", String(get()));
    return button;
  };
  const lineSample = (name) => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "hm-sample");
    svg.setAttribute("viewBox", "0 0 22 10");
    svg.setAttribute("aria-hidden", "true");
    draw(svg, "path", { class: "hm-line hm-" + name.replace(".", "-"), d: "M1 5H21" });
    return svg;
  };

  const pickMap = make("select", { "aria-label": "map", onchange: () => { Object.assign(state, { map: pickMap.value, pick: null }); refresh(); } });
  const pickOther = make("select", { "aria-label": "compare with", onchange: () => { state.versus = pickOther.value || null; refresh(); } });
  for (const map of book.maps) {
    pickMap.append(make("option", { value: map.id }, map.title));
    pickOther.append(make("option", { value: map.id }, map.title));
  }
  pickOther.prepend(make("option", { value: "" }, "nothing"));
  const quantityChoice = choice("quantity", QUANTITIES, () => state.quantity, (value) => {
    if (value === "lateness" || state.quantity === "lateness") state.y = null;
    state.quantity = value;
  });
  const axisChoice = choice("value axis", [["log", "log"], ["linear", "linear"]], () => (viewOf().linear ? "linear" : "log"),
    (value) => { state.linear = value === "linear"; state.y = null; });
  const scaleChoice = choice("colour", [["log", "log"], ["linear", "linear"], ["rank", "rank", "Each count has the colour of its place among all counts that occur: small differences show, sizes do not."]],
    () => state.scale, (value) => { state.scale = value; });
  const lineToggles = LINES.map(([name]) => toggle(name, () => state.lines.has(name), (on) => {
    if (on) state.lines.add(name); else state.lines.delete(name);
  }, name === "max" ? "longest of each column" : "drawn over as many columns as it needs to have 10 messages beyond it", lineSample(name)));
  const outlierToggle = toggle("worst messages", () => state.outliers, (on) => { state.outliers = on; }, "A ring at each of the messages listed beside the map");
  const oldToggle = toggle("2011 style", () => state.old, (on) => { state.old = on; state.t = null; state.y = null; back = []; },
    "As the pictures of 2011 were drawn: to see what they could not show");
  const sameToggle = toggle("one scale for all maps", () => state.same, (on) => { state.same = on; }, "Off: the last colour is this map's own fullest cell");
  const wholeButton = make("button", { type: "button", class: "hm-toggle", onclick: () => { state.t = null; state.y = null; back = []; refresh(); } }, "whole map");
  const labelled = (text, ...nodes) => make("div", { class: "hm-field" }, make("span", { class: "hm-name" }, text), ...nodes);
  const bar = make("div", { class: "hm-bar" },
    labelled("map", pickMap), labelled("compared with", pickOther), labelled("shows", quantityChoice),
    labelled("axis", axisChoice), labelled("colour", scaleChoice, sameToggle),
    labelled("lines", ...lineToggles), labelled("also", outlierToggle, oldToggle, wholeButton));

  const title = make("figcaption", {});
  const canvas = make("canvas", { "aria-hidden": "true" });
  const svg = document.createElementNS(SVG, "svg");
  const box = make("div", { class: "hm-box", "aria-hidden": "true", hidden: true });
  const note = make("div", { class: "hm-tip", hidden: true });
  const stage = make("div", { class: "hm-stage", tabindex: "0", role: "application" }, canvas, svg, box, note);
  const legend = make("div", { class: "hm-legend" });
  const says = make("p", { class: "caption hm-says" });
  const spoken = make("p", { class: "hm-spoken", role: "status" });
  const keys = make("p", { class: "caption hm-keys" },
    "Drag a box to zoom, the wheel zooms in time, double-click or Esc goes back one step. Keys: arrows move the cursor, + and − zoom, Shift with arrows shifts, 0 shows the whole map, [ and ] change the map, o goes to the next of the worst messages. The address keeps the view.");
  const list = make("div", { class: "hm-list" });
  const detail = make("div", { class: "hm-detail", hidden: true });
  const side = make("aside", { class: "hm-side", "aria-label": "worst messages" }, list, detail);
  room.append(bar, make("div", { class: "hm-room" }, make("figure", { class: "hm-main" }, title, stage, legend, says, spoken, keys), side));
  room.hidden = false;

  // ---- Drawing ----------------------------------------------------------------------------------------------------

  const LEFT = 66, SIDE = 84, EVENTS = 12, LANE = 9, GAP = 3, LOST = 16, BELOW = 40;
  let shown = null; // What the last drawing put where: for the pointer.
  let cursor = null; // Column and row under the keyboard's cursor.
  let turn = 0;

  const geometry = () => {
    const width = Math.max(280, stage.clientWidth);
    const side = width > 560 ? SIDE : 0;
    const height = clamp(Math.round(innerHeight * 0.5), 240, 460);
    const top = EVENTS + LANE + GAP;
    return {
      left: LEFT, top, width: width - LEFT - side - 8, height, all: width, side,
      below: top + height + GAP, lost: top + height + GAP + LANE + 2, base: top + height + GAP + LANE + 2 + LOST,
      total: top + height + GAP + LANE + 2 + LOST + BELOW,
    };
  };

  const mostCache = new Map();
  // The fullest cell of all maps when they are drawn like this one.
  async function fullest(ids, quantity, layout, width, key) {
    const whole = key + "|" + ids.join();
    if (!mostCache.has(whole)) {
      let most = 1;
      const lists = [];
      for (const id of ids) {
        const source = await plane(id, quantity);
        if (!source) continue;
        const every = Math.max(1, Math.round(width / source.step));
        const picture = cells(source, layout, -Infinity, Infinity, every);
        most = Math.max(most, largest(picture.counts));
        lists.push(picture.counts);
      }
      if (mostCache.size > 60) mostCache.clear();
      mostCache.set(whole, { most, ranks: ascending(lists) });
    }
    return mostCache.get(whole);
  }

  const lanes = (rows, step, t0, t1, pixels) => {
    // [first column, count] pairs summed into columns that are a pixel or more wide.
    const every = Math.max(1, Math.ceil((t1 - t0) / step / pixels));
    const sums = new Map();
    for (const [column, count] of rows) {
      const key = Math.floor(column / every);
      sums.set(key, (sums.get(key) || 0) + count);
    }
    return { width: every * step, sums };
  };

  async function refresh() {
    const mine = ++turn;
    if (!has(maps.get(state.map), state.quantity)) state.quantity = first(maps.get(state.map));
    if (state.versus && (state.versus === state.map || !has(maps.get(state.versus), state.quantity))) state.versus = null;
    const map = maps.get(state.map), other = state.versus && maps.get(state.versus);
    if (state.old && !has(map, "old")) state.old = false;
    if (state.old) state.quantity = "rtt";
    const [source, second] = await Promise.all([plane(state.map, shownPlane()), other ? plane(state.versus, state.quantity) : null]);
    if (mine !== turn) return;
    await drawMain(map, source, other, second, mine);
    if (mine !== turn) return;
    updateBar(map);
    updateList(map);
    publish();
    await drawPanels(mine);
    room.dataset.drawn = String(mine);
  }

  async function drawMain(map, source, other, second, mine) {
    const area = geometry(), view = viewOf();
    const layout = view.old ? oldLayers(area.height) : layers(view, area.height);
    const step = second ? Math.max(source.step, second.step) : source.step;
    const every = joined({ from: 0, step, columns: Math.ceil(view.t1 / step) }, view.t0, view.t1, area.width);
    const width = every * step;
    const of = (one) => Math.max(1, Math.round(width / one.step));
    const picture = cells(source, layout, view.t0, view.t1, of(source));
    const key = [state.quantity, width, view.low, view.high, view.linear, view.old, area.height].join();
    const ids = state.same && !view.old ? ordered : [state.map];
    const scale = await fullest(ids, shownPlane(), layout, width, key);
    if (mine !== turn) return;
    const sheets = [];
    let fine = null;
    if (second) {
      const theirs = cells(second, layout, view.t0, view.t1, of(second));
      picture.theirs = theirs;
      const colours = ramp(dark() ? "diverge_dark" : "diverge_light"), middle = (colours.length - 1) / 2;
      sheets.push({ picture: theirs.wide > picture.wide ? theirs : picture, layout, colour: (_, index, column) => {
        const a = picture.counts[index] || 0, b = theirs.counts[index] || 0;
        if (!a && !b) return 0;
        const ratio = logRatio(a, picture.totals[column], b, theirs.totals[column]);
        return colours[Math.round(middle + middle * clamp(ratio / 4, -1, 1))];
      } });
    } else {
      const colour = painter(view, scale.most, scale.ranks);
      const plain = (one, index) => { const count = one.counts[index]; return count ? colour(count) : 0; };
      sheets.push({ picture, layout, colour: plain });
      // The 100 ms around the worst messages, once there is room to see them.
      if (!view.old && source.fine.length && width === source.step && area.width / (view.t1 - view.t0) * source.step >= 12) {
        for (const part of source.fine) {
          const end = part.from + part.columns * part.step;
          if (end <= view.t0 || part.from >= view.t1) continue;
          const closer = cells(part, layout, view.t0, view.t1, 1);
          closer.over = true;
          closer.source = part;
          sheets.push({ picture: closer, layout, colour: plain });
          fine = fine || [];
          fine.push(closer);
        }
      }
    }
    canvas.style.left = area.left + "px";
    canvas.style.top = area.top + "px";
    paint(canvas, view, area.width, area.height, sheets);

    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${area.all} ${area.total}`);
    svg.setAttribute("width", area.all);
    svg.setAttribute("height", area.total);
    stage.style.height = area.total + "px";
    const defs = draw(svg, "defs", {});
    const clip = draw(defs, "clipPath", { id: "hm-clip" });
    draw(clip, "rect", { x: area.left, y: area.top - 1, width: area.width, height: area.height + 2 });
    const { x, y } = axes(svg, area, view);
    draw(svg, "text", { class: "axis-name", x: 0, y: area.top - 12, "text-anchor": "start" }, state.quantity === "lateness" ? "lateness" : "RTT");
    for (const closer of fine || []) {
      draw(svg, "rect", { class: "hm-fine", x: x(closer.from), y: area.top, width: Math.max(x(closer.from + closer.wide * closer.width) - x(closer.from), 1), height: area.height });
    }

    const events = map.events.filter((event) => event.at_s >= view.t0 && event.at_s <= view.t1);
    const lost = lanes(map.lost, map.lost_step_s, view.t0, view.t1, area.width);
    if (!view.old) {
      lane(svg, x, area, picture, picture.above, area.top - LANE - GAP, "above " + tick(view.high), view, "hm-over", scale.most);
      lane(svg, x, area, picture, picture.below, area.below, "below " + tick(view.low), view, "hm-over", scale.most);
      lostLane(svg, x, area, lost, map, view);
      for (const event of events) {
        draw(svg, "path", { class: "hm-event", d: `M${x(event.at_s) - 4} 1h8l-4 8z` });
      }
    }
    if (!second && !view.old) {
      const lines = draw(svg, "g", { "clip-path": "url(#hm-clip)" });
      for (const [name, share] of LINES) {
        if (!state.lines.has(name)) continue;
        let path = "", lastEnd = -1;
        for (const [from, to, ns] of quantileSteps(source, view.t0, view.t1, of(source), share)) {
          const a = x(Math.max(from, view.t0)).toFixed(1), b = x(Math.min(to, view.t1)).toFixed(1), at = y(Math.min(ns, view.high * 4)).toFixed(1);
          path += (from === lastEnd ? `V${at}` : `M${a} ${at}`) + `H${b}`;
          lastEnd = to;
        }
        if (!path) continue;
        draw(lines, "path", { class: "hm-halo", d: path });
        draw(lines, "path", { class: "hm-line hm-" + name.replace(".", "-"), d: path });
      }
    }
    if (state.outliers && !second && !view.old) marks(svg, x, y, area, map, view);
    if (area.side) margin(svg, area, layout, picture, second);
    draw(svg, "g", { class: "hm-cross" });
    shown = { area, view, layout, picture, fine, x, y, map, other, source, events, lost, scale };
    placeCursor();
    words(map, other, source, view, picture, width, layout, scale);
    stage.setAttribute("aria-label", `Heat map of ${map.title}, ${QUANTITIES.find(([name]) => name === state.quantity)[1]}. Arrow keys move a cursor that is read out.`);
  }

  // How many times larger B's share of a column is than A's, as log2; half a message is added to both so that a single
  // message is no infinity.
  const logRatio = (a, ofA, b, ofB) => Math.log2(((b + 0.5) / ((ofB || 0) + 1)) / ((a + 0.5) / ((ofA || 0) + 1)));

  function lane(svg, x, area, picture, counts, top, word, view, kind, most) {
    const group = draw(svg, "g", { class: kind });
    draw(group, "rect", { class: "hm-lane", x: area.left, y: top, width: area.width, height: LANE });
    const colour = painter(view, most, null);
    let any = 0;
    for (let column = 0; column < picture.wide; column += 1) {
      if (!counts[column]) continue;
      any += counts[column];
      const from = Math.max(x(picture.from + column * picture.width), area.left);
      const to = Math.min(x(picture.from + (column + 1) * picture.width), area.left + area.width);
      if (to > from) draw(group, "rect", { x: from, y: top, width: Math.max(to - from, 1.5), height: LANE, fill: css(colour(counts[column])) });
    }
    if (any) draw(svg, "text", { class: "tick hm-lane-name", x: area.left - 6, y: top + LANE - 1, "text-anchor": "end" }, (kind === "hm-over" ? word.split(" ")[0] : word));
  }

  function lostLane(svg, x, area, lost, map, view) {
    draw(svg, "rect", { class: "hm-lane", x: area.left, y: area.lost, width: area.width, height: LOST });
    draw(svg, "text", { class: "tick hm-lane-name", x: area.left - 6, y: area.lost + LOST - 4, "text-anchor": "end" }, "lost");
    const most = Math.max(1, largest(lost.sums.values()));
    for (const [column, count] of lost.sums) {
      const from = column * lost.width, to = from + lost.width;
      if (to <= view.t0 || from >= view.t1) continue;
      // One lost message is a third of the lane high, the most that were lost in a column fill it.
      const high = LOST * (1 / 3 + 2 / 3 * (most > 1 ? Math.log(count) / Math.log(most) : 1));
      const left = Math.max(x(from), area.left), right = Math.min(x(to), area.left + area.width);
      draw(svg, "rect", { class: "hm-lost", x: left, y: area.lost + LOST - high, width: Math.max(right - left, 2), height: high });
    }
  }

  function marks(svg, x, y, area, map, view) {
    const group = draw(svg, "g", { class: "hm-marks", "clip-path": "url(#hm-clip)" });
    worstOf(map).forEach((outlier, place) => {
      const at = whenOf(outlier), ns = valueOf(outlier), picked = state.pick === outlier.seq;
      if ((place >= MARKED && !picked) || at < view.t0 || at > view.t1 || ns === null || ns < view.low) return;
      draw(group, "circle", { class: picked ? "hm-ring hm-picked" : "hm-ring", cx: x(at), cy: Math.max(y(ns), area.top + 4), r: picked ? 7 : 4 });
    });
    const lost = map.outliers.find((one) => one.lost && one.seq === state.pick);
    if (lost) draw(svg, "circle", { class: "hm-ring hm-picked", cx: x(whenOf(lost)), cy: area.lost + LOST / 2, r: 7 });
  }
  const MARKED = 20;
  // The worst messages by what is shown now, lost ones last.
  function worstOf(map) {
    const key = map.id + state.quantity;
    if (worstOf.key !== key) {
      worstOf.key = key;
      worstOf.list = [...map.outliers].sort((a, b) => (valueOf(b) ?? -1) - (valueOf(a) ?? -1) || a.seq - b.seq);
    }
    return worstOf.list;
  }
  const whenOf = (outlier) => Math.max(0, outlier.at_ns - outlier.late_ns) / 1e9;
  const valueOf = (outlier) => (state.quantity === "lateness" ? outlier.late_ns : outlier.lost ? null
    : outlier.rtt_ns + (state.quantity === "rtt_intended" ? outlier.late_ns : 0));

  // The distribution of all that is in view, beside the map on the same axis.
  function margin(svg, area, layout, picture, second) {
    const sum = (one) => {
      const out = new Float64Array(layout.list.length);
      for (let column = 0; column < one.wide; column += 1) for (let row = 0; row < one.high; row += 1) out[row] += one.counts[column * one.high + row];
      return out;
    };
    const left = area.left + area.width + 8, room = area.side - 14;
    const pair = second ? [[sum(picture), "hm-a"], [sum(picture.theirs), "hm-b"]] : [[sum(picture), "hm-a"]];
    const most = Math.max(2, ...pair.map(([sums]) => largest(sums)));
    for (const [sums, name] of pair) {
      let path = `M${left} ${area.top + area.height}`;
      sums.forEach((count, row) => {
        const { top, bottom } = layout.list[row];
        const to = left + (count ? room * (0.04 + 0.96 * Math.log(count) / Math.log(most)) : 0);
        path += `L${to.toFixed(1)} ${area.top + bottom}V${area.top + top}`;
      });
      draw(svg, "path", { class: "hm-margin " + name, d: path + `L${left} ${area.top}Z` });
    }
    draw(svg, "text", { class: "tick", x: left, y: area.base + 17 - LOST - LANE - 2, "text-anchor": "start" }, "all in view,");
    draw(svg, "text", { class: "tick", x: left, y: area.base + 31 - LOST - LANE - 2, "text-anchor": "start" }, "log count");
  }

  // ---- Words ------------------------------------------------------------------------------------------------------

  function words(map, other, source, view, picture, width, layout, scale) {
    const name = QUANTITIES.find(([quantity]) => quantity === state.quantity);
    title.textContent = other ? `A: ${map.title} · B: ${other.title} · ${name[1]}, difference` : `${map.title} · ${name[1]}`;
    legend.replaceChildren();
    const strip = make("canvas", { width: 256, height: 1, class: "hm-strip", "aria-hidden": "true" });
    const context = strip.getContext("2d");
    const colours = ramp(other ? (dark() ? "diverge_dark" : "diverge_light") : rampName(view));
    for (let at = 0; at < 256; at += 1) {
      context.fillStyle = css(colours[Math.round(at / 255 * (colours.length - 1))]);
      context.fillRect(at, 0, 1, 1);
    }
    const scaleBox = make("div", { class: "hm-scale" }, strip);
    const label = (share, text) => scaleBox.append(make("span", { style: `left:${(share * 100).toFixed(1)}%` }, text));
    const row = layout.list[Math.floor(layout.list.length / 2)];
    const cell = view.linear ? `${span(width * 1e9)} × ${span(row.high - row.low)}` : `${span(width * 1e9)} × ${((row.high / row.low - 1) * 100).toFixed(1)} %`;
    let unit;
    if (other) {
      [[0, "A 16×"], [0.25, "4×"], [0.5, "same"], [0.75, "4×"], [1, "B 16×"]].forEach(([at, text]) => label(at, text));
      unit = `Which of the two has the larger share of its column in a cell (${cell}). Single messages are pale: they prove little.`;
    } else {
      const most = scale.most;
      if (view.old || view.scale === "linear") [[0, view.old ? "0" : "1"], [0.5, short(Math.round(most / 2))], [1, short(most)]].forEach(([at, text]) => label(at, text));
      else if (view.scale === "rank") [0, 0.25, 0.5, 0.75, 1].forEach((at) => label(at, short(scale.ranks[Math.round(at * (scale.ranks.length - 1))] || 1)));
      else {
        const whole = Math.log(Math.max(most, 2));
        let free = -1;
        for (let count = 1; count < most; count *= 10) {
          const at = Math.log(count) / whole;
          if (at - free > 0.12 && at < 0.86) { label(at, short(count)); free = at; }
        }
        label(1, short(Math.max(most, 2)));
      }
      unit = `messages in a cell of ${cell}${state.same && !view.old && ordered.length > 1 ? "; one scale for all maps" : ""}`;
    }
    legend.append(scaleBox, make("span", { class: "hm-unit" }, unit));

    const lostAll = map.lost.reduce((sum, [, count]) => sum + count, 0);
    let above = view.old ? map.planes.old.above : 0;
    if (!view.old) for (let at = 0; at < source.rows.length; at += 1) if (EDGES[source.rows[at]] >= view.high) above += source.counts[at];
    const count = (number, word) => `${grouped(number)} ${word}${number === 1 ? "" : "s"}`;
    if (view.old) {
      says.textContent = `As in 2011: rows of 10 µs from 0 to 2 ms, white to green in 25 steps up to the fullest cell. This style hides ${count(above, "message")} above 2 ms (longest ${span(source.max_ns)}) and ${count(lostAll, "lost message")}, shows one message among ${grouped(scale.most)} as one step from white, and has no scale.` +
        (state.quantity === "rtt" ? " The pictures of 2011 took the time from the actual send, as here: a sender that stalls does not show." : " (The pictures of 2011 took the time from the actual send only.)");
    } else if (other) {
      says.textContent = `Columns are compared second by second since each map's own start. ${name[2]}`;
    } else {
      const inView = picture.totals.reduce((sum, value) => sum + value, 0);
      says.textContent = `${name[2]} In view: ${count(inView, "message")}${above ? `, ${grouped(above)} of the whole map above the picture (top lane)` : ""}; longest of the map ${span(source.max_ns)}; ${lostAll ? count(lostAll, "message") + " lost" : "none lost"}.` +
        (map.trusted === false ? " These figures cannot be trusted: see the cell." : "");
    }
  }

  function updateBar(map) {
    pickMap.value = state.map;
    pickOther.value = state.versus || "";
    quantityChoice.update((quantity) => has(map, quantity));
    axisChoice.update(() => !state.old);
    scaleChoice.update(() => !state.old && !state.versus);
    [...lineToggles, outlierToggle].forEach((button) => { button.update(); button.disabled = state.old || Boolean(state.versus); });
    oldToggle.update();
    oldToggle.disabled = Boolean(state.versus);
    sameToggle.update();
    sameToggle.hidden = ordered.length < 2;
    wholeButton.disabled = !state.t && !state.y;
  }

  // ---- The worst messages -----------------------------------------------------------------------------------------

  let listed = null;
  function updateList(map) {
    const key = map.id + state.quantity;
    if (listed !== key) {
      listed = key;
      list.replaceChildren(make("h3", {}, "Worst messages"));
      const rows = worstOf(map);
      if (!rows.length) list.append(make("p", { class: "caption" }, "None were kept."));
      else {
        const body = make("tbody");
        for (const outlier of rows) {
          const go = make("button", { type: "button", class: "hm-go", onclick: () => pick(outlier) }, grouped(outlier.seq));
          body.append(make("tr", { "data-seq": outlier.seq }, make("td", {}, go), make("td", {}, seconds(whenOf(outlier), 0.001)),
            make("td", {}, outlier.lost ? "lost" : span(outlier.rtt_ns)), make("td", {}, span(outlier.late_ns))));
        }
        list.append(make("div", { class: "hm-scroll" }, make("table", {},
          make("thead", {}, make("tr", {}, make("th", {}, "seq"), make("th", {}, "due at"), make("th", {}, "RTT"), make("th", {}, "late"))), body)));
        if (map.outliers_left_out) list.append(make("p", { class: "caption" }, `${grouped(map.outliers_left_out)} more are in the run directory (${map.file}).`));
      }
    }
    for (const line of list.querySelectorAll("tr[data-seq]")) {
      const on = state.pick !== null && line.dataset.seq === String(state.pick);
      line.classList.toggle("hm-on", on);
      if (on) line.scrollIntoView({ block: "nearest" });
    }
    const outlier = map.outliers.find((one) => one.seq === state.pick);
    detail.hidden = !outlier;
    if (!outlier) return;
    const sent = outlier.at_ns, due = sent - outlier.late_ns, at = (ns) => (ns / 1e9).toFixed(6) + " s";
    const pairs = [["intended", at(due)], ["sent", `${at(sent)} (${span(outlier.late_ns)} late)`],
      ["received", outlier.lost ? "never" : `${at(sent + outlier.rtt_ns)} (RTT ${span(outlier.rtt_ns)})`],
      ["from intended", outlier.lost ? null : span(outlier.rtt_ns + outlier.late_ns)],
      ["reflector", outlier.host], ["wall clock", outlier.clock]];
    for (const [name, ns] of Object.entries(outlier.parts_ns || {})) pairs.push(["part: " + name, span(ns)]);
    const words = make("dl", {});
    for (const [name, value] of pairs) if (value) words.append(make("dt", {}, name), make("dd", {}, value));
    detail.replaceChildren(make("h3", {}, `Message ${grouped(outlier.seq)}`), words);
  }
  // Centres the map on a message and goes in as far as the 100 ms columns.
  function pick(outlier) {
    remember();
    state.pick = outlier.seq;
    const map = maps.get(state.map), at = whenOf(outlier);
    const half = Math.min(map.seconds / 2, Math.max(10 * map.detail_step_s, 0.05));
    const from = clamp(at - half, 0, Math.max(0, map.seconds - 2 * half));
    state.t = [from, from + 2 * half];
    const view = viewOf(), ns = valueOf(outlier);
    if (ns !== null && (ns > view.high || ns < view.low)) state.y = null;
    state.old = false;
    state.outliers = true;
    refresh();
  }

  // ---- Small multiples --------------------------------------------------------------------------------------------

  const panels = [...document.querySelectorAll("[data-heat-panel]")].filter((panel) => maps.has(panel.dataset.heatPanel))
    .map((panel) => {
      const still = panel.querySelector("img");
      const surface = make("canvas", { "aria-hidden": "true" });
      const over = document.createElementNS(SVG, "svg");
      over.setAttribute("aria-hidden", "true");
      const frame = make("div", { class: "hm-panel" }, surface, over);
      panel.querySelector(".hm-caption").before(frame);
      return { id: panel.dataset.heatPanel, panel, still, frame, surface, over };
    });
  async function drawPanels(mine) {
    if (!panels.length) return;
    const quantity = shownPlane(), longest = Math.max(...panels.map(({ id }) => maps.get(id).seconds));
    const view = { ...viewOf(panels[0].id, true), t0: 0, t1: longest };
    const wide = Math.max(120, panels[0].panel.clientWidth), left = 46, height = 130;
    const area = { left, top: 4, width: wide - left - 4, height, base: height + 4 };
    const layout = view.old ? oldLayers(height) : layers(view, height);
    const sources = await Promise.all(panels.map(({ id }) => plane(id, quantity)));
    if (mine !== turn) return;
    const pictures = sources.map((source) => source && cells(source, layout, 0, longest, joined(source, 0, longest, area.width)));
    const lists = pictures.filter(Boolean).map((picture) => picture.counts);
    const colour = painter(view, Math.max(1, ...lists.map(largest)), view.scale === "rank" ? ascending(lists) : null);
    panels.forEach(({ id, panel, still, frame, surface, over }, index) => {
      const picture = pictures[index];
      panel.classList.toggle("hm-live", Boolean(picture));
      panel.classList.toggle("hm-current", id === state.map);
      if (!picture) return;
      frame.style.height = height + 26 + "px";
      surface.style.left = left + "px";
      surface.style.top = "4px";
      paint(surface, view, area.width, height, [{ picture, layout, colour: (one, at) => (one.counts[at] ? colour(one.counts[at]) : 0) }]);
      over.replaceChildren();
      over.setAttribute("viewBox", `0 0 ${wide} ${height + 26}`);
      over.setAttribute("width", wide);
      over.setAttribute("height", height + 26);
      const { x } = axes(over, area, view, { names: false });
      const above = picture.above.reduce((sum, count) => sum + count, 0);
      if (above && !view.old) draw(over, "text", { class: "tick hm-count", x: wide - 8, y: 16, "text-anchor": "end" }, `${short(above)} above`);
      const map = maps.get(id);
      if (!view.old) {
        for (const [column, count] of lanes(map.lost, map.lost_step_s, 0, longest, area.width).sums) {
          const width = lanes([], map.lost_step_s, 0, longest, area.width).width;
          if (count) draw(over, "rect", { class: "hm-lost", x: x(column * width), y: height - 1, width: Math.max(area.width * width / longest, 2), height: 5 });
        }
      }
      if (still) still.hidden = true;
    });
  }

  // ---- Pointer and keys -------------------------------------------------------------------------------------------

  const where = (event) => {
    const frame = svg.getBoundingClientRect();
    return [(event.clientX - frame.left) * (shown.area.all / frame.width), (event.clientY - frame.top) * (shown.area.total / frame.height)];
  };
  const timeAt = (px) => shown.view.t0 + (px - shown.area.left) / shown.area.width * (shown.view.t1 - shown.view.t0);

  // What lies at a column and a row, in words.
  function report(picture, column, row) {
    const { layout, other, map } = shown;
    const { low, high } = layout.list[row];
    const index = column * picture.high + row, total = picture.totals[column], count = picture.counts[index];
    const from = picture.from + column * picture.width;
    const lines = [`${seconds(from, picture.width)} to ${seconds(from + picture.width, picture.width)}`, spans(low, high)];
    if (other) {
      const theirs = picture.theirs, b = theirs.counts[index] || 0, ofB = theirs.totals[column] || 0;
      lines.push(`A ${grouped(count)} of ${grouped(total)} (${percent(total ? count / total : 0)})`, `B ${grouped(b)} of ${grouped(ofB)} (${percent(ofB ? b / ofB : 0)})`);
      if (count || b) {
        const by = 2 ** Math.abs(logRatio(count, total, b, ofB));
        lines.push(`${logRatio(count, total, b, ofB) > 0 ? "B" : "A"} has about ${digits(by)} times the share`);
      }
      return lines;
    }
    let upTo = picture.below[column];
    for (let each = 0; each < row; each += 1) upTo += picture.counts[column * picture.high + each];
    lines.push(`${grouped(count)} message${count === 1 ? "" : "s"}, ${percent(total ? count / total : 0)} of the column's ${grouped(total)}`);
    if (total) {
      const [before, after] = [upTo / total, (upTo + count) / total];
      lines.push(count ? `${rankWord(before)} to ${rankWord(after)} of the column` : `above ${percent(before)} of the column, ${grouped(total - upTo)} took longer`);
    }
    const lostHere = lostIn(map, from, from + picture.width);
    if (lostHere) lines.push(`${grouped(lostHere)} lost in this column`);
    return lines;
  }
  const lostIn = (map, from, to) => map.lost.reduce((sum, [column, count]) => {
    const at = column * map.lost_step_s;
    return at >= from - 1e-9 && at < to - 1e-9 ? sum + count : sum;
  }, 0);

  function probe(px, py) {
    if (!shown) return null;
    const { area, view, layout, picture, fine } = shown;
    if (px < area.left || px > area.left + area.width) return null;
    const time = timeAt(px);
    const near = !view.old && shown.events.find((event) => py < EVENTS && Math.abs(shown.x(event.at_s) - px) < 6);
    if (near) return { lines: [`${near.kind}, ${seconds(near.at_s, 0.001)}`, near.detail || ""].filter(Boolean) };
    let use = picture;
    for (const closer of fine || []) if (time >= closer.from && time < closer.from + closer.wide * closer.width) use = closer;
    const column = Math.floor((time - use.from) / use.width);
    if (column < 0 || column >= use.wide) return null;
    const from = use.from + column * use.width, stretch = `${seconds(from, use.width)} to ${seconds(from + use.width, use.width)}`;
    if (!view.old) {
      if (py >= area.lost && py <= area.base) {
        const key = Math.floor(time / shown.lost.width), count = shown.lost.sums.get(key) || 0;
        return { lines: [`${seconds(key * shown.lost.width, shown.lost.width)} to ${seconds((key + 1) * shown.lost.width, shown.lost.width)}`, `${grouped(count)} lost, by the time they were sent`] };
      }
      if (py >= area.top - LANE - GAP && py < area.top - GAP) return { lines: [stretch, `${grouped(use.above[column])} above ${tick(view.high)}`] };
      if (py >= area.below && py < area.below + LANE) return { lines: [stretch, `${grouped(use.below[column])} below ${tick(view.low)}`] };
    }
    if (py < area.top || py >= area.top + area.height) return null;
    const row = layout.list.findIndex(({ top, bottom }) => py - area.top >= top && py - area.top < bottom);
    if (row < 0) return null;
    return { lines: report(use, column, row), column, row, use };
  }

  function cross(found, px, py) {
    const group = svg.querySelector(".hm-cross");
    if (!group) return;
    group.replaceChildren();
    if (!found || found.row === undefined) return;
    const { area, layout, x } = shown;
    const left = clamp(x(found.use.from + found.column * found.use.width), area.left, area.left + area.width);
    const right = clamp(x(found.use.from + (found.column + 1) * found.use.width), area.left, area.left + area.width);
    const { top, bottom } = layout.list[found.row];
    draw(group, "rect", { class: "hm-column", x: left, y: area.top, width: Math.max(right - left, 1), height: area.height });
    draw(group, "rect", { class: "hm-cell", x: left - 1, y: area.top + top - 1, width: Math.max(right - left, 1) + 2, height: bottom - top + 2 });
  }
  function tell(found, px, py) {
    note.hidden = !found;
    cross(found, px, py);
    if (!found) return;
    note.textContent = found.lines.join("\n");
    const wide = note.offsetWidth, high = note.offsetHeight;
    note.style.left = clamp(px + 16 + wide > shown.area.all ? px - wide - 14 : px + 16, 0, Math.max(0, shown.area.all - wide)) + "px";
    note.style.top = clamp(py + 18 + high > shown.area.total ? py - high - 12 : py + 18, 0, Math.max(0, shown.area.total - high)) + "px";
  }

  let drag = null, pageMoved = 0;
  const ringAt = (px, py) => {
    if (!shown || !state.outliers || state.old || state.versus) return null;
    let best = null, least = 9;
    for (const [place, outlier] of worstOf(shown.map).entries()) {
      const ns = valueOf(outlier), at = whenOf(outlier);
      if (ns !== null && place >= MARKED && outlier.seq !== state.pick) continue;
      if (at < shown.view.t0 || at > shown.view.t1) continue;
      const y = ns === null ? shown.area.lost + LOST / 2 : Math.max(shown.y(ns), shown.area.top + 4);
      const far = Math.hypot(shown.x(at) - px, y - py);
      if (far < least) { best = outlier; least = far; }
    }
    return best;
  };
  stage.addEventListener("pointerdown", (event) => {
    if (!shown || event.button !== 0) return;
    const [px, py] = where(event);
    const { area } = shown;
    if (px < area.left || px > area.left + area.width || py > area.base) return;
    drag = { px, py, moved: false };
    if (event.pointerId !== undefined && stage.setPointerCapture) { try { stage.setPointerCapture(event.pointerId); } catch { /* a made-up pointer has nothing to capture */ } }
  });
  stage.addEventListener("pointermove", (event) => {
    if (!shown) return;
    const [px, py] = where(event);
    if (!drag) {
      tell(probe(px, py), px, py);
      stage.style.cursor = ringAt(px, py) ? "pointer" : "crosshair";
      return;
    }
    const { area } = shown;
    drag.moved = drag.moved || Math.hypot(px - drag.px, py - drag.py) > 5;
    if (!drag.moved) return;
    tell(null);
    const a = clamp(drag.px, area.left, area.left + area.width), b = clamp(px, area.left, area.left + area.width);
    const c = clamp(drag.py, area.top, area.top + area.height), d = clamp(py, area.top, area.top + area.height);
    // A flat drag means time alone.
    const flat = Math.abs(d - c) < 8 || state.old;
    box.hidden = false;
    Object.assign(box.style, { left: Math.min(a, b) + "px", width: Math.abs(b - a) + "px",
      top: (flat ? area.top : Math.min(c, d)) + "px", height: (flat ? area.height : Math.abs(d - c)) + "px" });
    drag.box = { a: Math.min(a, b), b: Math.max(a, b), top: Math.min(c, d), bottom: Math.max(c, d), flat };
  });
  const leave = (event) => {
    if (!drag) return;
    const { moved, box: chosen, px, py } = drag;
    drag = null;
    box.hidden = true;
    if (event.type !== "pointerup") return;
    if (!moved) {
      const outlier = ringAt(px, py);
      if (outlier) pick(outlier);
      return;
    }
    if (!chosen || (chosen.b - chosen.a < 4 && chosen.flat)) return;
    const { area, view } = shown;
    remember();
    if (chosen.b - chosen.a >= 4) state.t = [timeAt(chosen.a), timeAt(chosen.b)];
    if (!chosen.flat) {
      state.y = [valueAt(view, 1 - (chosen.bottom - area.top) / area.height), valueAt(view, 1 - (chosen.top - area.top) / area.height)];
    }
    limit();
    refresh();
  };
  stage.addEventListener("pointerup", leave);
  stage.addEventListener("pointercancel", leave);
  stage.addEventListener("pointerleave", () => { if (!drag) tell(null); });
  stage.addEventListener("dblclick", () => { stepBack(); refresh(); });
  addEventListener("scroll", () => { pageMoved = performance.now(); }, { passive: true });

  // Keeps the view inside the data, and no closer than can be seen.
  function limit() {
    const whole = viewOf(state.map, true), map = maps.get(state.map);
    const end = state.versus ? Math.max(whole.t1, maps.get(state.versus).seconds) : whole.t1;
    if (state.t) {
      const least = Math.min(2 * map.detail_step_s, end);
      const wide = clamp(state.t[1] - state.t[0], least, end);
      const from = clamp((state.t[0] + state.t[1] - wide) / 2, 0, end - wide);
      state.t = wide >= end * 0.999 ? null : [from, from + wide];
    }
    if (state.y) {
      const low = Math.max(state.y[0], state.linear ? 0 : EDGES[1] / 2);
      state.y = [low, Math.max(state.y[1], low * 1.05 + (state.linear ? 1 : 0))];
    }
  }
  function zoomTime(by, at) {
    const view = viewOf();
    state.t = [at - (at - view.t0) * by, at + (view.t1 - at) * by];
    limit();
  }
  let wheeling = 0;
  stage.addEventListener("wheel", (event) => {
    if (!shown || event.ctrlKey) return;
    const [px] = where(event), now = performance.now();
    // A page in motion goes on moving under the pointer, and what cannot get smaller lets the page move.
    if (now - pageMoved < 250 && pageMoved > 0) { pageMoved = now; return; }
    if (px < shown.area.left || px > shown.area.left + shown.area.width) return;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (!state.t) return;
      event.preventDefault();
      const move = event.deltaX / shown.area.width * (state.t[1] - state.t[0]);
      state.t = state.t.map((at) => at + move);
      limit();
      refresh();
      return;
    }
    if (event.deltaY > 0 && !state.t) return;
    event.preventDefault();
    if (now - wheeling > 600) remember();
    wheeling = now;
    const lines = event.deltaMode === 1 ? 30 : 1;
    zoomTime(1.0018 ** clamp(event.deltaY * lines, -300, 300), timeAt(px));
    refresh();
  }, { passive: false });

  function placeCursor() {
    if (!cursor || !shown) return;
    const { picture, layout } = shown;
    cursor.column = clamp(cursor.column, 0, Math.max(0, picture.wide - 1));
    cursor.row = clamp(cursor.row, 0, layout.list.length - 1);
    if (!picture.wide) return;
    const found = { column: cursor.column, row: cursor.row, use: picture, lines: report(picture, cursor.column, cursor.row) };
    const x = shown.x(picture.from + (cursor.column + 0.5) * picture.width), y = shown.area.top + layout.list[cursor.row].top;
    tell(found, x, y);
    spoken.textContent = found.lines.join("; ");
  }
  stage.addEventListener("keydown", (event) => {
    if (!shown || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = viewOf();
    const stretch = view.t1 - view.t0;
    const at = cursor ? shown.picture.from + (cursor.column + 0.5) * shown.picture.width : (view.t0 + view.t1) / 2;
    const move = (column, row) => {
      if (!cursor) {
        const column = Math.floor(shown.picture.wide / 2);
        let row = 0, most = -1;
        for (let each = 0; each < shown.picture.high; each += 1) {
          const count = shown.picture.counts[column * shown.picture.high + each];
          if (count > most) { most = count; row = each; }
        }
        cursor = { column, row };
      } else { cursor.column += column; cursor.row += row; }
      placeCursor();
    };
    const shift = (time, value) => {
      remember();
      if (time) { state.t = [view.t0 + time * stretch, view.t1 + time * stretch]; limit(); }
      if (value && !state.old) {
        const [low, high] = [valueAt(view, value), valueAt(view, 1 + value)];
        state.y = [low, high];
        limit();
      }
      refresh();
    };
    const next = (by) => {
      state.map = ordered[(ordered.indexOf(state.map) + by + ordered.length) % ordered.length];
      state.pick = null;
      refresh();
    };
    const keyed = {
      ArrowLeft: () => (event.shiftKey ? shift(-0.25, 0) : move(-1, 0)), ArrowRight: () => (event.shiftKey ? shift(0.25, 0) : move(1, 0)),
      ArrowUp: () => (event.shiftKey ? shift(0, 0.15) : move(0, 1)), ArrowDown: () => (event.shiftKey ? shift(0, -0.15) : move(0, -1)),
      "+": () => { remember(); zoomTime(0.5, at); refresh(); }, "=": () => { remember(); zoomTime(0.5, at); refresh(); },
      "-": () => { remember(); zoomTime(2, at); refresh(); }, "0": () => { state.t = null; state.y = null; back = []; refresh(); },
      Escape: () => { cursor = null; tell(null); stepBack(); refresh(); },
      "[": () => next(-1), "]": () => next(1),
      o: () => {
        const worst = worstOf(shown.map);
        if (worst.length) pick(worst[(worst.findIndex((one) => one.seq === state.pick) + 1) % worst.length]);
      },
    };
    if (keyed[event.key]) { event.preventDefault(); keyed[event.key](); }
  });
  stage.addEventListener("blur", () => { cursor = null; tell(null); });

  // ---- Life -------------------------------------------------------------------------------------------------------

  const failed = (error) => {
    says.textContent = typeof DecompressionStream === "undefined"
      ? "This browser is too old for the interactive map (it has no DecompressionStream); the pictures in the cells below show the same."
      : "The map's data cannot be read: " + error.message;
    room.dataset.failed = "1";
  };
  let waiting = 0;
  const later = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => refresh().catch(failed)); };
  addEventListener("resize", later);
  darkQuery.addEventListener("change", later);
  addEventListener("beforeprint", () => { printing = true; refresh().catch(failed); });
  addEventListener("afterprint", () => { printing = false; later(); });
  addEventListener("hashchange", () => {
    if (location.hash === wrote || !obey()) return;
    refresh().then(() => room.scrollIntoView({ block: "start" })).catch(failed);
  });
  const asked = obey();
  refresh().then(() => { if (asked) room.scrollIntoView({ block: "start" }); }).catch(failed);
})();
