"use strict";
// What all plots share: a tip, views of the step that follow each other, and drawing again when colours or widths change.
(() => {
  const { el } = llmc;
  const tip = el("div", { class: "tip", hidden: true });
  document.body.append(tip);
  llmc.tip = (x, y, ...children) => {
    tip.replaceChildren(...children.flat(9));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 12) : y + 18) + "px";
  };
  llmc.hideTip = () => { tip.hidden = true; };
  addEventListener("scroll", llmc.hideTip, { passive: true, capture: true });

  // Makes a bar of parts [[name, size, colour, text]]; what they are is told where one points at it.
  llmc.strip = (title, parts, most) => {
    const show = (event) => llmc.tip(event.clientX, event.clientY, el("b", {}, title), parts.filter(([, size]) => size > 0).map(([name, , color, text]) =>
      el("div", {}, el("i", { class: "dot", style: { background: color } }), `${name} ${text}`)));
    return el("span", { class: "strip", onmousemove: show, onclick: show, onmouseleave: () => llmc.hideTip() },
      parts.map(([, size, color]) => size > 0 ? el("i", { style: { width: 100 * size / most + "%", background: color } }) : null));
  };

  // A view is a part of the step, in seconds, that several plots show.
  llmc.view = (length) => {
    const view = { length, from: 0, to: length, plots: [] };
    view.set = (from, to) => {
      const size = Math.min(length, Math.max(to - from, length * 1e-6));
      view.from = Math.max(0, Math.min(from, length - size));
      view.to = view.from + size;
      for (const plot of view.plots)
        if (plot.scales.x.min !== view.from || plot.scales.x.max !== view.to) plot.setScale("x", { min: view.from, max: view.to });
    };
    view.zoom = (factor, at) => {
      const middle = at === undefined ? (view.from + view.to) / 2 : at;
      view.set(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
    };
    view.pan = (share) => view.set(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
    view.add = (plot) => { view.plots.push(plot); };
    return view;
  };
  llmc.viewTools = (view) => [["+", "zoom in", () => view.zoom(0.5)], ["\u2212", "zoom out", () => view.zoom(2)],
    ["\u2190", "earlier", () => view.pan(-0.25)], ["\u2192", "later", () => view.pan(0.25)], ["whole step", "show the whole step", () => view.set(0, view.length)]]
    .map(([name, title, onclick]) => el("button", { type: "button", title, "aria-label": title, onclick }, name));

  // Lets wheel, fingers and keys move the view of a plot; a drag with the mouse zooms, with shift it moves.
  llmc.moves = (view) => ({
    hooks: {
      ready: [(u) => {
        const over = u.over, fingers = new Map();
        const at = (x) => u.posToVal(x - over.getBoundingClientRect().left, "x");
        over.addEventListener("wheel", (event) => {
          if (event.ctrlKey || event.metaKey) view.zoom(Math.exp(event.deltaY * 0.004), at(event.clientX));
          else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan((event.deltaX || event.deltaY) / u.over.clientWidth);
          else return;
          event.preventDefault();
        }, { passive: false });
        over.addEventListener("mousedown", (event) => {
          if (!event.shiftKey) return;
          event.stopImmediatePropagation();
          event.preventDefault();
          let last = event.clientX;
          const move = (e) => { view.pan((last - e.clientX) / over.clientWidth); last = e.clientX; };
          const up = () => { removeEventListener("mousemove", move); removeEventListener("mouseup", up); };
          addEventListener("mousemove", move);
          addEventListener("mouseup", up);
        }, true);
        over.addEventListener("pointerdown", (event) => { if (event.pointerType === "touch") fingers.set(event.pointerId, event.clientX); });
        over.addEventListener("pointermove", (event) => {
          if (!fingers.has(event.pointerId)) return;
          const before = [...fingers.values()], old = fingers.get(event.pointerId);
          fingers.set(event.pointerId, event.clientX);
          const now = [...fingers.values()];
          if (now.length === 1) view.pan((old - event.clientX) / over.clientWidth);
          else view.zoom(Math.max(12, Math.abs(before[0] - before[1])) / Math.max(12, Math.abs(now[0] - now[1])), at((now[0] + now[1]) / 2));
        });
        for (const end of ["pointerup", "pointercancel", "pointerleave"]) over.addEventListener(end, (event) => fingers.delete(event.pointerId));
      }],
      setScale: [(u, key) => { if (key === "x") view.set(u.scales.x.min, u.scales.x.max); }],
    },
  });

  // Draws again what depends on the width of the page or on its colours.
  llmc.redraw = () => { for (const drawer of llmc.drawers) drawer(); };
  let width = innerWidth, due = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(due);
    due = setTimeout(llmc.redraw, 60);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", llmc.redraw);
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; llmc.redraw(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; llmc.redraw(); });
  llmc.narrow = () => innerWidth < 720;
  llmc.axis = (size) => ({
    stroke: llmc.color("soft"), grid: { stroke: llmc.color("line"), width: 1 }, ticks: { stroke: llmc.color("line"), width: 1 },
    font: "12px system-ui, sans-serif", size,
  });
})();
