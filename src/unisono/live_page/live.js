/* Keeps the page up to date: each event says what has changed in which part. The parts come
   as lines of HTML made by the server, which has escaped what comes from runs. */
"use strict";
(() => {
  const texts = new Map();
  const heard = document.getElementById("heard");
  const news = document.getElementById("news");

  const patched = (before, patch) => {
    if ("whole" in patch) return patch.whole.split("\n");
    const lines = [...before];
    if ("put" in patch) lines.splice(patch.at, patch.cut, ...patch.put);
    for (const [number, begin, end, middle] of patch.set ?? []) {
      const line = lines[number];
      lines[number] = line.slice(0, begin) + middle + line.slice(line.length - end);
    }
    return lines;
  };

  /* Make `old` like `fresh`, and leave alone what is the same: the reader may be pointing at it. */
  const morph = (old, fresh) => {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes])
      if (!fresh.hasAttribute(name) && name !== "open") // what the reader opened stays open
        old.removeAttribute(name);
    for (const { name, value } of fresh.attributes)
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    children(old, fresh);
  };

  const children = (old, fresh) => {
    const before = [...old.childNodes];
    const after = [...fresh.childNodes];
    before.slice(after.length).forEach((node) => node.remove());
    after.forEach((node, place) => {
      if (place < before.length) morph(before[place], node);
      else old.append(node);
    });
  };

  const show = (name) => {
    const place = document.querySelector(`[data-part="${name}"]`);
    if (!place) return;
    const template = document.createElement("template");
    template.innerHTML = texts.get(name).join("\n");
    children(place, template.content);
  };

  const tell = (words) => {
    news.textContent = words;
    news.hidden = !words;
  };

  const update = (event) => {
    const patches = Object.entries(JSON.parse(event.data));
    document.dispatchEvent(new Event("charts-change"));
    for (const [name, patch] of patches) {
      texts.set(name, patched(texts.get(name) ?? [], patch));
      show(name);
    }
    document.dispatchEvent(new Event("charts-changed"));
    heard.textContent = `Last change ${new Date().toLocaleTimeString()}.`;
    tell("");
  };

  const choose = () => {
    const runs = [...document.querySelectorAll("article.run")];
    const chosen = runs.find(({ id }) => `#${id}` === location.hash) ?? runs[0];
    for (const run of runs) run.hidden = run !== chosen;
    for (const tab of document.querySelectorAll(".tabs a"))
      tab.setAttribute("aria-current", tab.hash === `#${chosen.id}`);
  };
  addEventListener("hashchange", choose);
  choose();

  const listen = () => {
    const stream = new EventSource("/events");
    stream.onmessage = update;
    stream.onerror = () => {
      /* Closed: something answers, but with a refusal. A new start has a new link. */
      const refused = stream.readyState === EventSource.CLOSED;
      const why = refused
        ? "unisono watch does not admit this page: open the link that it printed last."
        : "No connection to unisono watch: this is the last state it sent.";
      tell(`${why} Trying again …`);
      if (refused) setTimeout(listen, 5000);
    };
  };
  listen();
})();
