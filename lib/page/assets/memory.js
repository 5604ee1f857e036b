"use strict";
// Draws what fills the arena of a stage over the step, and what fills those of all stages.
(() => {
  const { el, format } = llmc;

  class Memory {
    constructor(view, stage) {
      this.view = view;
      this.stage = stage;
      this.readout = el("div", { class: "readout", "aria-live": "off" });
      this.words = el("p", {});
    }
    data() {
      const m = llmc.document.memory[this.stage], s = m.states_bytes, last = m.curve.seconds.length - 1, end = this.view.length;
      const x = [...m.curve.seconds], a = [...m.curve.activations], w = [...m.curve.workspace];
      if (x[last] < end) { x.push(end); a.push(a[last]); w.push(w[last]); }
      this.parts = { s, a, w };
      return [x, a.map((value, i) => s + value + w[i]), a.map((value) => s + value), x.map(() => s), x.map(() => m.arena_bytes)];
    }
    tell(u) {
      const i = u.cursor.idx, m = llmc.document.memory[this.stage];
      if (i === null || i === undefined || u.cursor.left < 0) { this.readout.textContent = "\u00a0"; return; }
      const { s, a, w } = this.parts;
      this.readout.textContent = `at ${format.seconds(u.data[0][i])}: states ${format.bytes(s)}, activations ${format.bytes(a[i])}, workspace ${format.bytes(w[i])}; ${format.bytes(s + a[i] + w[i])} of the arena's ${format.bytes(m.arena_bytes)}`;
    }
    mark(u) {
      const m = llmc.document.memory[this.stage], ctx = u.ctx, ratio = devicePixelRatio || 1;
      const x = u.valToPos(m.peak.at_s, "x", true), y = u.valToPos(m.peak.bytes, "y", true), { left, width } = u.bbox;
      if (x < left || x > left + width) return;
      ctx.save();
      ctx.fillStyle = llmc.color("ink");
      ctx.beginPath();
      ctx.arc(x, y, 3.5 * ratio, 0, 7);
      ctx.fill();
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "bottom";
      ctx.textAlign = x > left + width / 2 ? "right" : "left";
      ctx.fillText("peak", x + (ctx.textAlign === "left" ? 6 : -6) * ratio, y - 1 * ratio);
      ctx.restore();
    }
    make(place) {
      if (this.plot) { this.view.plots = this.view.plots.filter((plot) => plot !== this.plot); this.plot.destroy(); }
      this.words.replaceChildren(llmc.document.memory[this.stage].peak.text);
      const area = (name) => ({ fill: llmc.color(name), stroke: llmc.color(name), width: 0, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } });
      const most = Math.max(...llmc.document.memory.map((m) => m.arena_bytes));
      this.plot = new uPlot({
        width: place.clientWidth, height: llmc.narrow() ? 220 : 260, legend: { show: false }, padding: [10, 8, 0, 0],
        scales: { x: { time: false, range: (u, min, max) => [min, max] }, y: { range: [0, most * 1.06] } },
        axes: [{ ...llmc.axis(30), values: (u, list) => list.map(format.seconds), space: llmc.narrow() ? 60 : 90 },
          { ...llmc.axis(llmc.narrow() ? 58 : 74), values: (u, list) => list.map((bytes) => bytes ? format.bytes(bytes) : "0"), incrs: llmc.byteSteps }],
        series: [{}, area("workspace"), area("activations"), area("states"),
          { stroke: llmc.color("limit"), width: 1, dash: [6, 4], points: { show: false } }],
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false }, sync: { key: "step", scales: ["x", null] } },
        hooks: { draw: [(u) => this.mark(u)], setCursor: [(u) => this.tell(u)] },
        plugins: [llmc.moves(this.view)],
      }, this.data(), place);
      this.view.add(this.plot);
      if (this.view.from > 0 || this.view.to < this.view.length) this.plot.setScale("x", { min: this.view.from, max: this.view.to });
    }
  }
  llmc.byteSteps = [];
  for (let size = 1; size < 2 ** 52; size *= 2) llmc.byteSteps.push(size);

  // Draws one bar for each stage, of parts [[name, bytes, path]].
  llmc.stageBars = (stages, most, usable, colorOf) => el("div", { class: "stages" }, stages.map(({ name, parts, total, totalPath }) => [
    el("span", {}, name),
    llmc.strip(name, parts.map(([part, bytes]) => [part, bytes, colorOf(part), format.bytes(bytes)]), most),
    el("span", { class: usable && total > usable ? "bad" : "" }, llmc.num(totalPath, "bytes"), usable && total > usable ? " does not fit" : "")]));

  // Merges parts that are hardly seen in any stage: they are named together.
  llmc.seenParts = (stages, most) => {
    const largest = {};
    for (const parts of stages) for (const [name, bytes] of parts) largest[name] = Math.max(largest[name] || 0, bytes);
    const seen = Object.keys(largest).filter((name) => largest[name] > 0.004 * most);
    return Object.values(largest).some((bytes) => bytes > 0 && bytes <= 0.004 * most) ? [...seen, "other"] : seen;
  };

  const partColors = { weights: "#4477aa", masters: "#66a3d2", gradients: "#228833", optimizer: "#88bb66", activations: "#ccbb44", logits: "#e0d27a",
    gathered: "#aa3377", communication: "#d48fb5", workspace: "#ee6677", outputs: "#99a", constants: "#99a", gaps: "#99a", fragmentation: "#99a", context: "#667" };
  llmc.partColor = (part) => partColors[part] || "#8d99a6";

  llmc.memory = (view) => {
    const list = llmc.document.memory, most = Math.max(...list.map((m) => m.arena_bytes));
    const memory = new Memory(view, llmc.document.step.peak_stage);
    const place = el("div", { class: "plot", role: "img", "aria-label": "Bytes that are alive in the arena of a stage over the step" });
    const chooser = el("select", { "aria-label": "stage", onchange: (event) => { memory.stage = Number(event.target.value); memory.make(place); } },
      list.map((m, i) => el("option", { value: i, selected: i === memory.stage }, `stage ${i}`)));
    llmc.drawers.push(() => memory.make(place));
    const parts = llmc.seenParts(list.map((m) => m.kinds), most);
    return llmc.section("memory", "Memory of a rank",
      el("p", { class: "soft" }, "What is alive in the arena of a rank: states are there all the time, activations from the forward pass of a micro-batch to the end of its backward pass, workspace while a pass runs. The dashed line is the arena, which is laid out before the run and never grows."),
      el("div", { class: "tools" }, chooser, el("span", { class: "gap" }), llmc.viewTools(view)),
      llmc.legend([["states", "var(--states)"], ["activations", "var(--activations)"], ["workspace", "var(--workspace)"], ["arena", "var(--limit)"]]),
      place, memory.readout, memory.words,
      el("h3", {}, "Arenas of all stages"),
      llmc.legend(parts.map((part) => [part, llmc.partColor(part)])),
      llmc.stageBars(list.map((m, i) => ({ name: `stage ${i}`, parts: m.kinds.map(([kind, bytes]) => [kind, bytes]), total: m.arena_bytes, totalPath: `memory.${i}.arena_bytes` })),
        most, llmc.document.step.process_bytes === null ? llmc.document.cluster.usable_bytes : 0, llmc.partColor));
  };
})();
