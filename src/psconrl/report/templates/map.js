// Drawings of policies: on maps, arrows as long and dark as the action is likely; elsewhere a table. Cells are as warm as
// they were often visited.

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

const CELL = 60;
const MOVES = [[0, -1], [0, 1], [-1, 0], [1, 0]]; // up, down, left, right: right and down
const SHOWN = 5; // thousandths: actions less likely are not drawn
const PRINTED = [45, 955]; // thousandths: only probabilities between these are printed
const LEGIBLE = 34; // pixels of a cell that leave room for them
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
  return scene.model.map ? drawMap(scene, label, place, room) : drawTable(scene, label);
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
  const [high, wide] = [rows.length, rows[0].length];
  // Of a border of walls only the rim is drawn.
  const sides = [rows[0], rows[high - 1], rows.map((row) => row[0]), rows.map((row) => row[wide - 1])];
  const cut = sides.every((side) => side.every((letter) => letter === "W")) ? 0.9 : 0;
  const cells = svg("g", {});
  const arrows = svg("g", { class: "arrows" });
  const states = new Map(statesOnMap(map, place).map((s) => [map.agent[s].join(), s]));
  const legible = room / (wide - 2 * cut) >= LEGIBLE;
  for (let r = 0; r < high; r++) {
    for (let c = 0; c < wide; c++) {
      const letter = rows[r][c];
      const s = states.get([r, c].join());
      const [x, y] = [c * CELL, r * CELL];
      const boxed = map.box && place[0] === r && place[1] === c;
      const group = svg("g", { class: "cell", transform: `translate(${x} ${y})`, "data-state": s });
      group.append(svg("rect", { class: letter === "W" ? "wall" : "floor", width: CELL, height: CELL }));
      if (s !== undefined)
        group.append(
          svg("rect", { class: "heat", width: CELL, height: CELL, "fill-opacity": scene.heat(s).toFixed(3) }),
        );
      if (letter === "P")
        group.append(svg("rect", { class: "risk", x: 4, y: 4, width: CELL - 8, height: CELL - 8 }));
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
  const box = [cut, cut, wide - 2 * cut, high - 2 * cut].map((cells) => cells * CELL);
  return svg("svg", { class: "map", viewBox: box.join(" "), role: "img", "aria-label": label }, cells, arrows);
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
    const half = [[start, 0.022], [head, 0.022], [head, 0.085]];
    const points = [...half, [end, 0], ...half.reverse().map(([along, aside]) => [along, -aside])];
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

// Models without a map: a row for each state, a column for each action, and the visits at the end of the row. Where an
// action is not available nothing is drawn.
function drawTable(scene, label) {
  const { states, actions, available } = scene.model;
  const filled = (kind, share, text) => {
    const cell = html("td", { class: kind }, text);
    cell.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
    return cell;
  };
  const rows = states.slice(0, LISTED).map((name, s) => {
    const shares = scene.policy[s].map((p, a) =>
      available && !available[s].includes(a) ? html("td", {}) : filled("share", p / 1000, p >= SHOWN ? decimal(p) : ""),
    );
    const visits = filled("heat", scene.heat(s), html("span", { class: "hidden" }, scene.words(s)));
    return html("tr", { title: scene.title(s) }, html("th", { scope: "row" }, name), ...shares, visits);
  });
  const more = states.length > rows.length ? [html("p", {}, `and ${states.length - rows.length} more states`)] : [];
  return framed(["State", ...actions, "Visited"], rows, label, "matrix", ...more);
}

// The drawing as a table, for those who cannot see it.
function policyTable(scene, states, label) {
  const rows = states.map((s) => {
    const cells = [scene.describe(s), scene.words(s)].map((text) => html("td", {}, text));
    return html("tr", {}, html("th", { scope: "row" }, scene.model.states[s]), ...cells);
  });
  return framed(["State", "Actions", "How often"], rows, label, null);
}

// A table that can be scrolled where it is too wide.
function framed(names, rows, label, kind, ...below) {
  const head = html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name)));
  const table = html("table", { class: kind }, html("thead", {}, head), html("tbody", {}, ...rows));
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table, ...below);
}
