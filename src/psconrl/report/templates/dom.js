// Small helpers: making elements, and writing numbers as the tables do.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

function number(x) {
  if (x === null || x === undefined) return "n/a";
  const size = Math.abs(x);
  if (size < 1e-12) return "0";
  const text = size >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(4)));
  return text.replace("-", "−");
}

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const data = JSON.parse(document.getElementById("data").textContent);
