// Drawings of policies: on maps, arrows as long and dark as the action is likely; elsewhere a row for each state. Cells are
// as warm as they were often visited.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

const CELL = 60;
const MOVES = [
  [0, -1],
  [0, 1],
  [-1, 0],
  [1, 0],
]; // up, down, left, right: right and down
const SHOWN = 5; // thousandths: actions less likely are not drawn
const PRINTED = [45, 955]; // thousandths: only probabilities between these are printed
const LEGIBLE = 34; // pixels of a cell that leave room for them
const LONGEST = 108; // letters of a state's name
const BROAD = [130, 320]; // pixels of a line of it, at least and at most
const LINE = 12; // pixels from one line of it to the next
const CAPTION = 32; // letters of an action's name
const LISTED = 60; // rows of a policy shown as a table

const probabilities = (entry, actions) =>
  Array.isArray(entry) ? entry : Array.from({ length: actions }, (_, a) => (a === entry ? 1000 : 0));
const decimal = (thousandths) => (thousandths >= 995 ? "1" : (thousandths / 1000).toFixed(2).replace(/^0/, ""));

// What one drawing shows: a policy, and how warm each state is, with words for it.
class Scene {
  constructor(model, policy, heat, words) {
    Object.assign(this, { model, heat, words });
    this.policy = policy.map((entry) => probabilities(entry, model.actions.length));
  }
  describe(s) {
    const likely = this.policy[s]
      .map((p, a) => [p, a])
      .filter(([p]) => p >= SHOWN)
      .sort((a, b) => b[0] - a[0]);
    return likely.map(([p, a]) => `${this.model.actions[a]} ${decimal(p)}`).join(", ");
  }
  title(s) {
    return `${this.model.states[s]}: ${this.describe(s)}; ${this.words(s)}`;
  }
}

function drawScene(scene, label, place, room) {
  return scene.model.map ? drawMap(scene, label, place, room) : drawMatrix(scene, label, room);
}

// The states on the map: all of them, or those with the box at its chosen place.
function statesOnMap(map, place) {
  const states = map.agent.map((_, s) => s);
  if (!map.box) return states;
  const same = (a, b) => a[0] === b[0] && a[1] === b[1];
  return states.filter((s) => same(map.box[s], place) && !same(map.box[s], map.agent[s]));
}

function drawMap(scene, label, place, room) {
  const { map } = scene.model;
  const rows = map.rows.map((row) => [...row].map((letter) => (letter === "X" ? "." : letter)));
  // A border of walls is drawn as a frame.
  const walled =
    rows.length > 2 &&
    rows[0].length > 2 &&
    [rows[0], rows[rows.length - 1], rows.map((row) => row[0]), rows.map((row) => row[row.length - 1])].every((side) =>
      side.every((letter) => letter === "W"),
    );
  const rim = walled ? 1 : 0;
  const [high, wide] = [rows.length - 2 * rim, rows[0].length - 2 * rim];
  const cells = svg("g", {});
  const arrows = svg("g", { class: "arrows" });
  const states = new Map(statesOnMap(map, place).map((s) => [map.agent[s].join(), s]));
  const legible = room / wide >= LEGIBLE;
  for (let r = 0; r < high; r++) {
    for (let c = 0; c < wide; c++) {
      const letter = rows[r + rim][c + rim];
      const s = states.get([r + rim, c + rim].join());
      const [x, y] = [c * CELL, r * CELL];
      const boxed = map.box && place[0] === r + rim && place[1] === c + rim;
      const group = svg("g", { class: "cell", transform: `translate(${x} ${y})`, "data-state": s });
      group.append(svg("rect", { class: letter === "W" ? "wall" : "floor", width: CELL, height: CELL }));
      if (s !== undefined)
        group.append(
          svg("rect", { class: "heat", width: CELL, height: CELL, "fill-opacity": scene.heat(s).toFixed(3) }),
        );
      if (letter === "P")
        group.append(
          svg("path", { class: "risk", d: hatching(CELL) }),
          svg("rect", { class: "risk", x: 2, y: 2, width: CELL - 4, height: CELL - 4 }),
        );
      if (boxed) group.append(svg("rect", { class: "box", x: 9, y: 9, width: CELL - 18, height: CELL - 18, rx: 6 }));
      if (letter === "S")
        group.append(
          svg("rect", { class: "start", x: 3.5, y: 3.5, width: CELL - 7, height: CELL - 7, rx: 5 }),
          svg("text", { class: "letter", x: 7, y: 13.5 }, "S"),
        );
      if (letter === "G")
        group.append(
          svg("rect", { class: "goal", x: 9, y: 9, width: CELL - 18, height: CELL - 18, rx: CELL }),
          svg("text", { class: "letter", x: CELL / 2, y: CELL / 2 + 5.5, "text-anchor": "middle" }, "G"),
        );
      if (s !== undefined) group.append(svg("title", {}, scene.title(s)));
      cells.append(group);
      // At a goal all actions are alike.
      if (s !== undefined && letter !== "G")
        arrows.append(...arrowsOf(scene.policy[s], x + CELL / 2, y + CELL / 2, legible));
    }
  }
  const edge = 5;
  return svg(
    "svg",
    {
      class: "map",
      role: "img",
      "aria-label": label,
      viewBox: `${-edge} ${-edge} ${wide * CELL + 2 * edge} ${high * CELL + 2 * edge}`,
    },
    cells,
    arrows,
    svg("rect", { class: "frame", x: -2.5, y: -2.5, width: wide * CELL + 5, height: high * CELL + 5, rx: 4 }),
  );
}

function hatching(size) {
  const step = size / 4;
  let path = "";
  for (let k = 1; k < 8; k++) {
    const at = k * step;
    path += at <= size ? `M0 ${at}L${at} 0` : `M${at - size} ${size}L${size} ${at - size}`;
  }
  return path;
}

function arrowsOf(shares, x, y, legible) {
  const drawn = shares.map((p, a) => [p, a]).filter(([p]) => p >= SHOWN);
  const uniform = shares.every((p) => p === shares[0]);
  return drawn.map(([p, a]) => {
    const [dx, dy] = MOVES[a];
    const alone = drawn.length === 1;
    const start = alone ? -0.26 : 0.04;
    const end = alone ? 0.26 : 0.22 + (0.2 * p) / 1000;
    const place = (along, aside) =>
      `${(x + CELL * (along * dx - aside * dy)).toFixed(1)},${(y + CELL * (along * dy + aside * dx)).toFixed(1)}`;
    const head = end - 0.15;
    const points = [
      [start, 0.022],
      [head, 0.022],
      [head, 0.085],
      [end, 0],
      [head, -0.085],
      [head, -0.022],
      [start, -0.022],
    ];
    const group = svg(
      "g",
      { opacity: (0.4 + (0.6 * p) / 1000).toFixed(2) },
      svg("polygon", { points: points.map(([u, v]) => place(u, v)).join(" ") }),
    );
    if (alone || uniform || !legible || p < PRINTED[0] || p > PRINTED[1]) return group;
    // Each beside its shaft in a quadrant of its own, clockwise from it.
    const text = svg(
      "text",
      { x: x + CELL * (0.25 * dx - 0.23 * dy), y: y + CELL * (0.3 * dy + 0.175 * dx) + 3.6, "text-anchor": "middle" },
      decimal(p),
    );
    return svg("g", {}, group, text);
  });
}

// Names that are too long keep both ends: those of one model tend to differ there.
function shortened(name, longest) {
  const half = (longest - 1) / 2;
  return name.length > longest ? `${name.slice(0, Math.ceil(half))}…${name.slice(-Math.floor(half))}` : name;
}

const ruler = document.createElement("canvas").getContext("2d");
const breadth = (text) => {
  ruler.font = "11px system-ui, sans-serif"; // as in the style sheet
  return ruler.measureText(text).width;
};

// A name in lines of words; a word that is too broad has a line of its own.
function inLines(name, broad) {
  const lines = [""];
  for (const word of shortened(name, LONGEST).split(" ")) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines[lines.length - 1] && breadth(longer) > broad) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

// Models without a map: a row for each state, a column for each action, and the visits at the end of the row. Where an
// action is not available there is no cell.
function drawMatrix(scene, label, room) {
  const { states, actions, available } = scene.model;
  const shown = Math.min(states.length, LISTED);
  const wide = 38;
  const captions = [...actions, "visited"].map((name) => shortened(name, CAPTION));
  const slanted = captions.some((name) => breadth(name) > wide - 4);
  const top = slanted ? 16 + 0.87 * Math.max(...captions.map(breadth)) : 24;
  const middles = captions.map((_, a) => wide * (a + 0.5) + (a === actions.length ? 6 : 0));
  // Slanted captions lean out to the right; names have what is left of the room.
  const right = Math.max(
    wide * captions.length + 10,
    ...captions.map((name, a) => (slanted ? middles[a] + 6 + 0.5 * breadth(name) : 0)),
  );
  const names = states.slice(0, shown).map((name) => inLines(name, clamp(room - right - 14, ...BROAD)));
  const high = Math.max(24, 8 + LINE * Math.max(...names.map((lines) => lines.length)));
  const left = 14 + Math.max(...names.flat().map(breadth));
  const width = left + right;
  const parts = captions.map((name, a) => {
    const x = left + middles[a] + (slanted ? 4 : 0);
    const turn = slanted ? `rotate(-60 ${x} ${top - 8})` : null;
    const anchor = slanted ? "start" : "middle";
    return svg("text", { class: "name", x, y: top - 8, transform: turn, "text-anchor": anchor }, name);
  });
  for (let s = 0; s < shown; s++) {
    const y = top + s * high;
    const middle = y + high / 2;
    const group = svg(
      "g",
      { class: "cell", "data-state": s },
      ...names[s].map((text, k) =>
        svg(
          "text",
          { class: "name", x: left - 8, y: middle + 4 + LINE * (k - (names[s].length - 1) / 2), "text-anchor": "end" },
          text,
        ),
      ),
    );
    scene.policy[s].forEach((p, a) => {
      if (available && !available[s].includes(a)) return;
      const x = left + a * wide;
      group.append(
        svg("rect", { class: "floor", x, y, width: wide, height: high }),
        svg("rect", { class: "share", x, y: y + high * (1 - p / 1000), width: wide, height: (high * p) / 1000 }),
      );
      if (p >= SHOWN)
        group.append(
          svg("text", { class: "digits", x: x + wide / 2, y: middle + 4, "text-anchor": "middle" }, decimal(p)),
        );
    });
    const x = left + actions.length * wide + 6;
    group.append(
      svg("rect", { class: "floor", x, y, width: wide, height: high }),
      svg("rect", { class: "heat", x, y, width: wide, height: high, "fill-opacity": scene.heat(s).toFixed(3) }),
      svg("title", {}, scene.title(s)),
    );
    parts.push(group);
  }
  const more = states.length > shown ? 22 : 0;
  if (more)
    parts.push(svg("text", { x: left, y: top + shown * high + 16 }, `and ${states.length - shown} more states`));
  return svg(
    "svg",
    {
      class: "map matrix",
      role: "img",
      "aria-label": label,
      width,
      viewBox: `0 0 ${width} ${top + shown * high + more + 4}`,
    },
    ...parts,
  );
}

// The drawing as a table, for those who cannot see it.
function policyTable(scene, states, label) {
  const head = html("tr", {}, ...["State", "Actions", "How often"].map((text) => html("th", { scope: "col" }, text)));
  const rows = states.map((s) =>
    html(
      "tr",
      {},
      html("th", { scope: "row" }, scene.model.states[s]),
      html("td", {}, scene.describe(s)),
      html("td", {}, scene.words(s)),
    ),
  );
  return html(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    html("table", {}, html("caption", {}, label), html("thead", {}, head), html("tbody", {}, ...rows)),
  );
}
