/* The cross-hair: at a step, every panel shows its values there. Without this script the page
   shows those at the end of the run. Curves carry their numbers in their paths. Panels with
   another axis, such as minutes, have a cross-hair of their own. On the live page, charts change:
   "charts-change" comes before, "charts-changed" after. */
"use strict";
(() => {
  const line = (path) => path.slice(1).split("L").map((point) => point.split(" ").map(Number));

  /* "M e0 0 V top H e1 V top H e2 … V0Z": tops of columns and where they end. */
  const columns = (path) =>
    path.split("V").slice(1, -1).map((column) => column.split("H").map(Number));

  const nearest = (points, step) => {
    let low = 0;
    let high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= step) low = middle;
      else high = middle;
    }
    return step - points[low][0] <= points[high][0] - step ? points[low] : points[high];
  };

  const written = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

  const readCurve = (path, panel, place) => ({
    points: line(path.getAttribute("d")),
    digits: Number(path.dataset.digits),
    output: panel.querySelector(`[data-value="${place}"]`),
  });

  const readLayers = (panel) => {
    const layers = [...panel.querySelectorAll("path.layer")].map((path) => ({
      tops: columns(path.getAttribute("d")),
      digits: Number(path.dataset.digits),
      output: panel.querySelector(`[data-value="${path.dataset.place}"]`),
      place: Number(path.dataset.place),
    }));
    return layers.sort((a, b) => a.place - b.place);
  };

  const spanOf = ({ dataset }) => ({
    low: Number(dataset.low), high: Number(dataset.high), unit: dataset.unit,
  });

  const readPanel = (panel) => {
    const field = panel.querySelector(".field");
    const hair = document.createElement("div");
    hair.className = "hair";
    hair.hidden = true;
    field.append(hair);
    const curves = [...panel.querySelectorAll("path.curve")];
    return {
      panel,
      field,
      hair,
      when: panel.querySelector(".when"),
      curves: curves.map((path) => readCurve(path, panel, path.dataset.place)),
      layers: readLayers(panel),
      marks: [...panel.querySelectorAll(".lane i")],
      told: panel.querySelector(".told"),
      span: spanOf(field),
    };
  };

  let panels = [];

  const prepare = () => {
    if (panels.length) return;
    panels = [...document.querySelectorAll(".panel")].map(readPanel);
    for (const text of document.querySelectorAll("[data-value], .when, .told"))
      text.dataset.first = text.textContent;
  };

  const showCurve = ({ points, digits, output }, step, span) => {
    const near = nearest(points, step);
    const far = Math.abs(near[0] - step) > 0.02 * (span.high - span.low);
    const place = far ? ` at ${written(Math.round(near[0]), 0)}` : "";
    output.textContent = written(near[1], digits);
    output.dataset.at = place;
  };

  const showLayers = (layers, step) => {
    let below = 0;
    for (const { tops, digits, output } of layers) {
      const [top] = tops.find(([, end]) => end >= step) ?? tops[tops.length - 1];
      output.textContent = written(top - below, digits);
      below = top;
    }
  };

  const show = (step, here) => {
    prepare();
    const { low, high, unit } = spanOf(here);
    const left = (100 * (step - low)) / (high - low);
    const words = `${unit} ${written(step, 0)}`;
    for (const one of panels.filter(({ span }) => span.unit === unit)) {
      one.hair.hidden = false;
      one.hair.style.left = `${left}%`;
      one.hair.classList.toggle("left", left > 50);
      one.hair.dataset.at = one.field === here ? words : "";
      if (one.when) one.when.textContent = words;
      for (const curve of one.curves) showCurve(curve, step, one.span);
      showLayers(one.layers, step);
      if (one.told) {
        const near = one.marks.filter(
          (mark) => Math.abs(Number(mark.dataset.step) - step) <= 0.008 * (high - low),
        );
        one.told.textContent = near.map((mark) => mark.title).join(" · ") || one.told.dataset.first;
      }
    }
  };

  const hide = () => {
    if (panels.every(({ hair }) => hair.hidden)) return;
    for (const one of panels) one.hair.hidden = true;
    for (const text of document.querySelectorAll("[data-first]")) {
      text.textContent = text.dataset.first;
      text.removeAttribute("data-at");
    }
  };

  let at = null;
  let unit = null;
  let pointed = null;
  const moved = (field, place) => {
    const span = spanOf(field);
    if (span.unit !== unit) hide();
    unit = span.unit;
    pointed = field;
    at = Math.round(Math.min(span.high, Math.max(span.low, place)));
    show(at, field);
  };

  const point = (event) => {
    const field = event.target instanceof Element ? event.target.closest(".field") : null;
    if (!field) {
      at = null;
      hide();
      return;
    }
    const place = field.getBoundingClientRect();
    const { low, high } = spanOf(field);
    moved(field, low + ((event.clientX - place.left) / place.width) * (high - low));
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);

  document.addEventListener("keydown", (event) => {
    const stack = event.target instanceof Element ? event.target.closest(".stack") : null;
    if (!stack) return;
    const field = stack.querySelector(".field");
    const span = spanOf(field);
    const stride = Math.max(1, Math.round((span.high - span.low) / 100));
    const now = span.unit === unit ? (at ?? span.high) : span.high;
    const next = {
      ArrowLeft: now - stride, ArrowRight: now + stride, Home: span.low, End: span.high,
    }[event.key];
    if (event.key === "Escape") hide();
    if (next === undefined) return;
    event.preventDefault();
    moved(field, next);
  });

  document.addEventListener("charts-change", () => {
    hide();
    for (const { hair } of panels) hair.remove();
    for (const text of document.querySelectorAll("[data-first]")) text.removeAttribute("data-first");
    panels = [];
  });
  document.addEventListener("charts-changed", () => {
    if (at !== null && pointed.isConnected) moved(pointed, at);
  });
})();
