"use strict";
// Draws the ranks of a mesh on their nodes, on a canvas: there may be thousands.
(() => {
  const { el } = llmc;
  // Returns a colour of a scale that is as readable without seeing red or green (viridis).
  const scale = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
  const stageColor = (stage, stages) => {
    const at = stages < 2 ? 3 : 0.5 + 8.5 * stage / (stages - 1), low = Math.min(8, Math.floor(at)), part = at - low;
    return scale[low].map((value, i) => Math.round(value + part * (scale[low + 1][i] - value)));
  };
  const css = (rgb) => `rgb(${rgb.join(",")})`;
  const isLight = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140;

  class Mesh {
    constructor(mesh, words) {
      this.mesh = mesh;
      this.words = words;
      this.axis = mesh.axes.length ? mesh.axes[mesh.axes.length - 1] : null;
      this.rank = 0;
      this.stages = mesh.atoms[mesh.stage_atom].size;
      this.strides = mesh.atoms.map((atom, i) => mesh.atoms.slice(i + 1).reduce((product, a) => product * a.size, 1));
    }
    at(rank, atom) { return Math.floor(rank / this.strides[atom]) % this.mesh.atoms[atom].size; }
    stageOf(rank) { return this.at(rank, this.mesh.stage_atom); }
    // Returns the ranks of a group along the chosen axis, in order.
    group(rank) {
      let list = [rank];
      for (const atom of this.axis ? this.axis.atoms : []) {
        const base = list.map((r) => r - this.at(r, atom) * this.strides[atom]);
        list = base.flatMap((r) => Array.from({ length: this.mesh.atoms[atom].size }, (_, i) => r + i * this.strides[atom]));
      }
      return list.sort((x, y) => x - y);
    }
    // Finds the largest cells with which all nodes fit into the height.
    layout(width) {
      const { ranks, nodes, ranks_per_node: each } = this.mesh, inNode = Math.min(each, ranks);
      const columns = inNode <= 4 ? inNode : inNode <= 16 ? Math.ceil(inNode / 2) : Math.ceil(Math.sqrt(inNode * 2));
      const rows = Math.ceil(inNode / columns), high = llmc.narrow() ? 460 : 520;
      for (let cell = 30; ; cell -= cell > 4 ? 1 : 0.5) {
        const pad = cell >= 10 ? 6 : cell >= 5 ? 3 : 1.5, w = columns * cell + 2 * pad, h = rows * cell + 2 * pad;
        const gap = cell >= 8 ? 6 : 2, across = Math.max(1, Math.floor((width + gap) / (w + gap)));
        const down = Math.ceil(nodes / across), tall = down * (h + gap);
        if ((tall <= high && w <= width) || cell <= 2) {
          Object.assign(this, { cell, pad, w, h, gap, across, columns, inNode, height: Math.min(tall, 4000) });
          return;
        }
      }
    }
    place(rank) {
      const node = Math.floor(rank / this.inNode), local = rank % this.inNode;
      return [(node % this.across) * (this.w + this.gap) + this.pad + (local % this.columns) * this.cell,
        Math.floor(node / this.across) * (this.h + this.gap) + this.pad + Math.floor(local / this.columns) * this.cell];
    }
    rankAt(x, y) {
      const column = Math.floor(x / (this.w + this.gap)), node = Math.floor(y / (this.h + this.gap)) * this.across + column;
      const cx = Math.floor((x - column * (this.w + this.gap) - this.pad) / this.cell);
      const cy = Math.floor((y % (this.h + this.gap) - this.pad) / this.cell), rank = node * this.inNode + cy * this.columns + cx;
      return column < this.across && cx >= 0 && cx < this.columns && cy >= 0 && cy * this.columns + cx < this.inNode && rank < this.mesh.ranks ? rank : -1;
    }
    draw(canvas) {
      const width = canvas.parentNode.clientWidth, ratio = devicePixelRatio || 1;
      this.layout(width);
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(this.height * ratio);
      canvas.style.height = this.height + "px";
      this.ctx = canvas.getContext("2d");
      this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.paint(canvas);
    }
    paint(canvas) {
      const ctx = this.ctx, { cell } = this, members = new Set(this.group(this.rank));
      ctx.clearRect(0, 0, canvas.width, canvas.height);
      ctx.fillStyle = llmc.color("track");
      for (let node = 0; node < this.mesh.nodes; ++node)
        ctx.fillRect((node % this.across) * (this.w + this.gap), Math.floor(node / this.across) * (this.h + this.gap), this.w, this.h);
      const colors = Array.from({ length: this.stages }, (_, stage) => stageColor(stage, this.stages));
      ctx.font = `${Math.min(12, cell * 0.5)}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      const border = cell >= 8 ? 1 : cell >= 4 ? 0.5 : 0;
      for (let rank = 0; rank < this.mesh.ranks; ++rank) {
        const [x, y] = this.place(rank), stage = this.stageOf(rank);
        ctx.fillStyle = css(colors[stage]);
        ctx.fillRect(x, y, cell - border, cell - border);
        if (cell >= 18) {
          ctx.fillStyle = isLight(colors[stage]) ? "#10151a" : "#ffffff";
          ctx.fillText(rank, x + cell / 2, y + cell / 2);
        }
      }
      if (cell < 18 && this.w >= 30) this.nameNodes(ctx, colors);
      this.paintGroup(ctx, [...members]);
    }
    // Writes the stage on nodes whose ranks are all of one.
    nameNodes(ctx, colors) {
      ctx.font = "600 11px system-ui, sans-serif";
      for (let node = 0; node < this.mesh.nodes; ++node) {
        const first = node * this.inNode, stage = this.stageOf(first), last = Math.min(this.mesh.ranks, first + this.inNode) - 1;
        if (this.stageOf(last) !== stage) continue;
        const [x, y] = [(node % this.across) * (this.w + this.gap) + this.w / 2, Math.floor(node / this.across) * (this.h + this.gap) + this.h / 2];
        ctx.fillStyle = css(colors[stage]);
        ctx.fillRect(x - 13, y - 7, 26, 14);
        ctx.fillStyle = isLight(colors[stage]) ? "#10151a" : "#ffffff";
        ctx.fillText("S" + stage, x, y + 0.5);
      }
    }
    // Frames the members of a group, and joins those of different nodes: what goes between these crosses links of nodes.
    paintGroup(ctx, members) {
      const { cell } = this, size = Math.max(cell - (cell >= 8 ? 1 : 0), 3), inner = cell >= 10;
      const nodeOf = (rank) => Math.floor(rank / this.inNode);
      ctx.lineJoin = "round";
      for (const [color, width] of [[llmc.color("back"), 5], [llmc.color("mark"), 2.5]]) {
        ctx.strokeStyle = color;
        ctx.lineWidth = width;
        ctx.beginPath();
        for (let i = 1; i < members.length; ++i) {
          if (nodeOf(members[i]) === nodeOf(members[i - 1])) continue;
          const [from, to] = [members[i - 1], members[i]].map((rank) => this.place(rank).map((value) => value + cell / 2));
          ctx.moveTo(...from);
          ctx.lineTo(...to);
        }
        ctx.stroke();
      }
      for (const rank of members) {
        const [x, y] = this.place(rank);
        ctx.strokeStyle = llmc.color("mark");
        ctx.lineWidth = inner ? 2.5 : 2;
        ctx.strokeRect(x + (inner ? 1 : 0), y + (inner ? 1 : 0), size - (inner ? 2 : 0), size - (inner ? 2 : 0));
      }
    }
    tell() {
      const group = this.group(this.rank), shown = group.slice(0, 12).join(", ") + (group.length > 12 ? ", \u2026" : "");
      const nodes = new Set(group.map((rank) => Math.floor(rank / this.inNode))).size;
      const where = this.mesh.atoms.map((atom, i) => `${atom.name} ${this.at(this.rank, i)}`).join(", ");
      this.words.textContent = `rank ${this.rank} (${where}): stage ${this.stageOf(this.rank)}, node ${Math.floor(this.rank / this.inNode)}.` +
        (this.axis ? ` Its ${this.axis.name} group: ranks ${shown} on ${nodes === 1 ? "one node" : `${nodes} nodes`}.` : "");
    }
  }

  llmc.mesh = () => {
    const mesh = llmc.document.mesh, words = el("div", { class: "readout" }), picture = new Mesh(mesh, words);
    const canvas = el("canvas", { class: "mesh", role: "img", "aria-label": `${mesh.ranks} ranks on ${mesh.nodes} nodes, coloured by stage` });
    const show = () => { picture.paint(canvas); picture.tell(); };
    const pick = (event) => {
      const box = canvas.getBoundingClientRect(), rank = picture.rankAt(event.clientX - box.left, event.clientY - box.top);
      if (rank >= 0 && rank !== picture.rank) { picture.rank = rank; show(); }
    };
    canvas.addEventListener("mousemove", pick);
    canvas.addEventListener("click", pick);
    const buttons = mesh.axes.map((axis) => el("button", { type: "button", "aria-pressed": String(axis === picture.axis), onclick: (event) => {
      picture.axis = axis;
      for (const other of event.target.parentNode.children) other.setAttribute("aria-pressed", String(other === event.target));
      show();
    } }, axis.name));
    llmc.drawers.push(() => { picture.draw(canvas); picture.tell(); });
    const stages = picture.stages, some = stages <= 8 ? [...Array(stages).keys()] : [0, Math.floor(stages / 4), Math.floor(stages / 2), Math.floor(3 * stages / 4), stages - 1];
    return llmc.section("mesh", "The mesh on its nodes",
      el("p", { class: "soft" }, llmc.num("mesh.ranks", "count"), " ranks (", mesh.text, ") on ", llmc.num("mesh.nodes", "count"), mesh.nodes === 1 ? " node" : " nodes",
        " of ", llmc.num("mesh.ranks_per_node", "count"), ". A square is a rank, a box around squares a node, the colour its stage. Frames mark the group of one rank along an axis, lines go from node to node: point at another rank, or choose another axis."),
      el("div", { class: "tools" }, buttons),
      llmc.legend(some.map((stage) => [`stage ${stage}`, css(stageColor(stage, stages))])),
      el("div", {}, canvas), words,
      mesh.axes.length ? llmc.table([["axis"], ["ranks", "n"], ["its groups communicate"]], mesh.axes.map((axis, i) => el("tr", {},
        el("td", {}, axis.name), el("td", { class: "n" }, llmc.num(`mesh.axes.${i}.size`, "count")), el("td", {}, axis.text)))) : null);
  };
})();
