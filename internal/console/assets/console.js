// The console's script. Pages are complete without it. It asks for the page again when the
// server reports a change and replaces the sections that differ, follows logs, selects
// time ranges on the timeline, and adds keys.
"use strict";

const status = document.getElementById("live");
const pause = 1000; // ms between two updates of the page, at least
let busy = false, wanted = false, last = 0, stopped = false;

function say(text, lost) {
	if (!status) return;
	status.classList.toggle("lost", Boolean(lost));
	if (status.textContent !== text) status.textContent = text;
}

// inUse reports whether replacing a section would disturb the user.
function inUse(section) {
	const active = document.activeElement;
	if (section.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName) && active.type !== "checkbox") return true;
	if (section.querySelector("details.action[open]")) return true; // what is typed there would be lost
	const selected = document.getSelection();
	return Boolean(selected && !selected.isCollapsed && section.contains(selected.anchorNode));
}

// replace puts the new section in the place of the old one and keeps what the user did:
// open details, scrolled tables, the focused element.
function replace(old, fresh) {
	for (const d of old.querySelectorAll("details[id][open]")) {
		const same = fresh.querySelector("#" + CSS.escape(d.id));
		if (same) same.open = true;
	}
	for (const box of old.querySelectorAll("input[type=checkbox]:checked")) {
		const same = fresh.querySelector('input[value="' + CSS.escape(box.value) + '"]');
		if (same) same.checked = true;
	}
	const scrolls = [...old.querySelectorAll(".scroll")].map((e) => e.scrollLeft);
	const stops = "a, button, summary, input, [tabindex]";
	const at = [...old.querySelectorAll(stops)].indexOf(document.activeElement);
	const href = at >= 0 ? document.activeElement.getAttribute("href") : null;
	old.replaceWith(fresh);
	fresh.querySelectorAll(".scroll").forEach((e, i) => { e.scrollLeft = scrolls[i] || 0; });
	if (at >= 0) {
		const all = [...fresh.querySelectorAll(stops)];
		const same = all.find((e) => href !== null && e.getAttribute("href") === href) || all[at];
		if (same) same.focus({ preventScroll: true });
	}
}

// show replaces the sections of this page by those of another version of it.
function show(text) {
	const next = new DOMParser().parseFromString(text, "text/html");
	const main = document.getElementById("main");
	const sections = [...next.querySelectorAll("[data-section]")];
	const ids = new Set(sections.map((e) => e.id));
	let before = null;
	for (const fresh of sections) {
		const old = document.getElementById(fresh.id);
		if (!old) {
			if (before) before.after(fresh); else main.append(fresh);
			before = fresh;
		} else if (old.outerHTML !== fresh.outerHTML && !inUse(old)) {
			replace(old, fresh);
			before = fresh;
		} else {
			before = old;
		}
	}
	for (const old of main.querySelectorAll("[data-section]")) {
		if (!ids.has(old.id) && !inUse(old)) old.remove();
	}
	if (!next.body.hasAttribute("data-live")) stop("This page is complete.");
	const time = next.getElementById("updated"), shown = document.getElementById("updated");
	if (time && shown) shown.replaceWith(time);
	rove(main);
	document.title = next.title;
	document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
}

async function update(url) {
	// Without a limit the page would wait for a frozen master for ever, and never say so.
	const answer = await fetch(url || location.href, { headers: { "X-Live": "1" }, signal: AbortSignal.timeout(url ? 60000 : 15000) });
	if (answer.redirected && new URL(answer.url).pathname === "/ui/login") {
		stop("You are signed out: load the page again.");
		return;
	}
	if (!answer.ok) throw new Error(answer.statusText);
	show(await answer.text());
}

// refresh updates the page, once at a time and not more often than once in a while.
async function refresh() {
	wanted = true;
	if (busy || stopped) return;
	busy = true;
	while (wanted && !stopped) {
		wanted = false;
		const wait = last + pause - Date.now();
		if (wait > 0) await new Promise((done) => setTimeout(done, wait));
		if (document.hidden) { wanted = false; break; }
		try {
			await update();
			if (!stopped && !silent) say("");
		} catch (e) {
			if (!silent) say("The page cannot be brought up to date: " + e.message, true);
		}
		last = Date.now();
	}
	busy = false;
}

// The server sends alive each second while the master answers. Without it for silence ms the page
// says that it shows the past. Together with the two seconds that the server waits for the master
// this takes less than five.
const silence = 2900;
let events = null, clock = null, watch = null, silent = false;

function heard() {
	clearTimeout(watch);
	if (silent) say("");
	silent = false;
	watch = setTimeout(() => {
		silent = true;
		const updated = document.getElementById("updated");
		say("The master does not answer. This page shows the state of " + (updated ? updated.textContent : "an earlier time") + ".", true);
	}, silence);
}

function stop(text) {
	stopped = true;
	disconnect();
	say(text);
}

function disconnect() {
	if (events) events.close();
	clearInterval(clock);
	clearTimeout(watch);
	events = clock = null;
	silent = false;
}

// connect listens for changes. A hidden page does not, because a browser opens few
// connections to a server without TLS.
function connect() {
	if (events || stopped || document.hidden) return;
	events = new EventSource("/ui/events");
	events.addEventListener("change", () => { heard(); refresh(); });
	events.addEventListener("alive", heard);
	events.onopen = () => { document.body.dataset.connected = "1"; };
	heard();
	clock = setInterval(refresh, 5000); // running times grow without an event
}

if (document.body.hasAttribute("data-live")) {
	connect();
	document.addEventListener("visibilitychange", () => {
		if (document.hidden) { disconnect(); return; }
		connect();
		refresh();
	});
}

// Logs: append what the attempt prints.
const keepLog = 1 << 20; // characters
async function follow(pre) {
	const answer = await fetch(pre.dataset.follow);
	if (!answer.ok || !answer.body) return;
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let text = "";
	for (;;) {
		const { value, done } = await reader.read();
		if (done) break;
		text = (text + value).slice(-keepLog);
		const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 8;
		pre.textContent = text;
		if (atEnd) pre.scrollTop = pre.scrollHeight;
	}
	say("The log is complete.");
}
for (const pre of document.querySelectorAll("pre[data-follow]")) {
	pre.scrollTop = pre.scrollHeight;
	follow(pre).catch((e) => say("The log ends here: " + e.message));
}

// go shows another range of the timeline without loading the page.
async function go(href) {
	const scroll = window.scrollY;
	history.replaceState(null, "", href);
	window.scrollTo(0, scroll);
	await update(location.href.split("#")[0]).catch((e) => say(e.message));
}

// Zoom: drag over a timeline to select a range.
let drag = null, dragged = false;
function timeAt(svg, clientX) {
	const box = svg.getBoundingClientRect();
	const part = Math.min(1, Math.max(0, (clientX - box.left) / box.width));
	return { x: part * svg.viewBox.baseVal.width, t: Math.round(Number(svg.dataset.from) + part * (Number(svg.dataset.to) - Number(svg.dataset.from))) };
}
function range(from, to) {
	const u = new URL(location.href);
	u.searchParams.set("from", String(Math.min(from, to)));
	u.searchParams.set("to", String(Math.max(from, to)));
	u.hash = "timeline";
	return u.href;
}
document.addEventListener("pointerdown", (e) => {
	const svg = e.target.closest && e.target.closest("svg[data-from]");
	if (!svg || e.button !== 0 || e.pointerType === "touch") return;
	const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
	mark.setAttribute("class", "select");
	mark.setAttribute("y", "0");
	mark.setAttribute("height", String(svg.viewBox.baseVal.height));
	drag = { svg, mark, begin: timeAt(svg, e.clientX) };
});
document.addEventListener("pointermove", (e) => {
	if (!drag) return;
	e.preventDefault();
	const here = timeAt(drag.svg, e.clientX);
	if (!drag.mark.parentNode) drag.svg.append(drag.mark);
	drag.mark.setAttribute("x", String(Math.min(here.x, drag.begin.x)));
	drag.mark.setAttribute("width", String(Math.abs(here.x - drag.begin.x)));
});
document.addEventListener("pointerup", (e) => {
	if (!drag) return;
	const { svg, mark, begin } = drag, here = timeAt(svg, e.clientX);
	drag = null;
	mark.remove();
	if (Math.abs(here.x - begin.x) <= 4) return;
	dragged = true; // the click that follows is no wish to open an attempt
	setTimeout(() => { dragged = false; });
	go(range(begin.t, here.t));
});
document.addEventListener("dragstart", (e) => { if (e.target.closest && e.target.closest(".plot")) e.preventDefault(); });
document.addEventListener("click", (e) => {
	if (dragged) { e.preventDefault(); return; }
	const link = e.target.closest && e.target.closest(".zoom a");
	if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return;
	e.preventDefault();
	go(link.href);
});

// The marks of a chart and the squares of nodes are one stop of the Tab key each; the arrow keys
// lead from one to the next. Without a script each is a stop.
function rove(root) {
	for (const group of root.querySelectorAll(".plot, .squares")) {
		const links = [...group.querySelectorAll("a")];
		const current = links.includes(document.activeElement) ? document.activeElement : links[0];
		for (const a of links) a.setAttribute("tabindex", a === current ? "0" : "-1");
	}
}
rove(document);
document.addEventListener("keydown", (e) => {
	const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
	const group = step && e.target.closest && e.target.closest(".plot, .squares");
	if (!group) return;
	const links = [...group.querySelectorAll("a")], next = links[links.indexOf(e.target) + step];
	e.preventDefault();
	if (!next) return;
	e.target.setAttribute("tabindex", "-1");
	next.setAttribute("tabindex", "0");
	next.focus();
});

// Times are the server's. Beside the pointer they are in the reader's zone.
document.addEventListener("pointerover", (e) => {
	const time = e.target.closest && e.target.closest("time[datetime]");
	if (time) time.title = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
});

// Keys.
const pages = { o: "/ui/", j: "/ui/jobs", n: "/ui/nodes", p: "/ui/policy", w: "/ui/whatif", h: "/ui/history" };
const keys = [
	["g then o, j, n, p, w, h", "overview, jobs, nodes, policy, what if, history"],
	["/", "search field"],
	["+ and -", "zoom the timeline"],
	["arrows", "from bar to bar and from node to node"],
	["[ and ]", "earlier, later"],
	["0", "the whole time"],
	["< and >", "previous and next page of a list"],
	["?", "this list"],
];
let going = false;
function help() {
	const box = document.createElement("dialog");
	const title = document.createElement("h2");
	title.textContent = "Keys";
	const list = document.createElement("dl");
	for (const [key, what] of keys) {
		const dt = document.createElement("dt"), dd = document.createElement("dd");
		dt.textContent = key;
		dd.textContent = what;
		list.append(dt, dd);
	}
	const close = document.createElement("button");
	close.textContent = "Close";
	close.addEventListener("click", () => box.close());
	box.append(title, list, close);
	box.addEventListener("close", () => box.remove());
	document.body.append(box);
	box.showModal();
}
document.addEventListener("keydown", (e) => {
	if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || document.querySelector("dialog[open]")) return;
	if (going) {
		going = false;
		if (pages[e.key]) location.assign(pages[e.key]);
		return;
	}
	const zoom = document.querySelector('.zoom a[data-key="' + CSS.escape(e.key) + '"]');
	const turn = { "<": "prev", ">": "next" }[e.key];
	if (e.key === "g") {
		going = true;
	} else if (e.key === "?") {
		help();
	} else if (e.key === "/") {
		const field = document.querySelector('input[type="search"]');
		if (field) { e.preventDefault(); field.focus(); }
	} else if (zoom) {
		e.preventDefault();
		go(zoom.href);
	} else if (turn) {
		const link = document.querySelector('a[rel="' + turn + '"]');
		if (link) link.click();
	}
});
document.body.dataset.ready = "1";
