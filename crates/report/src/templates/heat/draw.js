// The heat-map viewer, fourth part: the map, its words, the worst messages, the small multiples.
// ---- Drawing ----------------------------------------------------------------------------------------------------

const LEFT = 66, SIDE = 84, EVENTS = 12, TICKS = 12, TICK = 8, LANE = 9, GAP = 3, LOST = 16, BELOW = 46;
let shown = null; // What the last drawing put where: for the pointer.
let cursor = null; // Column and row under the keyboard's cursor.
let turn = 0;

// Lanes of what the protocol did about losses lie between the events and the map.
const ticksOf = () => (state.old ? [] : maps.get(state.map).ticks);
const ticksEnd = () => EVENTS + ticksOf().length * TICKS + (ticksOf().length ? 4 : 0);

const geometry = () => {
  const width = Math.max(280, stage.clientWidth);
  const side = width > 560 ? SIDE : 0;
  const height = clamp(Math.round(innerHeight * 0.5), 240, 460);
  const top = ticksEnd() + LANE + GAP;
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
  const layout = view.old ? oldLayers(area.height) : layers(view, area.height, second ? COARSE : 1);
  const step = second ? Math.max(source.step, second.step) : source.step;
  const every = joined({ from: 0, step, columns: Math.ceil(view.t1 / step) }, view.t0, view.t1, second ? Math.min(STRETCHES, area.width) : area.width);
  const width = every * step;
  const of = (one) => Math.max(1, Math.round(width / one.step));
  const picture = cells(source, layout, view.t0, view.t1, of(source));
  const key = [state.quantity, width, view.low, view.high, view.linear, view.old, area.height].join();
  const ids = state.same && !view.old ? ordered : [state.map];
  const known = await fullest(ids, shownPlane(), layout, width, key);
  const scale = { ...known, last: lastAt(view, known.most, known.ranks) };
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
      return colours[Math.round(middle + middle * clamp(ratio / REACH, -1, 1))];
    } });
  } else {
    const colour = painter(view, scale.last, scale.ranks);
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
  svg.replaceChildren();
  const defs = draw(svg, "defs", {});
  const clip = draw(defs, "clipPath", { id: "hm-clip" });
  draw(clip, "rect", { x: area.left, y: area.top - 1, width: area.width, height: area.height + 2 });
  const { x, y } = axes(svg, area, view);
  draw(svg, "text", { class: "axis-name", x: 0, y: area.top - (ticksOf().length ? 3 : 12), "text-anchor": "start" }, state.quantity === "lateness" ? "lateness" : "RTT");
  for (const closer of fine || []) {
    draw(svg, "rect", { class: "hm-fine", x: x(closer.from), y: area.top, width: Math.max(x(closer.from + closer.wide * closer.width) - x(closer.from), 1), height: area.height });
  }

  const events = map.events.filter((event) => event.at_s >= view.t0 && event.at_s <= view.t1);
  const lost = lanes(map.lost, map.lost_step_s, view.t0, view.t1, area.width);
  if (!view.old) {
    lane(svg, x, area, picture, picture.above, area.top - LANE - GAP, "above " + tick(view.high), view, "hm-over", scale.last);
    lane(svg, x, area, picture, picture.below, area.below, "below " + tick(view.low), view, "hm-over", scale.last);
    lostLane(svg, x, area, lost, map, view);
    for (const event of events) {
      draw(svg, "path", { class: "hm-event", d: `M${x(event.at_s) - 4} 1h8l-4 8z` });
    }
    tickLanes(svg, x, area, view);
  }
  if (!second && !view.old) {
    // All halos below all lines: where lines run together, none hides another.
    const halos = draw(svg, "g", { "clip-path": "url(#hm-clip)" });
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
      draw(halos, "path", { class: "hm-halo", d: path });
      draw(lines, "path", { class: "hm-line hm-" + name.replace(".", "-"), d: path });
    }
  }
  if (state.outliers && !second && !view.old) marks(svg, x, y, area, map, view);
  if (area.side) margin(svg, area, layout, picture, second);
  // The legend is a part of the picture, so that it is in every copy of it.
  area.total += legend(svg, area, view, width, layout, scale, fine, other);
  place(stage, canvas, svg, area, area.total);
  paint(canvas, view, area.width, area.height, sheets);
  draw(svg, "g", { class: "hm-cross" });
  shown = { area, view, layout, picture, fine, x, y, map, other, source, events, lost, scale };
  placeCursor();
  words(map, other, source, view, picture, scale);
  stage.setAttribute("aria-label", `Heat map of ${map.title}, ${QUANTITIES.find(([name]) => name === state.quantity)[1]}. Arrow keys move a cursor that is read out.`);
}

// How many times larger B's share of a column is than A's, as log2. One message is added on both sides: few messages
// make no strong colour.
const logRatio = (a, ofA, b, ofB) => Math.log2((b * (ofA || 1) / (ofB || 1) + 1) / (a + 1));
// Rows and columns of a difference are coarser: eight an octave, and so many stretches of time.
const COARSE = dataset.difference.rows, STRETCHES = 120;
// The ratio at which its colours end, as log2.
const REACH = dataset.difference.reach;

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

function tickLanes(svg, x, area, view) {
  ticksOf().forEach((one, place) => {
    const top = EVENTS + place * TICKS;
    draw(svg, "line", { class: "hm-grid", x1: area.left, x2: area.left + area.width, y1: top + TICK, y2: top + TICK });
    draw(svg, "text", { class: "tick hm-lane-name", x: area.left - 6, y: top + TICK, "text-anchor": "end" }, one.name);
    const { width, sums } = lanes(one.counts, one.step_s, view.t0, view.t1, area.width);
    let path = "", count = 0;
    for (const [column, here] of sums) {
      const at = (column + 0.5) * width;
      if (at < view.t0 || at > view.t1) continue;
      path += `M${x(at).toFixed(1)} ${top}v${TICK}`;
      count += here;
    }
    if (path) draw(svg, "path", { class: "hm-tick hm-tick-" + one.kind, d: path });
    if (area.side) draw(svg, "text", { class: "tick hm-lane-name", x: area.left + area.width + 6, y: top + TICK, "text-anchor": "start" }, grouped(count));
  });
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
// The worst message of each stall by what is shown now, lost ones last.
function worstOf(map) {
  const key = map.id + state.quantity;
  if (worstOf.key !== key) {
    worstOf.key = key;
    const seen = new Set();
    worstOf.list = [...map.outliers].sort((a, b) => (valueOf(b) ?? -1) - (valueOf(a) ?? -1) || a.seq - b.seq)
      .filter((one) => !seen.has(one.stall) && seen.add(one.stall));
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

// ---- Legend -----------------------------------------------------------------------------------------------------

// The colours with their counts, in parts that show no seam; beside or below it what they mean; then the lines. Returns its height.
const STRIP = 260, PARTS = 65, CHARACTER = 6.4, ROW = 16;
function legend(svg, area, view, width, layout, scale, fine, other) {
  const group = draw(svg, "g", { class: "hm-legend" }), top = area.base + BELOW;
  const colours = ramp(other ? (dark() ? "diverge_dark" : "diverge_light") : rampName(view));
  const strip = draw(group, "g", { class: "hm-strip", "shape-rendering": "crispEdges" });
  for (let at = 0; at < PARTS; at += 1) {
    draw(strip, "rect", { x: area.left + at * STRIP / PARTS, y: top, width: STRIP / PARTS, height: 11, fill: css(colours[Math.round(at / (PARTS - 1) * (colours.length - 1))]) });
  }
  draw(strip, "rect", { class: "hm-frame", x: area.left, y: top, width: STRIP, height: 11 });
  const label = (share, text) => draw(group, "text", { class: "tick hm-scale", x: area.left + share * STRIP, y: top + 24, "text-anchor": "middle" }, text);
  const row = layout.list[Math.floor(layout.list.length / 2)];
  const cell = view.linear ? `${span(width * 1e9)} × ${span(row.high - row.low)}` : `${span(width * 1e9)} × ${((row.high / row.low - 1) * 100).toFixed(1)} %`;
  const unit = other ? `Which of the two has the larger share of its column in a cell (${cell}). Single messages are pale: they prove little.`
    : unitOfCounts(view, scale, cell, fine);
  if (!other) countLabels(view, scale, label);
  else [[0, "A 32×"], [0.2, "8×"], [0.5, "same"], [0.8, "8×"], [1, "B 32×"]].forEach(([at, text]) => label(at, text));
  const beside = area.all - area.left - STRIP - 30 > 300;
  const x = area.left + (beside ? STRIP + 30 : 0), lines = broken(unit, (area.all - x) / CHARACTER), first = top + (beside ? 10 : 46);
  const text = draw(group, "text", { class: "tick hm-unit", x, y: first });
  lines.forEach((line, place) => draw(text, "tspan", { x, y: first + place * ROW }, line));
  let end = Math.max(top + 28, first + (lines.length - 1) * ROW + 4);
  if (!other && !view.old) end = lineKey(group, area, end);
  return end - area.base - BELOW + 8;
}
// The lines and rings that the map shows.
function lineKey(group, area, top) {
  const shown = LINES.map(([name]) => name).filter((name) => state.lines.has(name));
  let x = area.left;
  for (const name of state.outliers ? [...shown, "worst messages"] : shown) {
    if (shown.includes(name)) draw(group, "path", { class: "hm-line hm-" + name.replace(".", "-"), d: `M${x} ${top + 12}h24` });
    else draw(group, "circle", { class: "hm-ring", cx: x + 12, cy: top + 12, r: 4 });
    draw(group, "text", { class: "tick", x: x + 30, y: top + 16 }, name);
    x += 30 + name.length * CHARACTER + 18;
  }
  return x > area.left ? top + 20 : top;
}
// Lines of at most so many characters. Each keeps the space at its end.
function broken(words, most) {
  const lines = [""];
  for (const word of words.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length > most) lines.push("");
    lines[lines.length - 1] += word + " ";
  }
  return lines;
}
// Counts below the strip.
function countLabels(view, scale, label) {
  const most = scale.last, more = most < scale.most ? "\u2265\u202f" : "";
  if (view.old || view.scale === "linear") [[0, view.old ? "0" : "1"], [0.5, short(Math.round(most / 2))], [1, more + short(most)]].forEach(([at, text]) => label(at, text));
  else if (view.scale === "rank") [0, 0.25, 0.5, 0.75, 1].forEach((at) => label(at, short(scale.ranks[Math.round(at * (scale.ranks.length - 1))] || 1)));
  else {
    const whole = Math.log(Math.max(most, 2));
    let free = -1;
    for (let count = 1; count < most; count *= 10) {
      const at = Math.log(count) / whole;
      if (at - free > 0.12 && at < 0.86) { label(at, short(count)); free = at; }
    }
    label(1, more + short(Math.max(most, 2)));
  }
}
function unitOfCounts(view, scale, cell, fine) {
  const end = view.full === "p99.5" && view.scale !== "rank" ? `; the last colour begins at ${grouped(scale.last)}, p99.5 of the cells, and the fullest holds ${grouped(scale.most)}` : "";
  return `messages in a cell of ${cell}${end}${state.same && !view.old && ordered.length > 1 ? "; one scale for all maps" : ""}${fine ? `; columns of ${span(fine[0].width * 1e9)} within the dashed frame` : ""}`;
}

// ---- Words ------------------------------------------------------------------------------------------------------

function words(map, other, source, view, picture, scale) {
  const name = QUANTITIES.find(([quantity]) => quantity === state.quantity);
  title.textContent = other ? `A: ${map.title} · B: ${other.title} · ${name[1]}, difference` : `${map.title} · ${name[1]}`;
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
  fullChoice.update(() => !state.old && !state.versus && state.scale !== "rank");
  [...lineToggles, outlierToggle].forEach((button) => { button.update(); button.disabled = state.old || Boolean(state.versus); });
  oldToggle.update();
  oldToggle.disabled = Boolean(state.versus);
  sameToggle.update();
  sameToggle.hidden = ordered.length < 2;
  sameToggle.disabled = state.old || Boolean(state.versus);
  wholeButton.disabled = !state.t && !state.y;
}

// ---- The worst messages -----------------------------------------------------------------------------------------

let listed = null;
function updateList(map) {
  const key = map.id + state.quantity;
  if (listed !== key) {
    listed = key;
    list.replaceChildren(make("h3", {}, "Worst messages, one of each stall"));
    const rows = worstOf(map);
    if (!rows.length) list.append(make("p", { class: "caption" }, "None were kept."));
    else {
      const body = make("tbody");
      for (const outlier of rows) {
        const go = make("button", { type: "button", class: "hm-go", onclick: () => pick(outlier) }, grouped(outlier.seq));
        body.append(make("tr", { "data-seq": outlier.seq }, make("td", {}, go), make("td", {}, seconds(whenOf(outlier), 0.001)),
          make("td", {}, outlier.lost ? "lost" : span(outlier.rtt_ns)), make("td", {}, span(outlier.late_ns)), make("td", {}, grouped(outlier.messages))));
      }
      list.append(make("div", { class: "hm-scroll" }, make("table", {},
        make("thead", {}, make("tr", {}, make("th", {}, "seq"), make("th", {}, "due at"), make("th", {}, "RTT"), make("th", {}, "late"), make("th", {}, "messages"))), body)));
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
      const surface = make("canvas", { "aria-hidden": "true" });
    const over = document.createElementNS(SVG, "svg");
    over.setAttribute("aria-hidden", "true");
    const frame = make("div", { class: "hm-panel" }, surface, over);
    panel.querySelector(".hm-caption").before(frame);
    // Without a script it leads to the cell.
    panel.href = "#heat=" + panel.dataset.heatPanel;
    return { id: panel.dataset.heatPanel, panel, frame, surface, over };
  });
async function drawPanels(mine) {
  if (!panels.length) return;
  const quantity = shownPlane(), longest = Math.max(...panels.map(({ id }) => maps.get(id).seconds));
  const view = { ...viewOf(panels[0].id, true), t0: 0, t1: longest };
  const wide = Math.max(120, panels[0].frame.clientWidth), left = 46, height = 130;
  const area = { all: wide, left, top: 4, width: wide - left - 12, height, base: height + 4 };
  panels.forEach(({ id, panel }) => panel.classList.toggle("hm-current", id === state.map));
  // They show whole maps: zooming in the viewer leaves them as they are.
  const look = [quantity, wide, view.low, view.high, view.linear, view.scale, view.full, rampName(view), devicePixelRatio].join();
  if (look === drawPanels.look) return;
  const layout = view.old ? oldLayers(height) : layers(view, height);
  const sources = await Promise.all(panels.map(({ id }) => plane(id, quantity)));
  if (mine !== turn) return;
  const pictures = sources.map((source) => source && cells(source, layout, 0, longest, joined(source, 0, longest, area.width)));
  const lists = pictures.filter(Boolean).map((picture) => picture.counts);
  const ranks = view.scale === "rank" || view.full !== "max" ? ascending(lists) : null;
  const together = painter(view, lastAt(view, Math.max(1, ...lists.map(largest)), ranks), ranks);
  drawPanels.look = look;
  panels.forEach(({ id, frame, surface, over }, index) => {
    const picture = pictures[index];
    frame.hidden = !picture;
    if (!picture) return;
    // In 2011 each picture had a scale of its own.
    const colour = view.old ? painter(view, largest(picture.counts), null) : together;
    place(frame, surface, over, area, height + 26);
    paint(surface, view, area.width, height, [{ picture, layout, colour: (one, at) => (one.counts[at] ? colour(one.counts[at]) : 0) }]);
    over.replaceChildren();
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
  });
}
