// Shows /status, /policy, /pending and /estimate, and asks again by itself. All text is set as text, never as HTML.

const REFRESH_MS = 3000;
const ESTIMATE_MS = 60000;
const PAGE = 50;
let offset = 0;
let shownPolicy = "";
let token = sessionStorage.getItem("token") ?? "";

const byId = (id) => document.getElementById(id);

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function format(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function nameOf(label) {
  return typeof label === "string" ? label : JSON.stringify(label);
}

async function get(path) {
  const response = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  byId("login").hidden = response.status !== 401;
  if (!response.ok) {
    const refusal = await response.json().catch(() => ({}));
    throw Object.assign(new Error(refusal.error ?? response.statusText), { status: response.status });
  }
  return response.json();
}

function fill(table, head, rows) {
  const line = (cells, tag) => {
    const row = element("tr");
    for (const cell of cells) {
      const number = typeof cell === "number";
      row.append(element(tag, number ? format(cell) : cell instanceof Node ? "" : String(cell ?? "–"), number ? "number" : "name"));
      if (cell instanceof Node) row.lastChild.append(cell);
      if (tag === "th") row.lastChild.scope = "col";
    }
    return row;
  };
  const top = element("thead");
  top.append(line(head, "th"));
  const body = element("tbody");
  body.append(...rows.map((cells) => line(cells, "td")));
  table.replaceChildren(top, body);
}

function bars(values, label, limit = null) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const most = Math.max(...values, limit ?? 0, 1e-12);
  const least = Math.min(...values, limit ?? 0, 0);
  const height = (value) => (96 * (value - least)) / (most - least);
  const shape = (name, attributes) => {
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    svg.append(made);
  };
  svg.setAttribute("viewBox", `0 0 ${Math.max(values.length, 1)} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  values.forEach((value, i) => {
    const over = limit !== null && value > limit;
    shape("rect", { x: i + 0.1, y: 100 - height(value), width: 0.8, height: height(value), class: over ? "over" : "bar" });
  });
  if (limit !== null) {
    const y = 100 - height(limit);
    shape("line", { x1: 0, x2: Math.max(values.length, 1), y1: y, y2: y, class: "limit", "vector-effect": "non-scaling-stroke" });
  }
  return svg;
}

function span(hours) {
  const shown = [hours[0], hours.at(-1)].map((hour) => hour && new Date(hour).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }));
  return element("p", hours.length ? `by hour, ${shown[0]} to ${shown[1]}` : "", "soft");
}

function card(title, ...content) {
  const made = element("div", "", "card");
  made.append(element("h3", title), ...content);
  return made;
}

function showStatus(status, estimate) {
  document.title = status.title;
  byId("title").textContent = status.title;
  const hours = status.hours.slice(-48);
  const unit = (i) => (status.units[i] ? ` ${status.units[i]}` : "");
  const cards = status.cost_names.map((name, i) => {
    const recent = hours.map((hour) => hour.average_costs[i]);
    if (i === 0) {
      return card(`${name} (minimized)`, element("p", `${format(status.average_costs[i])}${unit(i)} on average`),
        bars(recent, `${name} by hour`), span(hours.map((hour) => hour.hour)));
    }
    const limit = status.limits[name];
    const over = limit.average > limit.limit;
    const use = element("p", `${format(limit.average)}${unit(i)} of at most ${format(limit.limit)}${unit(i)}`, over ? "bad" : "good");
    const difference = Math.abs(limit.limit - limit.average);
    const slack = element("p", over ? `exceeded by ${format(difference)}${unit(i)}` : `${format(difference)}${unit(i)} left`);
    const price = estimate?.costs[i].price;
    const worth = element("p", price ? `one more unit of it would save ${format(price)} of ${status.cost_names[0]}` : "", "soft");
    return card(name, use, slack, worth, bars(recent, `${name} by hour, with its limit`, limit.limit), span(hours.map((hour) => hour.hour)));
  });
  byId("limits").replaceChildren(...cards);
  const warnings = [];
  if (status.conflict.length) warnings.push(`These limits cannot all be kept; the nearest that can: ${Object.entries(status.nearest).map(([name, limit]) => `${name} ${format(limit)}`).join(", ")}.`);
  if (status.drift.alarms.length) warnings.push(`The environment seems to have changed (last noticed after ${status.drift.alarms.at(-1)} steps).`);
  if (byId("conflict").textContent !== warnings.join(" ")) byId("conflict").textContent = warnings.join(" ");
  byId("conflict").hidden = warnings.length === 0;
  const streams = Object.entries(status.streams).map(([name, steps]) => {
    const counts = Object.values(steps);
    return card(name || "(no name)", element("p", count(counts.reduce((sum, n) => sum + n, 0), "step")), bars(counts, "steps by hour"), span(Object.keys(steps)));
  });
  byId("streams").replaceChildren(...(streams.length ? streams.slice(0, 60) : [element("p", "No steps yet.")]));
  byId("waiting").textContent = `${count(status.pending, "decision")} pending, ${status.expired} of them expired.`;
  byId("live").textContent = `${count(status.steps, "step")}, ${count(status.plans, "plan")}; updated ${new Date().toLocaleTimeString()}`;
}

function showPolicy(policy) {
  if (JSON.stringify(policy) === shownPolicy) return;
  shownPolicy = JSON.stringify(policy);
  const rows = policy.rows.map((row) => {
    const likely = row.probabilities.map((p, a) => [p, policy.actions[a]]).filter(([p]) => p > 5e-4).sort((x, y) => y[0] - x[0]);
    const does = likely.map(([p, action]) => (p > 0.9995 ? String(action) : `${action} (${format(p)})`)).join(", ");
    const why = element("button", "Why?");
    why.type = "button";
    why.dataset.state = row.number;
    why.setAttribute("aria-label", `Why in ${nameOf(row.state)}?`);
    return [nameOf(row.state), does, why];
  });
  const focused = document.activeElement?.dataset.state;
  fill(byId("policy"), ["state", "action", "why"], rows);
  if (focused) document.querySelector(`[data-state="${Number(focused)}"]`)?.focus();
  const last = Math.min(offset + PAGE, policy.found);
  byId("range").textContent = policy.found ? `${offset + 1} to ${last} of ${policy.found} states` : "no states";
  byId("previous").disabled = offset === 0;
  byId("next").disabled = last >= policy.found;
}

function showEstimate(estimate) {
  const rows = estimate.costs.map((cost) => [cost.name, cost.average, cost.low, cost.high, cost.limit]);
  fill(byId("estimate"), ["cost", "best plan's average", "at least (95%)", "at most (95%)", "limit"], rows);
  const tried = `${estimate.pairs_tried} of ${estimate.pairs} pairs of state and action were tried in ${estimate.states} states.`;
  byId("sure").textContent = estimate.feasible ? tried : `${tried} The limits cannot all be kept: ${estimate.conflict.join(", ")}.`;
}

let estimate = null;
let estimated = -Infinity;

async function refresh() {
  try {
    const status = await get("/status");
    if (status.steps && performance.now() - estimated > ESTIMATE_MS) {
      estimated = performance.now();
      get("/estimate").then((found) => { estimate = found; showEstimate(found); }).catch((error) => {
        byId("sure").textContent = error.message;
        if (error.status === 409) estimated = -Infinity;
      });
    }
    showStatus(status, estimate);
    const search = encodeURIComponent(byId("search").value);
    showPolicy(await get(`/policy?offset=${offset}&limit=${PAGE}&search=${search}`));
    const pending = await get("/pending?most=20");
    fill(byId("pending"), ["id", "state", "action", "stream", "asked"],
      pending.map((one) => [String(one.id), nameOf(one.state), nameOf(one.action), one.stream, new Date(one.asked).toLocaleString()]));
  } catch (error) {
    byId("live").textContent = `No answer: ${error.message}`;
  }
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value;
  sessionStorage.setItem("token", token);
  refresh();
});
byId("policy").addEventListener("click", async (event) => {
  const number = event.target.dataset.state;
  if (number === undefined) return;
  const answer = await get(`/explain?state=${number}`).catch((error) => ({ text: error.message }));
  byId("why").textContent = answer.text;
});
byId("search").addEventListener("input", () => { offset = 0; refresh(); });
byId("previous").addEventListener("click", () => { offset = Math.max(offset - PAGE, 0); refresh(); });
byId("next").addEventListener("click", () => { offset += PAGE; refresh(); });

refresh();
setInterval(refresh, REFRESH_MS);
