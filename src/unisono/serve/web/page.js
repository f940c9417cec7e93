"use strict";
// The page of `unisono serve`. It talks to nobody but the server it came from.

const at = (id) => document.getElementById(id);
const PAUSE_MS = 500;
const ALTERNATIVES = 3;
const UNSURE = 0.7, DOUBTFUL = 0.4;
let languages = [], settings = {}, waiting = null, running = null, sentences = [], chosen = -1;

async function ask(path, fields) {
  const options = fields && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(fields),
    signal: running && running.signal,
  };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}

function option(code, name) {
  const made = document.createElement("option");
  made.value = code;
  made.textContent = name;
  return made;
}

const named = (code) => (languages.find((one) => one.code === code) || { name: code }).name;
const targetsOf = (code) =>
  code === "auto"
    ? [...new Set(languages.flatMap((one) => one.targets))].sort()
    : (languages.find((one) => one.code === code) || { targets: [] }).targets;

function showTargets(wanted) {
  const codes = targetsOf(at("source").value);
  at("target").replaceChildren(...codes.map((code) => option(code, named(code))));
  at("target").value = codes.includes(wanted) ? wanted : codes[0];
  showSwap();
}

function showSwap() {
  const [from, to] = [at("source").value, at("target").value];
  at("swap").disabled = from === "auto" || !targetsOf(to).includes(from);
}

async function start() {
  [languages, settings] = await Promise.all([ask("/languages"), ask("/frontend/settings")]);
  const sources = languages.filter((one) => one.targets.length);
  const choices = sources.map((one) => option(one.code, one.name));
  if (settings.canDetect && sources.length > 1) choices.unshift(option("auto", "Detect language"));
  at("source").replaceChildren(...choices);
  at("source").value = settings.language.source.code;
  showTargets(settings.language.target.code);
  at("key-form").hidden = !settings.keyRequired;
  at("key").value = sessionStorage.getItem("key") || "";
  count();
}

function count() {
  const length = [...at("text").value].length;
  at("count").textContent = `${length.toLocaleString()} of ${settings.charLimit.toLocaleString()} characters`;
  at("count").classList.toggle("error", length > settings.charLimit);
}

function say(text, isError = false) {
  at("status").textContent = text;
  at("status").classList.toggle("error", isError);
}

function later() {
  clearTimeout(waiting);
  waiting = setTimeout(translate, PAUSE_MS);
}

async function translate() {
  clearTimeout(waiting);
  if (running) running.abort();
  const text = at("text").value;
  if (!text.trim()) return show({ translatedText: "", sentences: [] });
  const mine = (running = new AbortController());
  at("output").setAttribute("aria-busy", "true");
  say("Translating …");
  try {
    const fields = { q: text, source: at("source").value, target: at("target").value };
    const key = at("key").value;
    show(await ask("/translate", { ...fields, alternatives: ALTERNATIVES, sentences: true, ...(key && { api_key: key }) }));
  } catch (error) {
    if (mine === running) say(error.message, true);
  }
  if (mine === running) at("output").setAttribute("aria-busy", "false");
}

function show(answer) {
  at("output").lang = at("target").value;
  at("output").replaceChildren();
  at("details").hidden = true;
  [sentences, chosen] = [answer.sentences, -1];
  let done = 0;
  sentences.forEach((one, number) => {
    const start = answer.translatedText.indexOf(one.text, done);
    if (start < 0) return;
    at("output").append(answer.translatedText.slice(done, start), button(one, number));
    done = start + one.text.length;
  });
  at("output").append(answer.translatedText.slice(done));
  at("copy").disabled = !answer.translatedText;
  const found = answer.detectedLanguage;
  const least = Math.min(...sentences.map((one) => one.confidence));
  const parts = [];
  if (found) parts.push(`Detected: ${named(found.language)} (${found.confidence} %)`);
  if (sentences.length) parts.push(`${sentences.length > 1 ? "Least sure sentence" : "Sure"}: ${percent(least)}`);
  say(parts.join(" · "));
}

const percent = (share) => `${Math.round(100 * share)} %`;
const grade = (share) => (share < DOUBTFUL ? "doubtful" : share < UNSURE ? "unsure" : "");

// Not a <button>: browsers make that a block, and a sentence has to flow as text does.
function button(one, number) {
  const made = document.createElement("span");
  made.tabIndex = 0;
  made.setAttribute("role", "button");
  made.className = `one ${grade(one.confidence)}`;
  made.textContent = one.text;
  made.title = `${percent(one.confidence)} sure`;
  made.setAttribute("aria-pressed", "false");
  made.addEventListener("click", () => choose(number, made));
  made.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(number, made);
  });
  return made;
}

function choose(number, made) {
  const wasChosen = chosen === number && !at("details").hidden;
  for (const other of at("output").querySelectorAll(".one")) other.setAttribute("aria-pressed", "false");
  at("details").hidden = wasChosen;
  if (wasChosen) return;
  chosen = number;
  made.setAttribute("aria-pressed", "true");
  const one = sentences[number];
  at("sure").value = one.confidence;
  at("sure-label").textContent = `${percent(one.confidence)} sure`;
  at("sentence").textContent = one.source;
  at("alternatives").replaceChildren(...one.alternatives.map((other) => alternative(other, number, made)));
}

function alternative(other, number, made) {
  const item = document.createElement("li");
  const take = document.createElement("button");
  const [text, share] = [document.createElement("span"), document.createElement("span")];
  take.type = "button";
  text.textContent = other.text;
  share.textContent = percent(other.confidence);
  share.className = "quiet";
  take.append(text, share);
  take.addEventListener("click", () => {
    const one = sentences[number];
    const before = { text: one.text, confidence: one.confidence };
    const rest = one.alternatives.map((known) => (known === other ? before : known));
    sentences[number] = { ...one, ...other, alternatives: rest };
    const replaced = button(sentences[number], number);
    made.replaceWith(replaced);
    chosen = -1;
    choose(number, replaced);
    replaced.focus();
  });
  item.append(take);
  return item;
}

async function copy() {
  const text = at("output").textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(at("output"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    say("Selected: press Ctrl+C to copy");
  }
}

function swap() {
  if (at("swap").disabled) return;
  const [from, to] = [at("source").value, at("target").value];
  at("text").value = at("output").textContent || at("text").value;
  at("source").value = to;
  showTargets(from);
  count();
  translate();
}

at("text").addEventListener("input", () => { count(); later(); });
at("source").addEventListener("change", () => { showTargets(at("target").value); translate(); });
at("target").addEventListener("change", () => { showSwap(); translate(); });
at("translate").addEventListener("click", translate);
at("copy").addEventListener("click", copy);
at("swap").addEventListener("click", swap);
at("clear").addEventListener("click", () => { at("text").value = ""; count(); translate(); at("text").focus(); });
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", at("key").value);
  translate();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "Enter") translate();
  else if (event.altKey && event.key.toLowerCase() === "c") copy();
  else if (event.altKey && event.key.toLowerCase() === "s") swap();
  else if (event.key === "Escape") at("details").hidden = true;
  else return;
  event.preventDefault();
});
start().catch((error) => say(error.message, true));
