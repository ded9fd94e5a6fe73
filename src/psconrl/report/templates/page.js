// The page: charts whose lines can be hidden, the policies of each environment with their sliders, and the colors.

const PAUSE = 350; // milliseconds between plans when they are played
const MAX_FRAMES = 60;
const SLACK = 1e-6; // by which an exact average may miss its limit

const round = (x) => x.toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "−");
const whole = (x) => x.toLocaleString("en");

class Card {
  constructor(element, model, agent, explorer) {
    Object.assign(this, { element, model, agent, explorer });
    this.canvas = element.querySelector(".drawing");
    this.slider = element.querySelector("input[type=range]");
    this.output = element.querySelector(".readout");
    this.name = element.querySelector("h4").textContent;
    this.details = element.querySelector("details");
    if (this.details) this.details.addEventListener("toggle", () => this.draw());
    if (this.slider) this.slider.addEventListener("input", () => explorer.moved(this));
  }

  get snapshot() {
    return this.agent.snapshots[Number(this.slider.value)];
  }

  scene() {
    if (!this.agent) {
      const { policy, share } = this.model.optimal;
      const most = Math.max(...share);
      return new Scene(
        this.model,
        policy,
        (s) => Math.sqrt(share[s] / most),
        (s) => `${round(100 * share[s])}% of the time`,
      );
    }
    const { policy, visits } = this.snapshot;
    const most = Math.max(...visits, 1);
    const heat = (s) => (Math.log1p(visits[s]) / Math.log1p(most)) ** 2;
    return new Scene(this.model, policy, heat, (s) => `${whole(visits[s])} visits`);
  }

  draw() {
    if (this.element.hidden) return;
    const scene = this.scene();
    const { place } = this.explorer;
    const label = this.agent ? `${this.name}, policy from step ${whole(this.snapshot.start)} on` : this.name;
    this.canvas.replaceChildren(drawScene(scene, label, place, this.canvas.clientWidth));
    if (this.agent) this.describe();
    else this.output.replaceChildren("Warm: where it spends its time.", this.averages(this.model.optimal.averages));
    if (this.details && this.details.open)
      this.details.querySelector(".rows").replaceChildren(policyTable(scene, statesOnMap(this.model.map, place), label));
  }

  describe() {
    const { start, plan, length, phase, feasible, averages, layers, visits } = this.snapshot;
    const seen = visits.filter((n) => n > 0).length;
    const place = `plan ${whole(plan)} of ${whole(this.agent.plans)}`;
    const details = [
      `${seen} of ${visits.length} states visited before`,
      phase && `phase ${phase}`,
      layers > 1 && `step 1 of the ${layers} of the plan`,
      !feasible && "no policy met the limits in the planning model",
    ];
    this.output.replaceChildren(
      html("span", {}, html("b", {}, `Step ${whole(start)}`), ` · ${place}, kept for ${whole(length)} ${length === 1 ? "step" : "steps"}`),
      html("span", {}, details.filter(Boolean).join(" · ")),
      ...(averages ? [this.averages(averages)] : []),
    );
    this.slider.setAttribute("aria-valuetext", `step ${start}, ${place}${feasible ? "" : ", infeasible"}`);
  }

  // The executed policy, kept up for ever in the true model.
  averages(values) {
    const { costs, limits, optimum } = this.model;
    const parts = values.map((value, i) => {
      const level = i ? limits[i - 1] : optimum;
      const over = i > 0 && value > level + SLACK;
      const against = level === null ? "" : ` (${i ? "limit" : "optimum"} ${round(level)})`;
      return html("span", { class: over ? "over" : "" }, `${costs[i]} ${round(value)}${i ? (over ? " ✗" : " ✓") : ""}${against}`);
    });
    return html("span", { class: "averages" }, "In the long run: ", ...parts);
  }
}

class Explorer {
  constructor(element, model) {
    this.place = model.map && model.map.box ? model.map.places[0] : null;
    this.together = element.querySelector("[data-together]");
    this.cards = [...element.querySelectorAll(".card")].map((card) => {
      const k = card.dataset.agent;
      return new Card(card, model, k === undefined ? null : model.agents[Number(k)], this);
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
      model.map.places.forEach((place, k) =>
        boxes.append(html("option", { value: k }, `row ${place[0]}, column ${place[1]}${k ? "" : " (start)"}`)),
      );
      boxes.addEventListener("change", () => {
        this.place = model.map.places[Number(boxes.value)];
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

  // Sliders that move together show what each agent executes at the same time.
  moved(card) {
    card.draw();
    if (!this.together || !this.together.checked) return;
    const last = Number(card.slider.value) === Number(card.slider.max);
    const time = last ? Infinity : card.snapshot.start;
    for (const other of this.moving) if (other !== card) this.set(other, time);
  }

  set(card, time) {
    const { snapshots } = card.agent;
    let k = snapshots.length - 1;
    while (k > 0 && snapshots[k].start > time) k--;
    card.slider.value = k;
    card.draw();
  }

  start() {
    const starts = this.moving.flatMap((card) => card.agent.snapshots.map((snapshot) => snapshot.start));
    const times = [...new Set(starts)].sort((a, b) => a - b);
    const stride = Math.ceil(times.length / MAX_FRAMES);
    const frames = times.filter((_, k) => k % stride === 0 || k === times.length - 1);
    this.play.textContent = "Stop";
    let k = 0;
    const step = () => {
      for (const card of this.moving) this.set(card, frames[k]);
      if (++k >= frames.length) this.stop();
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

const environments = JSON.parse(document.getElementById("data").textContent);
for (const element of document.querySelectorAll("[data-environment]")) {
  new Explorer(element, environments[Number(element.dataset.environment)]);
}
for (const figure of document.querySelectorAll(".figure")) {
  figure.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-label]");
    if (!button) return;
    const shown = button.getAttribute("aria-pressed") !== "true";
    for (const part of figure.querySelectorAll("[data-label]")) {
      if (part.dataset.label !== button.dataset.label) continue;
      if (part.matches("button")) part.setAttribute("aria-pressed", String(shown));
      else part.classList.toggle("hidden-line", !shown);
    }
  });
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
