"use strict";
/* Draws each figure of the page from its numbers, and makes CSV of them. */
(() => {
  document.documentElement.classList.add("drawn"); // figures have room now
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const charts = []; // {plot, figure, height}
  const css = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (i) => css("--s" + (i % 6 + 1));
  const FONT = "12px system-ui, -apple-system, \"Segoe UI\", Roboto, " +
    "\"DejaVu Sans\", sans-serif";

  /* ---- numbers as text ---- */

  const round = (v, n) => v.toLocaleString("en",
    { maximumFractionDigits: n, useGrouping: true }).replace(/,/g, "\u202f");
  const time = (ns) => ns >= 1e9 ? round(ns / 1e9, 2) + " s"
    : ns >= 1e6 ? round(ns / 1e6, 1) + " ms" : round(ns / 1e3, 0) + " µs";
  const text = (column, v) => v == null ? "–"
    : column.kind === "ns" ? time(v)
    : column.kind === "share" ? v.toFixed(2) + " %" : round(v, 3);
  const short = (v) => v == null ? "" : v >= 1e9 ? round(v / 1e9, 1) + "G"
    : v >= 1e6 ? round(v / 1e6, 1) + "M"
    : v >= 1e4 ? round(v / 1e3, 1) + "k" : round(v, 2);

  /* ---- CSV, as RFC 4180 has it ---- */

  const field = (v) => /[",\r\n]/.test(v)
    ? '"' + String(v).replace(/"/g, '""') + '"' : v;
  const csv = (columns) => {
    const rows = [columns.map((c) => field(c.name))];
    for (let i = 0; i < columns[0].values.length; i++)
      rows.push(columns.map((c) => field(c.values[i])));
    return rows.map((r) => r.join(",") + "\r\n").join("");
  };
  const addCsv = (section, table) => {
    const link = document.createElement("a");
    link.className = "csv";
    link.textContent = "CSV";
    link.download = section.id + ".csv";
    link.href = "#" + section.id;
    link.addEventListener("click", () => {
      const blob = new Blob([csv(table.columns)], { type: "text/csv" });
      link.href = URL.createObjectURL(blob);
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    });
    section.insertBefore(link, section.firstChild);
  };

  /* ---- what charts have alike ---- */

  const axis = (more) => ({
    stroke: css("--soft"), font: FONT, labelFont: FONT, labelSize: 20,
    labelGap: 2, gap: 5, values: (_, ticks) => ticks.map(short),
    grid: { stroke: css("--grid"), width: 1 },
    ticks: { stroke: css("--grid"), width: 1, size: 4 }, ...more });
  const xAxis = (more) => axis({ size: 30, ...more });
  const isTime = (column) => column.kind === "ns";
  const seconds = (column) =>
    isTime(column) ? column.values.map((v) => v / 1e9) : column.values;
  const xLabel = (column) => column.title + (isTime(column) ? ", s" : "");
  const yValues = (share) => (_, ticks) =>
    ticks.map((v) => share ? round(v, 1) + " %" : short(v));
  const xSeries = (column) => ({ label: column.title,
    value: (_, v) => v == null ? "–"
      : isTime(column) ? time(v * 1e9) : round(v, 3) });

  /* Lines across at the marks, with names that do not lie on each other. */
  const drawMarks = (marks, at) => (u) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const ends = [];
    ctx.save();
    ctx.font = FONT.replace("12px", 12 * ratio + "px");
    ctx.strokeStyle = ctx.fillStyle = css("--soft");
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.lineWidth = ratio;
    for (const mark of marks) {
      const x = Math.round(u.valToPos(at(mark.at), "x", true));
      if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
      const width = ctx.measureText(mark.name).width;
      const left = x + width + 6 * ratio > bbox.left + bbox.width
        ? x - width - 4 * ratio : x + 4 * ratio;
      let row = 0;
      while (ends.some((e) => e.row === row && e.from < left + width + 6 * ratio
        && e.to + 6 * ratio > left)) row++;
      ends.push({ row, from: left, to: left + width });
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(mark.name, left, bbox.top + (12 + 15 * row) * ratio);
    }
    ctx.restore();
  };

  const add = (figure, options, data, height) => {
    const plot = new uPlot({
      width: Math.max(240, figure.clientWidth), height,
      cursor: { points: { size: 7 }, drag: { x: true, y: false } },
      ...options }, data, figure);
    charts.push({ plot, figure, height });
    return plot;
  };

  /* What is drawn: shares, where there are some; the rest is for the CSV. */
  const drawn = (columns) => {
    const shares = columns.filter((c) => c.kind === "share");
    return shares.length > 0 ? shares : columns;
  };

  /* ---- charts ---- */

  const lines = (figure, table, more) => {
    const [x, ...rest] = table.columns;
    const series = drawn(rest);
    const share = series.every((c) => c.kind === "share");
    add(figure, {
      scales: { x: { time: false, ...more.x }, y: { range: (_, lo, hi) =>
        [0, share ? Math.min(102, Math.max(hi * 1.08, 5)) : hi * 1.08 || 1] } },
      axes: [xAxis({ label: xLabel(x), ...more.axis }),
        axis({ values: yValues(share), size: 58 })],
      series: [xSeries(x), ...series.map((c, i) => ({
        label: c.title, stroke: colour(i), width: 1.5,
        points: { show: series.length === 1 && c.values.length < 3 },
        value: (_, v) => text(c, v) }))],
      hooks: { draw: [drawMarks(table.marks, (at) => at)] },
    }, [seconds(x), ...series.map((c) => c.values)], 280);
  };

  /* Sums from the bottom; the highest is drawn first, and the rest over it. */
  const stack = (figure, table) => {
    const [x, ...rest] = table.columns;
    const parts = drawn(rest);
    const sums = [];
    parts.forEach((c, i) => sums.push(c.values.map((v, j) =>
      v + (i > 0 ? sums[i - 1][j] : 0))));
    const order = parts.map((_, i) => parts.length - 1 - i);
    const share = parts.every((c) => c.kind === "share");
    const xs = seconds(x);
    // the last has its width too
    const step = xs.length > 1 ? xs[1] - xs[0] : 1;
    const whole = sums[sums.length - 1].reduce((a, b) => Math.max(a, b), 0);
    add(figure, {
      scales: { x: { time: false },
        y: { range: [0, share ? Math.min(100, whole * 1.08 || 1)
          : whole * 1.08 || 1] } },
      axes: [xAxis({ label: xLabel(x) }),
        axis({ values: yValues(share), size: 58 })],
      series: [xSeries(x), ...order.map((i) => ({
        label: parts[i].title, stroke: colour(i), width: 0, fill: colour(i),
        paths: uPlot.paths.stepped({ align: 1 }), points: { show: false },
        value: (_, v, s, j) => j == null ? "–"
          : text(parts[i], parts[i].values[Math.min(j, xs.length - 1)]) }))],
    }, [[...xs, xs[xs.length - 1] + step],
      ...order.map((i) => [...sums[i], sums[i][sums[i].length - 1]])], 280);
  };

  /* Bins that grow: each has the same width, and edges are named. */
  const histogram = (figure, table) => {
    const [first, end, count] = table.columns;
    const n = first.values.length;
    const at = (v) => {
      let i = 0;
      while (i < n - 1 && v >= end.values[i]) i++;
      return i + (v - first.values[i]) / (end.values[i] - first.values[i]);
    };
    add(figure, {
      legend: { live: true },
      scales: { x: { time: false, range: [0, n] } },
      axes: [xAxis({ label: count.name + " by time", space: 64,
        splits: (u, a, lo, hi, by) => {
          const step = Math.max(1, Math.ceil(n / 8));
          return Array.from({ length: Math.floor(n / step) + 1 },
            (_, i) => i * step);
        },
        values: (_, ticks) => ticks.map((i) =>
          time(i < n ? first.values[i] : end.values[n - 1])) }),
        axis({ values: yValues(false), size: 50 })],
      series: [{ label: "from", value: (_, v, s, i) => i == null ? "–"
        : time(first.values[i]) + " to " + time(end.values[i]) },
        { label: count.title, stroke: colour(0), fill: colour(0), width: 0,
          paths: uPlot.paths.bars({ size: [0.9, 1000], align: 1 }),
          points: { show: false } }],
      hooks: { draw: [drawMarks(table.marks, at)] },
    }, [Array.from({ length: n }, (_, i) => i), count.values], 250);
  };

  const mix = (from, to, part) => {
    const rgb = (hex) =>
      [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    const [a, b] = [rgb(from), rgb(to)];
    return "rgb(" + a.map((v, i) => Math.round(v + (b[i] - v) * part)) + ")";
  };

  /* One strip of lanes a tier: columns of the same word before the number. */
  const heat = (figure, table) => {
    const [x, ...lanes] = table.columns;
    const groups = new Map();
    for (const lane of lanes) {
      const tier = lane.title.replace(/ \d+$/, "");
      groups.set(tier, [...groups.get(tier) || [], lane]);
    }
    const last = [...groups.keys()].pop();
    const xs = seconds(x);
    const point = document.createElement("p");
    point.className = "point";
    const shades = Array.from({ length: 65 }, (_, i) =>
      mix(css("--heat-low"), css("--heat-high"), i / 64));
    const cells = (rows) => (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      rows.forEach((lane, k) => {
        const top = Math.round(u.valToPos(k, "y", true));
        const end = Math.round(u.valToPos(k + 1, "y", true));
        for (let i = 0; i < xs.length; i++) {
          const from = u.valToPos(xs[i], "x", true);
          const to = i + 1 < xs.length ? u.valToPos(xs[i + 1], "x", true)
            : from + 3;
          ctx.fillStyle = shades[Math.round(64 *
            Math.min(1, lane.values[i] / lane.full))];
          ctx.fillRect(Math.floor(from), Math.min(top, end),
            Math.max(1, Math.ceil(to) - Math.floor(from)),
            Math.abs(end - top) - (rows.length < 33 ? 1 : 0));
        }
      });
      ctx.restore();
    };
    for (const [tier, rows] of groups) {
      const name = document.createElement("p");
      name.className = "strip";
      name.textContent = tier + ", " + round(rows[0].full, 0) +
        " pages a lane";
      figure.append(name);
      const number = (k) => rows[k].title.match(/\d+$/)[0];
      const step = Math.ceil(rows.length / 8);
      add(figure, {
        legend: { show: false },
        scales: { x: { time: false }, y: { dir: -1, range: [0, rows.length] } },
        axes: [xAxis({ label: tier === last ? xLabel(x) : null,
          grid: { show: false } }),
          axis({ size: 58, grid: { show: false },
            splits: () => rows.map((_, k) => k + .5)
              .filter((_, k) => k % step === 0),
            values: (_, ticks) => ticks.map((k) => number(Math.floor(k))) })],
        series: [{}, { show: false }],
        cursor: { y: true, points: { show: false } },
        hooks: { draw: [cells(rows)], setCursor: [(u) => {
          const { left, top, idx } = u.cursor;
          if (left < 0 || idx == null) return;
          const lane = rows[Math.max(0, Math.min(rows.length - 1,
            Math.floor(u.posToVal(top, "y"))))];
          point.textContent = time(x.values[idx]) + ": " + lane.title +
            " holds " + round(lane.values[idx], 0) + " of " +
            round(lane.full, 0) + " pages (" +
            (100 * lane.values[idx] / lane.full).toFixed(1) + " %)";
        }] },
      }, [xs, rows[0].values], (tier === last ? 58 : 40) +
        Math.max(60, Math.min(260, 14 * rows.length)));
    }
    const ramp = document.createElement("p");
    ramp.className = "ramp";
    ramp.append("free", document.createElement("i"), "full");
    figure.append(ramp, point);
  };

  const draw = {
    lines: (figure, table) => lines(figure, table, {}),
    curve: (figure, table) => lines(figure, table, {
      x: { distr: 3 }, axis: { values: (_, ticks) =>
        ticks.map((v) => Number.isInteger(Math.log10(v)) ? short(v) : "") } }),
    stack, histogram, heat };

  const drawAll = () => {
    for (const chart of charts.splice(0)) chart.plot.destroy();
    for (const figure of document.querySelectorAll("figure")) {
      figure.textContent = "";
      const table = numbers[figure.dataset.table];
      if (table.columns[0].values.length > 0) draw[table.chart](figure, table);
    }
  };

  for (const section of document.querySelectorAll("section")) {
    addCsv(section, numbers[section.id]);
    const details = section.querySelector("details");
    if (details) details.open = false;
  }
  drawAll();
  dark.addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const { plot, figure, height } of charts)
      plot.setSize({ width: Math.max(240, figure.clientWidth), height });
  });
  /* Paper is light. */
  const paper = (on) => () => {
    document.documentElement.classList.toggle("printed", on);
    drawAll();
  };
  addEventListener("beforeprint", paper(true));
  addEventListener("afterprint", paper(false));
})();
