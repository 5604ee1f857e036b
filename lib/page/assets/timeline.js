"use strict";
// Draws what runs when: rows of the schedule of each stage, and the streams of the rank that stands for it.
(() => {
  const { el, format } = llmc;
  const phases = { F: "forward", B: "backward", W: "gradients of weights", U: "update" };
  const wordsOf = { product: "product", attention: "attention", kernel: "other kernel", copy: "copy", collective: "collective", message: "message", wait: "waits" };

  // Unpacks the runs and blocks of a lane (lib/page/Events.h) into columns.
  const unpack = (t, lane) => {
    const runs = t.runs[lane];
    let count = 0;
    for (let r = 0; r < runs.length; r += 3) count += t.blocks[runs[r + 1]].length / 3;
    const made = { begin: new Float64Array(count), end: new Float64Array(count), op: new Uint32Array(count), entry: new Uint32Array(count) };
    let at = 0;
    for (let r = 0; r < runs.length; r += 3) {
      const block = t.blocks[runs[r + 1]];
      let time = runs[r + 2];
      for (let b = 0; b < block.length; b += 3, ++at) {
        made.begin[at] = (time + block[b + 1]) * t.unit_s;
        time += block[b + 1] + block[b + 2];
        made.end[at] = time * t.unit_s;
        made.op[at] = block[b];
        made.entry[at] = runs[r];
      }
    }
    return made;
  };
  const entriesOf = (flat, unit) => {
    const list = [];
    for (let i = 0; i < flat.length; i += 5)
      if (flat[i] && flat[i + 4] > flat[i + 3])
        list.push({ letter: flat[i], chunk: flat[i + 1], micro: flat[i + 2], begin: flat[i + 3] * unit, end: flat[i + 4] * unit });
    return list.sort((x, y) => x.begin - y.begin);
  };
  llmc.entriesOf = entriesOf;

  // Returns the first index whose end is behind `time`.
  const firstBehind = (ends, time, get) => {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (get(ends[middle]) <= time) low = middle + 1; else high = middle;
    }
    return low;
  };

  class Timeline {
    constructor(t, view, streams, measured, formatTime) {
      this.t = t;
      this.view = view;
      this.streams = streams;
      this.formatTime = formatTime;
      this.lanes = this.t.lanes.map((lane, i) => ({ ...lane, ...unpack(this.t, i) }));
      this.entries = this.t.entries.map((flat) => entriesOf(flat, this.t.unit_s));
      this.measured = measured && measured.map((flat) => entriesOf(flat, this.t.unit_s));
      this.kinds = this.t.kinds;
      this.chunks = Math.max(...this.entries.map((list) => Math.max(0, ...list.map((entry) => entry.chunk)))) + 1;
    }

    // Lays out rows from the top: for each stage its schedule, what was measured of it, its streams.
    layout() {
      const rows = [];
      let y = 4;
      const add = (row, height) => { rows.push({ ...row, y, height }); y += height + 1; };
      this.entries.forEach((entries, stage) => {
        const top = y;
        add({ type: "schedule", stage, entries }, 17);
        if (this.measured) add({ type: "measured", stage, entries: this.measured[stage] }, 17);
        if (this.streams)
          this.lanes.filter((lane) => lane.stage === stage).forEach((lane, i) => add({ type: "lane", stage, lane }, i ? 11 : 14));
        rows[rows.length - 1].last = true;
        rows.find((row) => row.y === top).first = true;
        y += this.streams || this.measured ? 7 : 2;
      });
      this.rows = rows;
      return y;
    }

    colors() {
      this.ink = llmc.color("ink"); this.soft = llmc.color("soft"); this.line = llmc.color("line"); this.back = llmc.color("back");
      this.kindColor = this.kinds.map((kind) => llmc.color(kind));
      this.phaseColor = Object.fromEntries(Object.keys(phases).map((letter) => [letter, [llmc.color(letter), llmc.color(letter + "-ink")]]));
    }

    draw(u) {
      const ctx = u.ctx, ratio = devicePixelRatio || 1, { left, top, width, height } = u.bbox;
      ctx.save();
      for (const row of this.rows) this.label(ctx, row, left, top, ratio);
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      const min = u.scales.x.min, scale = width / (u.scales.x.max - min);
      const place = { x: (time) => left + (time - min) * scale, min, max: u.scales.x.max, left, right: left + width, ratio };
      for (const row of this.rows)
        if (row.type === "lane") this.drawLane(ctx, row, place, top);
        else this.drawEntries(ctx, row, place, top);
      ctx.restore();
    }

    label(ctx, row, left, top, ratio) {
      const y = top + row.y * ratio;
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      if (row.first) {
        ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
        ctx.fillStyle = this.ink;
        ctx.fillText((llmc.narrow() ? "S" : "stage ") + row.stage, 6 * ratio, y + row.height * ratio / 2);
      }
      if (llmc.narrow() || (!this.streams && !this.measured)) return;
      ctx.font = `${10.5 * ratio}px system-ui, sans-serif`;
      ctx.fillStyle = this.soft;
      ctx.textAlign = "right";
      const name = row.type === "lane" ? row.lane.name : row.type === "measured" ? "measured" : "schedule";
      ctx.fillText(name, left - 6 * ratio, y + row.height * ratio / 2, left - 60 * ratio);
    }

    drawEntries(ctx, row, place, top) {
      const { ratio } = place, y = top + row.y * ratio, height = row.height * ratio;
      const shown = row.type === "measured" ? 0.75 : 1;
      ctx.font = `${10 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      let before = -1e9;
      for (let i = firstBehind(row.entries, place.min, (entry) => entry.end); i < row.entries.length; ++i) {
        const entry = row.entries[i];
        if (entry.begin > place.max) break;
        const x0 = Math.max(place.left - 2, place.x(entry.begin)), x1 = Math.min(place.right + 2, place.x(entry.end));
        if (x1 < before + 0.5) continue;
        before = x1;
        const [fill, ink] = this.phaseColor[entry.letter], wide = x1 - x0;
        ctx.globalAlpha = shown * (1 - 0.18 * (entry.chunk % 4));
        ctx.fillStyle = fill;
        const gap = wide > 4 * ratio ? ratio : 0;
        ctx.fillRect(x0, y, Math.max(wide - gap, 0.5), height);
        ctx.globalAlpha = 1;
        const name = entry.letter === "U" ? "U" : entry.letter + entry.micro + (this.chunks > 1 ? "." + entry.chunk : "");
        const fits = (text) => wide > (text.length * 6 + 3) * ratio, text = fits(name) ? name : this.chunks > 1 && fits(entry.letter) ? entry.letter : "";
        if (text) {
          ctx.fillStyle = entry.chunk % 4 > 1 ? this.ink : ink;
          ctx.fillText(text, (x0 + x1) / 2, y + height / 2);
        }
      }
    }

    // Draws events; of those narrower than a pixel the kind that has most of it.
    drawLane(ctx, row, place, top) {
      const lane = row.lane, { ratio } = place, y = top + row.y * ratio, height = row.height * ratio;
      const wait = this.kinds.indexOf("wait");
      let pixel = -1;
      const share = new Float64Array(this.kinds.length);
      const flush = () => {
        if (pixel < 0) return;
        let most = 0, sum = 0;
        for (let k = 0; k < share.length; ++k) { sum += share[k]; if (share[k] > share[most]) most = k; }
        if (sum > 0.02) {
          ctx.globalAlpha = Math.min(1, 0.25 + 0.75 * sum);
          ctx.fillStyle = this.kindColor[most];
          ctx.fillRect(pixel, y, 1, height);
          ctx.globalAlpha = 1;
        }
        share.fill(0);
        pixel = -1;
      };
      ctx.font = `${10 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      for (let i = firstBehind(lane.end, place.min, (end) => end); i < lane.end.length; ++i) {
        if (lane.begin[i] > place.max) break;
        const x0 = place.x(lane.begin[i]), x1 = place.x(lane.end[i]), kind = this.t.ops[lane.op[i]][1];
        if (x1 - x0 < 1.5) {
          for (let x = x0; x < x1;) {
            const p = Math.floor(x), next = Math.min(x1, p + 1);
            if (p !== pixel) { flush(); pixel = p; }
            share[kind] += next - x;
            x = next > x ? next : x1;
          }
          continue;
        }
        flush();
        const from = Math.max(place.left - 2, x0), to = Math.min(place.right + 2, x1), wide = to - from;
        ctx.fillStyle = this.kindColor[kind];
        ctx.fillRect(from, kind === wait ? y + height * 0.35 : y, Math.max(0.5, wide - (wide > 5 * ratio ? ratio : 0)), kind === wait ? height * 0.3 : height);
        if (height >= 12 * ratio && wide > 46 * ratio && kind !== wait) this.write(ctx, lane.op[i], from, wide, y + height / 2, ratio);
      }
      flush();
    }

    write(ctx, op, from, wide, y, ratio) {
      const name = this.t.strings[this.t.ops[op][0]], room = Math.floor((wide / ratio - 8) / 5.6);
      ctx.fillStyle = this.back;
      ctx.fillText(name.length > room ? name.slice(0, Math.max(1, room - 1)) + "\u2026" : name, from + 3 * ratio, y);
    }

    // Tells what is under the cursor.
    hover(u, x, y, event) {
      const row = this.rows.find((r) => y >= r.y - 1 && y <= r.y + r.height);
      const time = u.posToVal(x, "x"), slack = 2 * (u.scales.x.max - u.scales.x.min) / u.over.clientWidth;
      if (!row) return llmc.hideTip();
      if (row.type !== "lane") {
        const i = firstBehind(row.entries, time - slack, (entry) => entry.end), entry = row.entries[i];
        if (!entry || entry.begin > time + slack) return llmc.hideTip();
        return llmc.tip(event.clientX, event.clientY, el("b", {}, phases[entry.letter] + (entry.letter === "U" ? "" : ` of micro-batch ${entry.micro}`)),
          el("div", {}, `stage ${row.stage}, chunk ${entry.chunk}${row.type === "measured" ? ", measured" : ""}`),
          el("div", {}, this.formatTime === format.seconds ? `${format.seconds(entry.end - entry.begin)}, from ${format.seconds(entry.begin)}` : `column ${entry.begin}`));
      }
      const lane = row.lane, i = firstBehind(lane.end, time - slack, (end) => end);
      let best = -1;
      for (let j = i; j < lane.end.length && lane.begin[j] <= time + slack && j < i + 200; ++j)
        if (best < 0 || (lane.begin[j] <= time && time <= lane.end[j]) ) { best = j; if (lane.begin[j] <= time && time <= lane.end[j]) break; }
      if (best < 0) return llmc.hideTip();
      llmc.tip(event.clientX, event.clientY, ...this.describe(lane, best));
    }

    describe(lane, i) {
      const [name, kind, phase, node, bytes, traffic] = this.t.ops[lane.op[i]], word = wordsOf[this.kinds[kind]];
      const flat = this.t.entries[lane.stage], letter = flat[5 * lane.entry[i]], micro = flat[5 * lane.entry[i] + 2];
      const own = this.t.strings[name] === "wait";
      const lines = [el("b", {}, word !== "waits" ? this.t.strings[name] : own ? "waits for " + this.t.strings[node] : "waits for other ranks: " + this.t.strings[name])];
      if (word !== "waits" || !own) lines.push(el("div", {}, "for " + this.t.strings[node]));
      lines.push(el("div", {}, `${format.seconds(lane.end[i] - lane.begin[i])}, from ${format.seconds(lane.begin[i])}`));
      if (bytes > 0 && word !== "waits") lines.push(el("div", {}, `${format.bytes(bytes)} (${format.count(bytes)} bytes), ${word}`));
      lines.push(el("div", {}, `${["forward", "backward", "update"][phase]}${letter && letter !== "U" ? `, micro-batch ${micro}` : ""}, stage ${lane.stage}, rank ${lane.rank}, stream ${lane.stream}`));
      return lines;
    }

    make(place) {
      const height = this.layout(), seconds = this.view.length, width = place.clientWidth;
      this.colors();
      const gutter = llmc.narrow() ? 34 : this.streams || this.measured ? 148 : 66;
      if (this.plot) { this.view.plots = this.view.plots.filter((plot) => plot !== this.plot); this.plot.destroy(); }
      const options = {
        width, height: height + 34, legend: { show: false }, padding: [0, 8, 4, 0],
        scales: { x: { time: false, range: (u, min, max) => [min, max] }, y: { range: [0, 1] } },
        axes: [{ ...llmc.axis(30), side: 0, values: (u, list) => list.map(this.formatTime), space: llmc.narrow() ? 60 : 90 },
          { ...llmc.axis(gutter), grid: { show: false }, ticks: { show: false }, values: () => [] }],
        series: [{}, { show: true, paths: () => null, points: { show: false } }],
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: true }, sync: { key: "step" } },
        hooks: { draw: [(u) => this.draw(u)] },
        plugins: [llmc.moves(this.view)],
      };
      this.plot = new uPlot(options, [[0, seconds], [0, 0]], place);
      this.view.add(this.plot);
      const over = this.plot.over;
      const show = (event) => {
        const box = over.getBoundingClientRect();
        this.hover(this.plot, event.clientX - box.left, event.clientY - box.top, event);
      };
      over.addEventListener("mousemove", show);
      over.addEventListener("click", show);
      over.addEventListener("mouseleave", llmc.hideTip);
      if (this.view.from > 0 || this.view.to < seconds) this.plot.setScale("x", { min: this.view.from, max: this.view.to });
    }
  }

  const listen = (place, view) => place.addEventListener("keydown", (event) => {
    const keys = { ArrowLeft: () => view.pan(-0.2), ArrowRight: () => view.pan(0.2), "+": () => view.zoom(0.5), "=": () => view.zoom(0.5), "-": () => view.zoom(2), 0: () => view.set(0, view.length) };
    if (!keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });
  const legendOf = (entries) => llmc.legend(Object.entries(phases).filter(([letter]) => entries.some((flat) => flat.includes(letter))).map(([letter, name]) => [`${letter} ${name}`, `var(--${letter})`]));

  // Draws the order of a schedule alone, in columns.
  llmc.schedule = (entries) => {
    if (!entries) return null;
    let columns = 1;
    for (const flat of entries) for (let i = 4; i < flat.length; i += 5) columns = Math.max(columns, flat[i]);
    const view = llmc.view(columns), t = { unit_s: 1, entries, lanes: [], kinds: [], ops: [], strings: [], blocks: [], runs: [] };
    const timeline = new Timeline(t, view, false, null, (column) => format.number(column));
    const place = el("div", { class: "plot tall", tabindex: "0", role: "img", "aria-label": "The order in which each stage runs its micro-batches" });
    listen(place, view);
    llmc.drawers.push(() => timeline.make(place));
    return llmc.section("timeline", "The schedule",
      el("p", { class: "soft" }, "The order in which each stage runs its micro-batches, drawn as if all passes took equally long; the times above count what each really takes."),
      el("div", { class: "tools" }, llmc.viewTools(view)), legendOf(entries), place);
  };

  llmc.timeline = (view) => {
    const t = llmc.document.timeline, stages = llmc.document.stages.length;
    const trace = llmc.document.measured && llmc.document.measured.trace;
    const timeline = new Timeline(t, view, stages <= 4, trace ? trace.entries : null, format.seconds);
    const kinds = el("div", { hidden: !timeline.streams });
    const place = el("div", { class: "plot tall", tabindex: "0", role: "img", "aria-label": "What each stage runs over the step, by stream" });
    const chooser = (name, streams) => el("button", { type: "button", "aria-pressed": String(timeline.streams === streams), onclick: (event) => {
      timeline.streams = streams;
      kinds.hidden = !streams;
      for (const other of event.target.parentNode.querySelectorAll("[aria-pressed]")) other.setAttribute("aria-pressed", String(other === event.target));
      timeline.make(place);
    } }, name);
    listen(place, view);
    llmc.drawers.push(() => timeline.make(place));
    const used = new Set(t.ops.map((op) => t.kinds[op[1]]));
    kinds.append(llmc.legend(t.kinds.filter((kind) => used.has(kind)).map((kind) => [wordsOf[kind], `var(--${kind})`])));
    return llmc.section("timeline", "The step over time",
      el("p", { class: "soft" }, `One rank of each stage: above, the rows of its schedule with the number of the micro-batch${timeline.chunks > 1 ? ", and behind the dot that of the chunk of layers" : ""}; below, what its streams run. Drag to zoom, double-click for the whole step; shift and drag, or the arrow keys, move; ctrl and the wheel, or two fingers, zoom.`),
      el("div", { class: "tools" }, chooser("schedule and streams", true), chooser("schedule", false), el("span", { class: "gap" }), llmc.viewTools(view)),
      legendOf(t.entries), trace ? el("p", { class: "soft small" }, "The paler rows were measured.") : null, kinds, place,
      el("p", { class: "soft small" }, llmc.num("timeline.events", "count"), " instructions, each as the forecast has it, to within ",
        format.seconds(t.tolerance * t.unit_s), ". Where several are narrower than a pixel, the colour is that of the kind that takes most of it; zoom in to see each."));
  };
})();
