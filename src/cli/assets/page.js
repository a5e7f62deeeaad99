"use strict";
/* Draws each figure of the page from its numbers, and makes CSV of them. */
(() => {
  document.documentElement.classList.add("drawn"); // figures have room now
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const charts = []; // {plot, figure, height}
  const css = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = 12;
  const colour = (i) => css("--s" + (i % COLOURS + 1));
  const FONT = "12px system-ui, -apple-system, \"Segoe UI\", Roboto, " +
    "\"DejaVu Sans\", sans-serif";

  /* ---- numbers as text ---- */

  const round = (v, n) => v.toLocaleString("en",
    { maximumFractionDigits: n, useGrouping: true }).replace(/,/g, "\u202f");
  const digits = (v) => Math.abs(v) >= 1000 ? round(v, 0)
    : v.toLocaleString("en", { maximumSignificantDigits: 4 });
  const time = (ns) => ns >= 1e9 ? round(ns / 1e9, 2) + " s"
    : ns >= 1e6 ? round(ns / 1e6, 1) + " ms" : round(ns / 1e3, 0) + " µs";
  const text = (column, v) => v == null ? "–"
    : column.kind === "ns" ? time(v)
    : column.kind === "share" ? v.toFixed(2) + " %"
    : column.kind === "real" ? digits(v)
    : column.kind === "text" ? v : round(v, 3);
  const short = (v) => v == null ? "" : v >= 1e9 ? round(v / 1e9, 1) + "G"
    : v >= 1e6 ? round(v / 1e6, 1) + "M"
    : v >= 1e4 ? round(v / 1e3, 1) + "k" : round(v, 2);

  /* ---- CSV, as RFC 4180 has it ---- */

  const field = (v) => v == null ? "" : /[",\r\n]/.test(v)
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
      const tier = lane.title.replace(/ [\d.]+$/, "");
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
        " pages each";
      figure.append(name);
      const number = (k) => rows[k].title.match(/[\d.]+$/)[0];
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

  /* ---- any two columns over each other ---- */

  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const beside = (name, ...inside) => {
    const element = document.createElement(name);
    element.append(...inside);
    return element;
  };

  /* A column as numbers: of texts, which of its levels; times in ms. */
  const measure = (column) => {
    if (column.kind === "text") {
      const levels = [...new Set(column.values)].sort(natural);
      const at = new Map(levels.map((v, i) => [v, i]));
      return { column, levels, values: column.values.map((v) => at.get(v)),
        label: column.title };
    }
    const scale = column.kind === "ns" ? 1e-6 : 1;
    return { column, levels: null,
      values: column.values.map((v) => v == null ? null : v * scale),
      label: column.title + (column.kind === "ns" ? ", ms"
        : column.kind === "share" ? ", %" : "") };
  };
  const extent = (values) => values.reduce(([lo, hi], v) => v == null
    ? [lo, hi] : [Math.min(lo, v), Math.max(hi, v)], [Infinity, -Infinity]);

  /* What uPlot is told of one of the two. */
  const scaleOf = (m) => ({ time: false, range: () => {
    if (m.levels) return [-.5, m.levels.length - .5];
    const [lo, hi] = extent(m.values);
    const pad = (hi - lo) * .05 || Math.abs(hi) * .05 || 1;
    return lo <= hi ? [lo - pad, hi + pad] : [0, 1];
  } });
  const ticksOf = (m, most) => {
    // as many digits as tell neighbours apart
    if (!m.levels) return { values: (_, ticks, a, space, step) =>
      ticks.map((v) => Math.abs(v) >= 1e4 ? short(v)
        : round(v, Math.max(0, -Math.floor(Math.log10(step))))) };
    const step = Math.ceil(m.levels.length / most);
    return { splits: () => m.levels.map((_, i) => i)
      .filter((i) => i % step === 0),
      values: (_, ticks) => ticks.map((i) => m.levels[i]) };
  };

  /* A colour for each point, and what tells them apart. */
  const colours = (m) => {
    const legend = beside("p");
    legend.className = "levels";
    legend.append(beside("span", m.column.title + ":"));
    if (m.levels && m.levels.length <= COLOURS) {
        m.levels.forEach((level, i) => {
            const dot            = beside("i");
            dot.style.background = colour(i);
            legend.append(beside("span", dot, level));
        });
        return {of : (i) => colour(m.values[i]), legend};
    }
    const [lo, hi] = extent(m.values);
    const [from, to] = [css("--s2"), css("--s1")];
    const shades = Array.from({ length: 33 }, (_, i) => mix(from, to, i / 32));
    const ramp = beside("i");
    ramp.className = "shades";
    ramp.style.background = `linear-gradient(90deg, ${from}, ${to})`;
    const say = (v) => m.levels ? m.levels[v] : lo <= hi ? digits(v) : "–";
    legend.append(beside("span", say(lo)), ramp, beside("span", say(hi)));
    return { of: (i) => m.values[i] == null ? css("--soft")
      : shades[Math.round(32 * (m.values[i] - lo) / (hi - lo || 1))], legend };
  };

  const scatter = (figure, table) => {
    const { columns, state } = table;
    const good = columns[table.axes.good].values;
    const words = columns.slice(0, table.shown)
      .filter((c) => c.kind === "text");
    const say = (i) => [`${columns[0].title} ${columns[0].values[i]}`,
      ...words.map((c) => `${c.title}: ${c.values[i]}`),
      ...[...new Set([state.x, state.y, state.colour])]
        .filter((c) => !words.includes(columns[c]) && c !== 0)
        .map((c) => `${columns[c].title}: ` +
          text(columns[c], columns[c].values[i]))];
    const controls = beside("p");
    controls.className = "controls";
    const holder = beside("div");
    const point = beside("p");
    point.className = "point";
    point.setAttribute("aria-live", "polite");
    const tip = beside("div");
    tip.className = "tip";
    let shown = null;
    figure.append(controls, holder, point);

    const drawPoints = (xs, ys, shade) => (u) => {
      const { ctx, bbox } = u;
      const ratio = devicePixelRatio;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      // the best, which come first, lie on top
      for (let i = columns[0].values.length - 1; i >= 0; i--) {
        if (xs[i] == null || ys[i] == null) continue;
        const x = u.valToPos(xs[i], "x", true);
        const y = u.valToPos(ys[i], "y", true);
        ctx.beginPath();
        ctx.arc(x, y, 4.5 * ratio, 0, 2 * Math.PI);
        ctx.lineWidth = 1.5 * ratio;
        ctx.globalAlpha = good[i] ? .9 : .65;
        ctx.strokeStyle = ctx.fillStyle = shade(i);
        if (good[i]) ctx.fill();
        ctx.stroke();
        if (i !== state.picked) continue;
        ctx.beginPath();
        ctx.arc(x, y, 9 * ratio, 0, 2 * Math.PI);
        ctx.globalAlpha = 1;
        ctx.strokeStyle = css("--ink");
        ctx.stroke();
      }
      ctx.restore();
    };

    /* The point under the pointer, and how many others lie there. */
    const look = (xs, ys) => (u) => {
      const { left, top } = u.cursor;
      let nearest = 144;
      let others = 0;
      shown = null;
      for (let i = 0; left >= 0 && i < xs.length; i++) {
        if (xs[i] == null || ys[i] == null) continue;
        const far = (u.valToPos(xs[i], "x") - left) ** 2 +
          (u.valToPos(ys[i], "y") - top) ** 2;
        if (far < nearest) [nearest, shown] = [far, i];
      }
      tip.hidden = shown == null;
      if (shown == null) return;
      for (let i = 0; i < xs.length; i++)
        others += i !== shown && xs[i] === xs[shown] && ys[i] === ys[shown];
      tip.replaceChildren(...say(shown).map((line) => beside("div", line)),
        others > 0 ? beside("div", `and ${others} more here`) : "");
      const right = left > u.over.clientWidth / 2;
      tip.style.left = right ? "" : left + 14 + "px";
      tip.style.right = right ? u.over.clientWidth - left + 14 + "px" : "";
      tip.style.top = Math.min(top, Math.max(0, u.over.clientHeight -
        tip.offsetHeight)) + "px";
    };

    let chart = null;
    const plot = () => {
      if (chart) charts.splice(charts.indexOf(chart), 1)[0].plot.destroy();
      holder.textContent = "";
      const x = measure(columns[state.x]);
      const y = measure(columns[state.y]);
      const paint = colours(measure(columns[state.colour]));
      const order = x.values.map((_, i) => i)
        .filter((i) => x.values[i] != null && y.values[i] != null)
        .sort((a, b) => x.values[a] - x.values[b]);
      const u = add(holder, {
        legend: { show: false },
        cursor: { points: { show: false },
          drag: { x: true, y: true, uni: 20, dist: 5 } },
        scales: { x: scaleOf(x), y: scaleOf(y) },
        axes: [xAxis({ label: x.label, ...ticksOf(x, 12) }),
          axis({ label: y.label, size: 64, ...ticksOf(y, 14) })],
        series: [{}, { paths: () => null, points: { show: false } }],
        hooks: { draw: [drawPoints(x.values, y.values, paint.of)],
          setCursor: [look(x.values, y.values)] },
      }, [order.map((i) => x.values[i]), order.map((i) => y.values[i])], 420);
      chart = charts[charts.length - 1];
      tip.hidden = true;
      u.over.append(tip);
      u.over.addEventListener("click", () => {
        if (shown != null) table.pick(shown, true);
      });
      holder.append(paint.legend);
    };

    for (const [name, key] of [["down", "y"], ["across", "x"],
      ["colour", "colour"]]) {
      const select = beside("select");
      select.name = key;
      columns.forEach((c, i) => {
        if (i !== table.axes.good && c.title !== words.at(-1).title)
          select.append(new Option(c.title, i, false, i === state[key]));
      });
      select.addEventListener("change", () => {
        state[key] = Number(select.value);
        plot();
      });
      controls.append(beside("label", name + " ", select));
    }
    table.redraw = () => {
      if (chart) chart.plot.redraw(false);
      point.textContent = state.picked == null ? ""
        : say(state.picked).join(" · ");
    };
    plot();
    table.redraw();
  };

  /* Titles sort the rows; rows show their point, at first the best one. */
  const makeSortable = (section, table) => {
    const box = section.querySelector(".scroll");
    const body = box.querySelector("tbody");
    const rows = [...body.rows];
    const heads = [...box.querySelectorAll("th")];
    const state = table.state = { ...table.axes, picked:
      table.columns[table.axes.x].values[0] == null ? null : 0 };
    rows[state.picked]?.classList.add("picked");
    table.pick = (i, scroll) => {
      if (state.picked != null) rows[state.picked]?.classList.remove("picked");
      state.picked = state.picked === i ? null : i;
      rows[state.picked]?.classList.add("picked");
      if (scroll && state.picked != null && rows[i])
        box.scrollTop = rows[i].offsetTop - box.clientHeight / 2;
      table.redraw();
    };
    const onPress = (element, act) => {
      element.tabIndex = 0;
      element.addEventListener("click", act);
      element.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          act();
        }
      });
    };
    rows.forEach((row, i) => onPress(row, () => table.pick(i, false)));
    heads.forEach((head, c) => onPress(head, () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const { kind, values } = table.columns[c];
      const compare = (a, b) => {
        if (values[a] == null || values[b] == null)
          return (values[a] == null) - (values[b] == null);
        return (down ? -1 : 1) * (kind === "text"
          ? natural(values[a], values[b]) : values[a] - values[b]);
      };
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows.map((_, i) => i)
        .sort((a, b) => compare(a, b) || a - b).map((i) => rows[i]));
    }));
  };

  const draw = {
    lines: (figure, table) => lines(figure, table, {}),
    curve: (figure, table) => lines(figure, table, {
      x: { distr: 3 }, axis: { values: (_, ticks) =>
        ticks.map((v) => Number.isInteger(Math.log10(v)) ? short(v) : "") } }),
    stack, histogram, heat, scatter };

  const drawAll = () => {
    for (const chart of charts.splice(0)) chart.plot.destroy();
    for (const figure of document.querySelectorAll("figure")) {
      figure.textContent = "";
      const table = numbers[figure.dataset.table];
      if (table.columns[0].values.length > 0) draw[table.chart](figure, table);
      else figure.append(beside("p", "There is nothing to draw."));
    }
  };

  for (const section of document.querySelectorAll("section")) {
    addCsv(section, numbers[section.id]);
    const details = section.querySelector("details");
    if (details) details.open = false;
    if (numbers[section.id].chart === "scatter")
      makeSortable(section, numbers[section.id]);
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
