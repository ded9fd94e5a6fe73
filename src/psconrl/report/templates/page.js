// The page: figures, the policies of each environment with their sliders, and the colours.

const PAUSE = 350; // milliseconds between plans when they are played

class Card {
  constructor(element, world, agent, explorer) {
    Object.assign(this, { element, world, agent, explorer });
    this.canvas = element.querySelector(".drawing");
    this.slider = element.querySelector("input[type=range]");
    this.output = element.querySelector(".readout");
    this.name = element.querySelector(".card-title").textContent.trim();
    const details = element.querySelector("details");
    this.table = details.querySelector(".tables");
    details.addEventListener("toggle", () => this.draw());
    this.open = () => details.open;
    if (this.slider) this.slider.addEventListener("input", () => explorer.moved(this));
  }

  get snapshot() {
    return this.agent.snapshots[Number(this.slider.value)];
  }

  scene() {
    if (!this.agent) {
      const { policy, share } = this.world.optimal;
      const most = Math.max(...share);
      return new Scene(
        this.world,
        policy,
        (s) => Math.sqrt(share[s] / most),
        (s) => `${number(100 * share[s])}% of the time`,
      );
    }
    const { policy, visits } = this.snapshot;
    const most = Math.max(...visits, 1);
    const heat = (s) => (Math.log1p(visits[s]) / Math.log1p(most)) ** 2;
    return new Scene(this.world, policy, heat, (s) => `${visits[s].toLocaleString("en")} visits`);
  }

  draw() {
    if (this.element.hidden) return;
    const scene = this.scene();
    const { place } = this.explorer;
    const label = this.agent
      ? `${this.name}, policy from round ${this.snapshot.start.toLocaleString("en")} on`
      : `${this.name}`;
    this.canvas.replaceChildren(drawScene(scene, label, place, this.canvas.clientWidth));
    if (this.agent) this.describe();
    else
      this.output.replaceChildren(
        html("span", {}, "Warm: where it spends its time."),
        this.judge(this.world.optimal.averages),
      );
    if (this.open()) {
      const states = this.world.map
        ? statesOnMap(this.world.map, place)
        : this.world.states.map((_, s) => s).slice(0, LISTED);
      this.table.replaceChildren(policyTable(scene, states, label));
    }
  }

  describe() {
    const { start, plan, length, phase, feasible, averages, layers, visits } = this.snapshot;
    const kind = feasible ? "" : " · the planning model admitted no policy";
    const seen = visits.filter((n) => n > 0).length;
    const rounds = length === 1 ? "1 round" : `${length.toLocaleString("en")} rounds`;
    const lines = [
      html(
        "span",
        { class: "when" },
        html("b", {}, `Round ${start.toLocaleString("en")}`),
        ` · plan ${plan.toLocaleString("en")} of ${this.agent.plans.toLocaleString("en")}, kept for ${rounds}`,
      ),
      html("span", {}, `${phase ? `Phase ${phase} · ` : ""}${seen} of ${visits.length} states visited before${kind}`),
    ];
    if (layers) lines.push(html("span", {}, `Step 1 of the ${layers} that the plan is made of`));
    if (averages) lines.push(this.judge(averages));
    this.output.replaceChildren(...lines);
    this.slider.setAttribute(
      "aria-valuetext",
      `round ${start}, plan ${plan} of ${this.agent.plans}${feasible ? "" : ", infeasible"}`,
    );
  }

  // The executed policy, kept up for ever in the true model.
  judge(averages) {
    const { costs, limits, optimum } = this.world;
    const parts = averages.map((value, i) => {
      const level = i ? limits[i - 1] : optimum;
      const over = value - level > 1e-6;
      const against = level === null ? "" : i ? ` (limit ${number(level)})` : ` (optimum ${number(level)})`;
      const mark = i ? (over ? " ✗" : " ✓") : "";
      return html(
        "span",
        { class: i && over ? "over" : "" },
        `${costs[i]} ${number(Number(value.toFixed(4)))}${mark}${against}`,
      );
    });
    return html("span", { class: "judged" }, "In the long run: ", ...parts);
  }
}

class Explorer {
  constructor(element, world) {
    this.place = world.map && world.map.box ? world.map.places[0] : null;
    this.together = element.querySelector("[data-together]");
    this.cards = [...element.querySelectorAll(".card")].map((card) => {
      const k = card.dataset.agent;
      return new Card(card, world, k === undefined ? null : world.agents[Number(k)], this);
    });
    for (const button of element.querySelectorAll("[data-show]")) {
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        const card = this.cards.find((other) => other.element.dataset.agent === button.dataset.show);
        card.element.hidden = !shown;
        card.draw();
      });
    }
    const boxes = element.querySelector("[data-box]");
    if (boxes) {
      world.map.places.forEach((place, k) =>
        boxes.append(html("option", { value: k }, `row ${place[0]}, column ${place[1]}${k ? "" : " (start)"}`)),
      );
      boxes.addEventListener("change", () => {
        this.place = world.map.places[Number(boxes.value)];
        this.draw();
      });
    }
    this.play = element.querySelector("[data-play]");
    if (this.play) this.play.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
    this.draw();
  }

  get moving() {
    return this.cards.filter((card) => card.agent && !card.element.hidden);
  }

  draw() {
    for (const card of this.cards) card.draw();
  }

  // Sliders that move together show what each agent executes at the same round.
  moved(card) {
    card.draw();
    if (!this.together || !this.together.checked) return;
    const last = Number(card.slider.value) === Number(card.slider.max);
    const round = last ? Infinity : card.snapshot.start;
    for (const other of this.moving) if (other !== card) this.set(other, round);
  }

  set(card, round) {
    const { snapshots } = card.agent;
    let k = snapshots.length - 1;
    while (k > 0 && snapshots[k].start > round) k--;
    card.slider.value = k;
    card.draw();
  }

  start() {
    const rounds = [
      ...new Set(this.moving.flatMap((card) => card.agent.snapshots.map((snapshot) => snapshot.start))),
    ].sort((a, b) => a - b);
    const most = 60;
    const steps = rounds.filter((_, k) => k % Math.ceil(rounds.length / most) === 0 || k === rounds.length - 1);
    this.play.textContent = "Stop";
    let k = 0;
    const step = () => {
      for (const card of this.moving) this.set(card, steps[k]);
      if (++k >= steps.length) this.stop();
    };
    this.timer = setInterval(step, PAUSE);
    step();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
  }
}

for (const element of document.querySelectorAll("[data-figure]")) {
  new Figure(element, data.figures[element.dataset.figure], element.dataset.figure);
}
for (const element of document.querySelectorAll("[data-world]")) {
  new Explorer(element, data.worlds[Number(element.dataset.world)]);
}
const theme = document.getElementById("theme");
theme.addEventListener("change", () => (document.documentElement.dataset.theme = theme.value));
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy";
    }
  });
}
document.documentElement.dataset.ready = "true";
