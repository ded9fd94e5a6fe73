// Figures: a legend whose buttons show and hide agents, and strips of panels that are zoomed and read off together.

const HEIGHT = 250;
const DRAG = 6; // pixels before a press becomes a drag
const TABLE_ROWS = 11;

class Scale {
  constructor(low, high, from, to, logarithmic) {
    Object.assign(this, { low, high, from, to, logarithmic });
    const t = logarithmic ? Math.log10 : (x) => x;
    this.forward = t;
    this.backward = logarithmic ? (x) => 10 ** x : (x) => x;
    this.ratio = (to - from) / (t(high) - t(low) || 1);
  }
  at(x) {
    return this.from + (this.forward(x) - this.forward(this.low)) * this.ratio;
  }
  value(pixel) {
    return this.backward(this.forward(this.low) + (pixel - this.from) / this.ratio);
  }
  ticks(most) {
    return this.logarithmic && this.high / this.low >= 10
      ? decades(this.low, this.high)
      : round(this.low, this.high, most);
  }
}

function round(low, high, most) {
  const raw = (high - low) / Math.max(most, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * (1 - 1e-9));
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++)
    ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

function decades(low, high) {
  const ticks = [];
  const few = high / low < 1000;
  for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++) {
    for (const m of few ? [1, 2, 5] : [1]) if (m * 10 ** k >= low && m * 10 ** k <= high) ticks.push(m * 10 ** k);
  }
  return ticks;
}

function nearest(xs, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

const withInterval = (line, k) =>
  number(line.mean[k]) + (line.low && line.low[k] !== null ? ` [${number(line.low[k])}, ${number(line.high[k])}]` : "");

class Panel {
  constructor(place, content, strip, name) {
    this.content = content;
    this.strip = strip;
    this.clip = `clip-${name}`;
    this.svg = svg("svg", {
      class: "plot",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": `${content.title}. ${content.lines.map((line) => line.label).join(", ")}. Over ${content.x.toLowerCase()}.`,
      "aria-describedby": "chart-keys",
    });
    this.tip = html("div", { class: "tip", hidden: "", "aria-hidden": "true" });
    place.append(this.svg, this.tip);
    this.place = place;
    this.listen();
    new ResizeObserver(() => {
      if (place.clientWidth && place.clientWidth !== this.width) this.draw();
    }).observe(place);
  }

  get lines() {
    return this.content.lines.filter((line) => !this.strip.figure.hidden.has(line.label));
  }

  // Where lines lie, zoomed or not; null if all are hidden.
  ranges() {
    const { content, strip } = this;
    const xs = content.lines
      .flatMap((line) => [line.x[0], line.x[line.x.length - 1]])
      .concat(content.ticks.map((tick) => tick[0]));
    if (!xs.length) return null;
    let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    this.whole = [content.log ? x0 : Math.min(0, x0), x1];
    [x0, x1] = strip.zoom ? [Math.max(strip.zoom[0], this.whole[0]), Math.min(strip.zoom[1], x1)] : this.whole;
    if (content.log && content.ticks.length && !strip.zoom) [x0, x1] = [x0 / 1.4, x1 * 1.6];
    if (!(x1 > x0)) x1 = x0 + 1;
    const ys = [];
    for (const line of this.lines) {
      line.x.forEach((x, k) => {
        if (x >= x0 && x <= x1) ys.push(line.mean[k], line.low ? line.low[k] : null, line.high ? line.high[k] : null);
      });
    }
    if (!strip.zoom) ys.push(...content.levels.map((level) => level.value));
    const log = content.log === "both";
    const finite = ys.filter((y) => y !== null && (!log || y > 0));
    let [y0, y1] = finite.length ? [Math.min(...finite), Math.max(...finite)] : [log ? 1 : 0, log ? 10 : 1];
    if (content.limits && !strip.zoom) [y0, y1] = content.limits;
    else if (log) [y0, y1] = [y0 / 1.1, y1 * 1.1];
    else {
      const pad = (y1 - y0 || Math.abs(y1) || 1) * 0.06;
      [y0, y1] = [y0 === 0 ? 0 : y0 - pad, y1 === 0 ? 0 : y1 + pad];
      if (y0 === y1) y1 = 1;
    }
    return { x0, x1, y0, y1 };
  }

  draw() {
    this.width = Math.max(this.place.clientWidth, 240);
    const range = this.ranges();
    if (!range) {
      this.svg.setAttribute("viewBox", `0 0 ${this.width} 60`);
      this.svg.replaceChildren(svg("text", { x: 0, y: 30 }, "There is no such quantity in these runs."));
      return;
    }
    const { content } = this;
    const logY = content.log === "both";
    const yTicks = new Scale(range.y0, range.y1, 0, 1, logY).ticks(5);
    const left = 14 + 7 * Math.max(...yTicks.map((tick) => number(tick).length), 1);
    const [top, right, bottom] = [10, 16, 42];
    this.frame = { left, right: this.width - right, top, bottom: HEIGHT - bottom };
    const { frame } = this;
    this.x = new Scale(range.x0, range.x1, frame.left, frame.right, Boolean(content.log));
    this.y = new Scale(range.y0, range.y1, frame.bottom, frame.top, logY);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.marks = svg("g", { class: "marks" });
    this.svg.replaceChildren(
      svg(
        "clipPath",
        { id: this.clip },
        svg("rect", { x: left, y: top - 2, width: frame.right - left + 2, height: frame.bottom - top + 4 }),
      ),
      this.axes(yTicks),
      svg(
        "g",
        { "clip-path": `url(#${this.clip})` },
        ...content.levels.map((level) => this.level(level)),
        ...this.lines.map((line) => this.band(line)),
        ...this.lines.map((line) => this.line(line)),
      ),
      this.marks,
    );
    this.point();
  }

  axes(yTicks) {
    const { frame, content } = this;
    const group = svg("g", { class: "axes" });
    for (const tick of yTicks) {
      const y = this.y.at(tick);
      group.append(
        svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y, y2: y }),
        svg("text", { x: frame.left - 7, y: y + 4, "text-anchor": "end" }, number(tick)),
      );
    }
    const room = Math.floor((frame.right - frame.left) / 75);
    const named = content.ticks.filter(([x]) => x >= this.x.low && x <= this.x.high);
    const ticks = content.ticks.length ? named : this.x.ticks(clamp(room, 2, 6)).map((x) => [x, number(x)]);
    let free = -Infinity;
    for (const [x, text] of ticks) {
      const at = this.x.at(x);
      group.append(svg("line", { class: "tick", x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 5 }));
      const half = 3.6 * text.length;
      if (at - half < free) continue;
      free = at + half + 6;
      group.append(
        svg("text", { x: Math.min(at, this.width - half - 1), y: frame.bottom + 18, "text-anchor": "middle" }, text),
      );
    }
    group.append(
      svg("line", { class: "axis", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom }),
      svg(
        "text",
        { class: "name", x: (frame.left + frame.right) / 2, y: HEIGHT - 6, "text-anchor": "middle" },
        content.x,
      ),
    );
    return group;
  }

  level(level) {
    const y = this.y.at(level.value);
    const { frame } = this;
    // Levels are named in the caption, where no line crosses their names.
    return svg("g", { class: `level ${level.kind}` }, svg("line", { x1: frame.left, x2: frame.right, y1: y, y2: y }));
  }

  places(line, values) {
    const known = line.x.map((x, k) => [x, values[k]]).filter(([, y]) => y !== null && (!this.y.logarithmic || y > 0));
    return known.map(([x, y]) => `${this.x.at(x).toFixed(1)} ${this.y.at(y).toFixed(1)}`);
  }

  band(line) {
    if (!line.low) return null;
    const { colour } = this.strip.figure.look(line.label);
    const [low, high] = [this.places(line, line.low), this.places(line, line.high)];
    if (line.x.length === 1) return svg("path", { class: `line c${colour}`, d: `M${low[0]}L${high[0]}` });
    return svg("path", { class: `band c${colour}`, d: `M${high.join("L")}L${low.reverse().join("L")}Z` });
  }

  line(line) {
    const { colour, dash } = this.strip.figure.look(line.label);
    const places = this.places(line, line.mean);
    const group = svg("g", { class: "series", "data-label": line.label });
    if (places.length > 1)
      group.append(
        svg("path", { class: `line c${colour}`, "stroke-dasharray": dash || null, d: `M${places.join("L")}` }),
      );
    if (line.marker || places.length === 1) {
      for (const place of places) {
        const [x, y] = place.split(" ").map(Number);
        group.append(
          line.marker === "D"
            ? svg("path", { class: `dot c${colour}`, d: `M${x} ${y - 5}l5 5l-5 5l-5-5Z` })
            : svg("circle", { class: `dot c${colour}`, cx: x, cy: y, r: 3.5 }),
        );
      }
    }
    return group;
  }

  // The values of all shown lines at the strip's cursor.
  point() {
    const { cursor } = this.strip;
    this.marks.replaceChildren();
    const inside = cursor !== null && this.lines.length && cursor >= this.x.low && cursor <= this.x.high;
    this.tip.hidden = !inside;
    if (!inside) return "";
    const read = this.lines.map((line) => [line, nearest(line.x, cursor)]).filter(([line, k]) => line.mean[k] !== null);
    if (!read.length) return "";
    const x = read[0][0].x[read[0][1]];
    const at = this.x.at(clamp(x, this.x.low, this.x.high));
    this.marks.append(svg("line", { class: "cross", x1: at, x2: at, y1: this.frame.top, y2: this.frame.bottom }));
    for (const [line, k] of read) {
      const y = this.y.at(line.mean[k]);
      if (y >= this.frame.top - 3 && y <= this.frame.bottom + 3) {
        this.marks.append(
          svg("circle", {
            class: `dot c${this.strip.figure.look(line.label).colour}`,
            cx: this.x.at(line.x[k]),
            cy: y,
            r: 4,
          }),
        );
      }
    }
    read.sort((a, b) => b[0].mean[b[1]] - a[0].mean[a[1]]);
    const name = this.content.ticks.find((tick) => tick[0] === x);
    const where = `${this.content.x} ${name ? name[1] : number(x)}`;
    this.tip.replaceChildren(
      html("div", { class: "where" }, where),
      ...read.map(([line, k]) =>
        html(
          "div",
          { class: "value" },
          this.strip.figure.swatch(line.label),
          html("span", {}, line.label),
          html("b", {}, withInterval(line, k)),
        ),
      ),
    );
    const half = (this.frame.left + this.frame.right) / 2;
    const scale = this.place.clientWidth / this.width;
    this.tip.style.left = at <= half ? `${(at + 12) * scale}px` : "auto";
    this.tip.style.right = at > half ? `${(this.width - at + 12) * scale}px` : "auto";
    return `${where}: ${read.map(([line, k]) => `${line.label} ${withInterval(line, k)}`).join("; ")}.`;
  }

  pixel(event) {
    const box = this.svg.getBoundingClientRect();
    return clamp(((event.clientX - box.left) * this.width) / box.width, this.frame.left, this.frame.right);
  }

  listen() {
    const { svg: area, strip } = this;
    let from = null;
    let moved = false;
    area.addEventListener("pointerdown", (event) => {
      if (event.button || !this.frame) return;
      from = this.pixel(event);
      moved = false;
      area.setPointerCapture(event.pointerId);
      strip.point(this.x.value(from));
    });
    area.addEventListener("pointermove", (event) => {
      if (!this.frame) return;
      const to = this.pixel(event);
      if (from !== null && Math.abs(to - from) > DRAG) moved = true;
      if (!moved) return strip.point(this.x.value(to));
      strip.point(null);
      this.marks.replaceChildren(
        svg("rect", {
          class: "selection",
          x: Math.min(from, to),
          width: Math.abs(to - from),
          y: this.frame.top,
          height: this.frame.bottom - this.frame.top,
        }),
      );
    });
    area.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = this.pixel(event);
      if (moved) strip.show([this.x.value(Math.min(from, to)), this.x.value(Math.max(from, to))]);
      from = null;
      moved = false;
    });
    area.addEventListener("pointercancel", () => {
      from = null;
      moved = false;
      strip.point(null);
    });
    // What a finger has tapped stays until something else is.
    area.addEventListener("pointerleave", (event) => {
      if (from === null && event.pointerType !== "touch") strip.point(null);
    });
    area.addEventListener("blur", () => strip.point(null));
    area.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || !this.lines.length) return;
    const { strip } = this;
    const xs = this.lines.reduce((most, line) => (line.x.length > most.length ? line.x : most), []);
    const seen = xs.filter((x) => x >= this.x.low && x <= this.x.high);
    const at = strip.cursor === null ? (seen.length - 1) >> 1 : nearest(seen, strip.cursor);
    const step = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: seen.length - 1 };
    if (event.key in moves && seen.length) {
      strip.point(seen[clamp(strip.cursor === null ? at : moves[event.key], 0, seen.length - 1)]);
      strip.say();
    } else if (event.key === "+" || event.key === "=") strip.magnify(0.5);
    else if (event.key === "-") strip.magnify(2);
    else if (event.key === "0" || event.key === "Escape") strip.show(null);
    else return;
    event.preventDefault();
  }
}

class Strip {
  constructor(element, content, figure, name) {
    this.figure = figure;
    this.zoom = null;
    this.cursor = null;
    this.status = element.querySelector("[role=status]");
    this.reset = element.querySelector("[data-zoom=reset]");
    this.panels = [...element.querySelectorAll(".panel")].map(
      (place, k) => new Panel(place.querySelector(".canvas"), content.panels[k], this, `${name}-${k}`),
    );
    const clicks = { in: () => this.magnify(0.5), out: () => this.magnify(2), reset: () => this.show(null) };
    for (const button of element.querySelectorAll("[data-zoom]"))
      button.addEventListener("click", clicks[button.dataset.zoom]);
    const details = element.querySelector("details.numbers");
    details.addEventListener("toggle", () => details.open && this.tabulate(details.querySelector(".tables")));
    this.draw();
  }

  draw() {
    for (const panel of this.panels) panel.draw();
  }

  point(x) {
    this.cursor = x;
    this.read = this.panels.map((panel) => panel.marks && panel.point());
  }

  say() {
    this.status.textContent = this.panels
      .map((panel, k) => (this.read[k] ? `${panel.content.title}, ${this.read[k]}` : ""))
      .join(" ");
  }

  show(range) {
    this.zoom = range;
    this.reset.disabled = range === null;
    this.draw();
    const [x0, x1] = range || [];
    this.status.textContent = range ? `Zoomed to ${number(x0)} to ${number(x1)}.` : "The whole range is shown.";
  }

  magnify(factor) {
    const drawn = this.panels.find((panel) => panel.frame);
    if (!drawn) return;
    const { x, whole } = drawn;
    const t = x.forward;
    const middle = t(this.cursor !== null ? this.cursor : x.backward((t(x.low) + t(x.high)) / 2));
    const half = ((t(x.high) - t(x.low)) * factor) / 2;
    const low = x.backward(Math.max(middle - half, t(whole[0])));
    const high = x.backward(Math.min(middle + half, t(whole[1])));
    const all = t(high) - t(low) >= (t(whole[1]) - t(whole[0])) * (1 - 1e-9);
    this.show(all ? null : [low, high]);
  }

  tabulate(place) {
    if (place.childElementCount) return;
    for (const panel of this.panels) {
      const { content } = panel;
      const longest = content.lines.reduce((most, line) => (line.x.length > most.length ? line.x : most), []);
      const rows = Math.min(TABLE_ROWS, longest.length);
      const xs = Array.from(
        { length: rows },
        (_, k) => longest[Math.round((k * (longest.length - 1)) / Math.max(rows - 1, 1))],
      );
      const head = html(
        "tr",
        {},
        html("th", { scope: "col" }, content.x),
        ...content.lines.map((line) => html("th", { scope: "col" }, line.label)),
      );
      const body = xs.map((x) => {
        const cells = content.lines.map((line) => {
          const k = nearest(line.x, x);
          return html("td", {}, Math.abs(line.x[k] - x) <= x * 0.02 ? withInterval(line, k) : "–");
        });
        return html("tr", {}, html("th", { scope: "row" }, number(x)), ...cells);
      });
      const table = html(
        "table",
        {},
        html("caption", {}, `${content.title}: mean [95% interval]`),
        html("thead", {}, head),
        html("tbody", {}, ...body),
      );
      place.append(
        html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${content.title}, table` }, table),
      );
    }
  }
}

class Figure {
  constructor(element, content, name) {
    this.hidden = new Set();
    this.looks = new Map(content.legend.map((entry) => [entry.label, entry]));
    this.buttons = [...element.querySelectorAll(".legend button")];
    for (const button of this.buttons) {
      const { label } = button.dataset;
      button.prepend(this.swatch(label));
      button.addEventListener("click", () => this.toggle(label));
    }
    this.strips = [...element.querySelectorAll(".strip")].map(
      (strip, k) => new Strip(strip, content.strips[k], this, `${name}-${k}`),
    );
  }

  look(label) {
    return this.looks.get(label);
  }

  swatch(label) {
    const { colour, dash } = this.look(label);
    return svg(
      "svg",
      { class: "swatch", viewBox: "0 0 30 10", "aria-hidden": "true" },
      svg("path", { class: `line c${colour}`, "stroke-dasharray": dash || null, d: "M1 5H29" }),
    );
  }

  toggle(label) {
    const shown = this.hidden.has(label);
    if (shown) this.hidden.delete(label);
    else this.hidden.add(label);
    for (const button of this.buttons)
      if (button.dataset.label === label) button.setAttribute("aria-pressed", String(shown));
    for (const strip of this.strips) strip.draw();
  }
}
