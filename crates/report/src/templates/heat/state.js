// The heat-map viewer, third part: what is shown, kept in the page's address, and the controls.
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
  map: ordered[0], quantity: "rtt", linear: false, scale: "log", full: "max", old: false, versus: null, pick: null,
  lines: new Set(["p50", "p99", "p99.9"]), outliers: true, same: true,
  t: null, y: null,
};
const usual = new Set(state.lines);
let back = [];

const reach = (quantity) => dataset.ranges[quantity] || dataset.ranges.rtt;
// What the viewer shows now: time in seconds, values in ns.
function viewOf(id = state.map, whole = false) {
  const map = maps.get(id);
  const [low, high] = reach(state.quantity);
  const view = {
    t0: 0, t1: Math.max(map.seconds, state.versus && !whole ? maps.get(state.versus).seconds : 0, 1e-3),
    low, high, linear: state.linear, scale: state.scale, full: state.full, old: state.old,
  };
  if (state.linear) view.low = 0;
  if (state.old) { view.linear = true; view.low = 0; view.high = dataset.old.step_ns * dataset.old.rows; view.scale = "linear"; view.full = "max"; }
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
  if (state.full !== "max") words.set("full", state.full);
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
    full: words.get("full") === "p99.5" ? "p99.5" : "max",
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
for (const map of dataset.maps) {
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
const fullChoice = choice("last colour", [["max", "fullest", "The last colour is the fullest cell: no count is above it."],
  ["p99.5", "p99.5", "The last colour begins at the count that 99.5 % of the cells with messages do not exceed: a few very full cells no longer pale the others."]],
  () => viewOf().full, (value) => { state.full = value; });
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
  ...(ordered.length > 1 ? [labelled("map", pickMap), labelled("compared with", pickOther)] : []), labelled("shows", quantityChoice),
  labelled("axis", axisChoice), labelled("colour", scaleChoice, sameToggle), labelled("last colour at", fullChoice),
  labelled("lines", ...lineToggles), labelled("also", outlierToggle, oldToggle, wholeButton));

const title = make("figcaption", {});
const canvas = make("canvas", { "aria-hidden": "true" });
const svg = document.createElementNS(SVG, "svg");
const box = make("div", { class: "hm-box", "aria-hidden": "true", hidden: true });
const note = make("div", { class: "hm-tip", hidden: true });
const stage = make("div", { class: "hm-stage", tabindex: "0", role: "application" }, canvas, svg, box, note);
const says = make("p", { class: "caption hm-says" });
const spoken = make("p", { class: "hm-spoken", role: "status" });
const keys = make("p", { class: "caption hm-keys" },
  "Drag a box to zoom, the wheel zooms in time, double-click or Esc goes back one step. Keys: arrows move the cursor, + and − zoom, Shift with arrows shifts, 0 shows the whole map, [ and ] change the map, o goes to the next of the worst messages. The address keeps the view.");
const list = make("div", { class: "hm-list" });
const detail = make("div", { class: "hm-detail", hidden: true });
const side = make("aside", { class: "hm-side", "aria-label": "worst messages" }, list, detail);
const main = make("figure", { class: "hm-main" }, title, stage, says, spoken, keys);
room.append(bar, make("div", { class: "hm-room" }, main, side));
main.dispatchEvent(new Event("figure", { bubbles: true }));
room.hidden = false;
