"use strict";
// What goes wrong is kept where a test, and a reader who reports it, finds it: <html data-errors>.
const llmc = { errors: [], drawers: [] };
llmc.fail = (what) => {
  llmc.errors.push(String(what).slice(0, 500));
  document.documentElement.dataset.errors = JSON.stringify(llmc.errors);
};
document.documentElement.dataset.errors = "[]";
window.addEventListener("error", (event) => llmc.fail(event.message || "an error without a message"));
window.addEventListener("unhandledrejection", (event) => llmc.fail(event.reason));
document.addEventListener("securitypolicyviolation", (event) => llmc.fail("blocked " + event.blockedURI + " by " + event.violatedDirective));
for (const level of ["error", "warn"]) {
  const before = console[level].bind(console);
  console[level] = (...what) => { llmc.fail(what.join(" ")); before(...what); };
}

// Makes an element. Text is always a text node: names come from files of any origin, and are never markup.
llmc.el = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  for (const child of children.flat(9))
    if (child !== undefined && child !== null) node.append(child instanceof Node ? child : String(child));
  return node;
};

// Formats numbers for people, three digits of each.
const digits = (value) => {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
};
llmc.format = {
  seconds: (s) => s >= 1 || s <= 0 ? digits(s) + " s" : s >= 1e-3 ? digits(s * 1e3) + " ms" : digits(s * 1e6) + " \u00b5s",
  bytes: (b) => {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; b >= 1024 && unit < 5; ++unit) b /= 1024;
    return digits(b) + " " + units[unit];
  },
  percent: (f) => (f === 0 || Math.abs(f) >= 1e-3 ? (100 * f).toFixed(1) : digits(100 * f)) + " %",
  count: (n) => n.toLocaleString("en-US"),
  short: (n) => {
    const units = ["", " thousand", " million", " billion", " trillion"];
    let unit = 0;
    for (; n >= 1000 && unit < 4; ++unit) n /= 1000;
    return digits(n) + units[unit];
  },
  number: digits,
};

// Returns what the document holds at a path like "traffic.3.each_s"; undefined if there is nothing.
llmc.at = (path) => path.split(".").reduce((value, key) => value === undefined || value === null ? undefined : value[key], llmc.document);
// Shows a number of the document. A test compares each with the document, by its path.
llmc.num = (path, format, scale) => {
  const value = llmc.at(path);
  if (typeof value !== "number") return "not known";
  return llmc.el("span", { "data-path": path, "data-value": JSON.stringify(value), "data-format": format }, llmc.format[format](value));
};
llmc.color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
llmc.section = (id, title, ...children) => llmc.el("section", { id }, llmc.el("h2", {}, title), children);
llmc.legend = (items) => llmc.el("ul", { class: "legend" }, items.map(([name, color]) =>
  llmc.el("li", {}, llmc.el("i", { style: { background: color } }), name)));
llmc.table = (heads, rows) => llmc.el("div", { class: "box", tabindex: "0" }, llmc.el("table", {},
  llmc.el("thead", {}, llmc.el("tr", {}, heads.map(([name, kind]) => llmc.el("th", { class: kind, scope: "col" }, name)))),
  llmc.el("tbody", {}, rows)));
// Shows the first rows of a table, the others where they are asked for, and in print.
llmc.fold = (rows, first) => {
  const hidden = rows.slice(first);
  const show = () => { for (const row of hidden) row.hidden = false; };
  if (!hidden.length) return null;
  for (const row of hidden) row.hidden = true;
  addEventListener("beforeprint", show);
  return llmc.el("div", { class: "tools" }, llmc.el("button", { type: "button", onclick: (event) => { show(); event.target.parentNode.remove(); } }, `show all ${rows.length}`));
};
llmc.axisColor = (axes) => {
  const colors = { tp: "#ee6677", dp: "#ccbb44", pp: "#aa3377", cp: "#66ccee", ep: "#228833", etp: "#88bb66", edp: "#998833" };
  const names = axes.split(" ");
  return names.length > 1 ? "#6b5b95" : colors[names[0]] || "#8d99a6";
};
