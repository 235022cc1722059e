// The heat-map viewer, last part: pointer, keys, and what makes it draw again.
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
  const lane = view.old || py < EVENTS ? undefined : ticksOf()[Math.floor((py - EVENTS) / TICKS)];
  if (lane && py < ticksEnd()) {
    const [from, to] = [timeAt(px - 3), timeAt(px + 3)];
    const count = lane.counts.reduce((sum, [place, here]) => (place * lane.step_s >= from && place * lane.step_s < to ? sum + here : sum), 0);
    return { lines: [`${seconds(Math.max(from, 0), to - from)} to ${seconds(to, to - from)}`, `${grouped(count)} × ${lane.name}`] };
  }
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
